//! The processes of a container as a program inside it sees them (`/probe inspect`): gVisor's are in no
//! `/proc` of the host.

use kit::TIMEOUT;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs until it is dropped, so it works in a container that can start no more processes.
pub(crate) struct Inspector {
    client: Child,
    requests: Mutex<(ChildStdin, Receiver<String>)>,
}

impl Inspector {
    pub(crate) fn start(container: &str) -> Self {
        let exec = ["exec", "--interactive", container, "/probe", "inspect"];
        let mut command = Command::new("docker");
        let mut client = command.args(exec).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        // A thread, because the client of a container that has ended may wait forever.
        let (sender, responses) = channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { client, requests: Mutex::new((input, responses)) }
    }

    #[track_caller]
    fn request(&self, request: &str) -> Value {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, responses) = &mut *requests;
        writeln!(input, "{request}").unwrap();
        let line = responses.recv_timeout(TIMEOUT).expect("the container does not respond");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{request}: {line:?}: {error}"))
    }

    /// All processes of its process namespace, except inspectors.
    #[track_caller]
    pub(crate) fn processes(&self) -> Vec<Process> {
        let processes = self.request("processes");
        processes.as_array().expect("/proc is not readable").iter().map(Process::new).collect()
    }

    /// A file of `/proc/<pid>`.
    #[track_caller]
    pub(crate) fn read(&self, process: &Process, name: &str) -> String {
        let content = self.request(&format!("read /proc/{}/{name}", process.pid));
        content.as_str().unwrap_or_else(|| panic!("{name} of {process:?} is not readable")).to_owned()
    }

    /// The number of entries of a directory of `/proc/<pid>`.
    #[track_caller]
    pub(crate) fn count(&self, process: &Process, name: &str) -> u64 {
        let count = self.request(&format!("count /proc/{}/{name}", process.pid));
        count.as_u64().unwrap_or_else(|| panic!("{name} of {process:?} is not readable"))
    }

    /// A line of `/proc/<pid>/status` that is a number of KiB.
    #[track_caller]
    pub(crate) fn kib(&self, process: &Process, name: &str) -> u64 {
        let status = self.read(process, "status");
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let value = value.unwrap_or_else(|| panic!("no {name} in {status}"));
        value.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        drop(self.client.kill());
        drop(self.client.wait());
    }
}

/// A process, with its pid in the container.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) line: String,
    state: String,
}

impl Process {
    fn new(json: &Value) -> Self {
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        let pid = json["pid"].as_u64().unwrap().try_into().unwrap();
        Self { pid, line: text("line"), state: text("state") }
    }

    pub(crate) fn is_zombie(&self) -> bool {
        self.state == "Z"
    }
}
