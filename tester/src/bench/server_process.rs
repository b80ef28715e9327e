//! A server process started by the tester, and stopped with all its descendants on drop.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{BenchClient, SMALL_BUFFER_BYTES};
use super::proc::{Process, process_tree};
use crate::http::{Deadline, Server};
use crate::request::Request;

/// Between two checks whether a process has started or stopped.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// The time for a process to stop after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct ServerProcess {
    child: Child,
}

impl ServerProcess {
    /// Also returns the time until the first 200.
    pub(super) fn start(
        argv: &[String],
        server: &Server,
        timeout: Duration,
    ) -> Result<(Self, Duration), String> {
        let (program, arguments) = argv.split_first().ok_or("no command to start")?;
        if server.connect(Deadline::after(timeout)).is_ok() {
            return Err(format!("another server is already listening at {}", server.name));
        }
        let health = Request::new("GET", "/").header("Connection", "close").encode(&server.name);
        let begin = Instant::now();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start {program:?}: {error}"))?;
        let mut started = Self { child };
        loop {
            let response = BenchClient::connect(server, timeout, SMALL_BUFFER_BYTES)
                .and_then(|mut client| client.expect_ok(&health));
            let elapsed = begin.elapsed();
            if response.is_ok() {
                return Ok((started, elapsed));
            }
            if let Ok(Some(status)) = started.child.try_wait() {
                return Err(format!("{program:?} exited before it responded: {status}"));
            }
            if elapsed > timeout {
                return Err(format!("{program:?} did not respond at {} before the timeout", server.name));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // The child is not reaped yet, so its pid cannot belong to another process.
        let tree = process_tree(self.child.id());
        signal("-TERM", &[self.child.id()]);
        if !met_within(STOP_TIMEOUT, || !matches!(self.child.try_wait(), Ok(None))) {
            // Both fail only if the child has already exited.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // A child that does not forward signals, such as a shell, leaves the actual server running.
        for (timeout, name) in [(Duration::ZERO, "-TERM"), (STOP_TIMEOUT, "-KILL")] {
            if met_within(timeout, || running(&tree).is_empty()) {
                return;
            }
            signal(name, &running(&tree));
        }
        met_within(STOP_TIMEOUT, || running(&tree).is_empty());
    }
}

fn running(tree: &[Process]) -> Vec<u32> {
    tree.iter().filter(|process| process.is_running()).map(|process| process.pid).collect()
}

fn met_within(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > timeout {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// The standard library can send only SIGKILL. Without a `kill` program this does nothing, and the caller
/// escalates.
fn signal(name: &str, pids: &[u32]) {
    let mut command = Command::new("kill");
    command.arg(name).args(pids.iter().map(u32::to_string));
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::proc::{cpu_seconds, resident_bytes};

    #[test]
    fn process_tree_is_a_process_and_its_descendants() {
        let child = Command::new("sleep").arg("30").spawn().unwrap();
        let started = ServerProcess { child };
        // The processes of other tests are in this tree too, and may exit at any moment.
        let own = process_tree(std::process::id());
        assert!(own.iter().any(|process| process.pid == started.pid()));
        let tree = process_tree(started.pid());
        assert_eq!(tree.len(), 1);
        assert!(resident_bytes(&tree).is_some_and(|bytes| bytes > 4096));
        drop(started);
        assert!(running(&tree).is_empty());
        assert_eq!(cpu_seconds(&[]), None);
    }

    #[test]
    fn children_of_a_shell_are_stopped_too() {
        let child = Command::new("sh").args(["-c", "sleep 30 & sleep 31; true"]).spawn().unwrap();
        let started = ServerProcess { child };
        assert!(met_within(STOP_TIMEOUT, || process_tree(started.pid()).len() == 3));
        let tree = process_tree(started.pid());
        drop(started);
        assert!(running(&tree).is_empty());
    }
}
