//! The context of a check: the server, a directory of its own on it, and the programs known to be in its
//! image.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client::Client;
use crate::http::{Deadline, Server};
use crate::json::{self, Value};
use crate::request::{Request, encoded};
use crate::response::{Exchange, PREFIX, Ran, Stop, Verdict, fail};

/// How to treat a known difference of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Differences {
    Fail,
    Report,
}

/// A known difference of the reference, for [`Session::allow`].
#[derive(Clone, Copy)]
pub(crate) struct KnownDifference {
    pub(crate) name: &'static str,
    /// Whether the response is the one that the reference is known to send.
    pub(crate) observed: bool,
}

pub(crate) struct Session {
    pub(crate) server: Server,
    timeout: Duration,
    differences: Differences,
    /// Relative to the base directory; every file of the checks is below it.
    pub(crate) directory: String,
    /// The programs checked so far, and whether the image has them.
    programs: RefCell<BTreeMap<&'static str, bool>>,
}

impl Session {
    pub(crate) fn new(server: Server, timeout: Duration, differences: Differences) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let directory = format!("tester-{}-{}", process::id(), now.as_millis());
        Self { server, timeout, differences, directory, programs: RefCell::default() }
    }

    /// A name below [`Session::directory`], relative to the base directory.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    pub(crate) fn client(&self) -> Result<Client, Stop> {
        match self.server.connect(Deadline::after(self.timeout)) {
            Ok(connection) => Ok(Client::new(connection, &self.server.name)),
            Err(error) => Err(fail(b"", "a connection", error.to_string().as_bytes())),
        }
    }

    /// One request on its own connection.
    pub(crate) fn send(&self, request: Request) -> Result<Exchange, Stop> {
        let mut client = self.client()?;
        client.send_request(request.header("Connection", "close"))?;
        client.response()
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

    /// `name` is sent unchanged: it need not be below [`Session::directory`].
    pub(crate) fn upload(&self, name: &str, content: &[u8]) -> Result<Exchange, Stop> {
        self.send(Request::upload(name, content))
    }

    /// Uploads a file below [`Session::directory`] and returns its path.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> Result<String, Stop> {
        let path = self.path(name);
        self.upload(&path, content)?.expect_status(200)?;
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

    /// Skips the check if the image lacks one of `programs`. Each is run once, with `--help` because that
    /// makes any program exit soon; its output is ignored.
    pub(crate) fn needs(&self, programs: &[&'static str]) -> Verdict {
        for program in programs {
            let known = self.programs.borrow().get(program).copied();
            let is_present = match known {
                Some(is_present) => is_present,
                None => {
                    let missing = format!("{PREFIX}[Errno 2] No such file or directory: '{program}'");
                    let is_present = self.execute(&format!("{program} --help"))?.outcome.stderr != missing;
                    self.programs.borrow_mut().insert(program, is_present);
                    is_present
                }
            };
            if !is_present {
                return Err(Stop::Skip(format!("no {program} in the image")));
            }
        }
        Ok(())
    }

    /// With `--reference`, turns a failure into a report of the known difference that causes it.
    pub(crate) fn allow<T>(&self, result: Result<T, Stop>, difference: KnownDifference) -> Result<T, Stop> {
        match result {
            Err(Stop::Fail(_)) if difference.observed && self.differences == Differences::Report => {
                Err(Stop::Differs(difference.name))
            }
            result => result,
        }
    }

    /// Stops before a step that would hang the reference.
    pub(crate) fn skip_on_reference(&self, name: &'static str) -> Verdict {
        match self.differences {
            Differences::Report => Err(Stop::Differs(name)),
            Differences::Fail => Ok(()),
        }
    }
}
