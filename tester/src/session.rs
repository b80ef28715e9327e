//! What a check works with: one server, one directory of its own there, and what is known about its image.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::answer::{Exchange, PREFIX, Ran, Stop, Verdict, fail};
use crate::http::{Deadline, Server};
use crate::json::{self, Value};
use crate::request::{Request, encoded};
use crate::talk::Talk;

/// What to make of an answer that is wrong, and known to be the reference's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Differences {
    AreFailures,
    AreNamed,
}

/// How the reference is known to behave, for [`Session::differs`].
#[derive(Clone, Copy)]
pub(crate) struct Reference {
    pub(crate) which: &'static str,
    pub(crate) seen: bool,
}

pub(crate) struct Session {
    pub(crate) server: Server,
    wait: Duration,
    differences: Differences,
    /// Below the base directory; everything the checks make is in it.
    pub(crate) directory: String,
    /// Programs asked for so far, and whether the image has them.
    programs: RefCell<BTreeMap<&'static str, bool>>,
}

impl Session {
    pub(crate) fn new(server: Server, wait: Duration, differences: Differences) -> Session {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let directory = format!("tester-{}-{}", process::id(), now.as_millis());
        Session { server, wait, differences, directory, programs: RefCell::default() }
    }

    /// The name of a file of ours, as seen from the base directory.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    pub(crate) fn talk(&self) -> Result<Talk, Stop> {
        match self.server.connect(Deadline::after(self.wait)) {
            Ok(connection) => Ok(Talk::on(connection, &self.server.name)),
            Err(error) => Err(fail(b"", "a connection", error.to_string().as_bytes())),
        }
    }

    /// One request on a connection of its own.
    pub(crate) fn send(&self, request: Request) -> Result<Exchange, Stop> {
        let mut talk = self.talk()?;
        talk.request(request.header("Connection", "close"))?;
        talk.answer()
    }

    pub(crate) fn get(&self, target: &str) -> Result<Exchange, Stop> {
        self.send(Request::new("GET", target))
    }

    pub(crate) fn execute(&self, command: &str) -> Result<Ran, Stop> {
        self.send(Request::command(command))?.ran()
    }

    pub(crate) fn execute_for(&self, command: &str, timeout_seconds: &str) -> Result<Ran, Stop> {
        let command = json::string(command);
        self.execute_json(&format!("{{\"command\":{command},\"timeout_seconds\":{timeout_seconds}}}"))
    }

    pub(crate) fn execute_json(&self, body: &str) -> Result<Ran, Stop> {
        self.send(Request::json(body))?.ran()
    }

    /// `name` is used as it is: below [`Session::directory`] only if it says so.
    pub(crate) fn upload(&self, name: &str, content: &[u8]) -> Result<Exchange, Stop> {
        self.send(Request::upload(name, content))
    }

    /// A file that a check needs, below [`Session::directory`].
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> Result<String, Stop> {
        let path = self.path(name);
        self.upload(&path, content)?.status(200)?;
        Ok(path)
    }

    pub(crate) fn exists(&self, path: &str) -> Result<bool, Stop> {
        let exchange = self.get(&format!("/exists/{}", encoded(path)))?;
        match exchange.json()?.get("exists") {
            Some(Value::Bool(exists)) => Ok(*exists),
            _ => Err(exchange.fail("\"exists\": true or false")),
        }
    }

    /// Waits for a file to appear.
    pub(crate) fn appears(&self, path: &str, within: Duration) -> Result<bool, Stop> {
        let start = Instant::now();
        while !self.exists(path)? {
            if start.elapsed() > within {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(true)
    }

    /// Skips the check when the image lacks one of `programs`. Asked once for each: `--help` ends soon whatever the
    /// program is, and what it prints does not matter.
    pub(crate) fn needs(&self, programs: &[&'static str]) -> Verdict {
        for program in programs {
            let known = self.programs.borrow().get(program).copied();
            let there = match known {
                Some(there) => there,
                None => {
                    let missing = format!("{PREFIX}[Errno 2] No such file or directory: '{program}'");
                    let there = self.execute(&format!("{program} --help"))?.outcome.stderr != missing;
                    self.programs.borrow_mut().insert(program, there);
                    there
                }
            };
            if !there {
                return Err(Stop::Skip(format!("no {program} there")));
            }
        }
        Ok(())
    }

    /// Gives a failure the name of a difference from the reference, if it is one and if that is wanted.
    pub(crate) fn differs<T>(&self, result: Result<T, Stop>, reference: Reference) -> Result<T, Stop> {
        match result {
            Err(Stop::Fail(_)) if reference.seen && self.differences == Differences::AreNamed => {
                Err(Stop::Differs(reference.which))
            }
            result => result,
        }
    }

    /// Stops before a step that the reference is known not to survive.
    pub(crate) fn spare_the_reference(&self, which: &'static str) -> Verdict {
        match self.differences {
            Differences::AreNamed => Err(Stop::Differs(which)),
            Differences::AreFailures => Ok(()),
        }
    }
}
