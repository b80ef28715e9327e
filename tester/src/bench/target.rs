//! The server being measured, and its processes.

use std::thread;
use std::time::Duration;

use super::client::BenchClient;
use super::proc::{self, Process};
use super::server_process::ServerProcess;
use crate::http::Server;
use crate::response::{Stop, fail};
use crate::session::{Differences, Session};

/// How the processes of the server are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Processes {
    Unknown,
    /// A running server with this process id.
    Pid(u32),
    /// The argv of a server to start and stop.
    Command(Vec<String>),
}

pub(super) struct Target {
    pub(super) session: Session,
    /// The time limit for one exchange.
    pub(super) timeout: Duration,
    pub(super) processes: Processes,
    /// Only for [`Processes::Command`].
    started: Option<ServerProcess>,
}

/// Between the end of one server process and the start of the next.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

impl Target {
    pub(super) fn new(processes: Processes, server: Server, timeout: Duration) -> Result<Self, String> {
        let session = Session::new(server, timeout, Differences::Fail);
        let mut target = Self { session, timeout, processes, started: None };
        match target.processes {
            Processes::Command(_) => target.start().map(|_elapsed| target),
            Processes::Pid(pid) if target.process_tree().is_empty() => Err(format!("no process {pid}")),
            Processes::Pid(_) | Processes::Unknown => Ok(target),
        }
    }

    /// Starts the server again and returns how long the start took.
    pub(super) fn restart(&mut self) -> Result<Duration, Stop> {
        if !matches!(self.processes, Processes::Command(_)) {
            return Err(Stop::Skip("no -- SERVER".to_owned()));
        }
        self.start().map_err(|reason| fail(b"", "a server that starts", reason.as_bytes()))
    }

    fn start(&mut self) -> Result<Duration, String> {
        let Processes::Command(argv) = &self.processes else {
            return Err("no command to start".to_owned());
        };
        if self.started.take().is_some() {
            // The kernel finishes the cleanup of the previous process before the next start is timed.
            thread::sleep(RESTART_PAUSE);
        }
        let (started, elapsed) = ServerProcess::start(argv, &self.session.server, self.timeout)?;
        self.started = Some(started);
        Ok(elapsed)
    }

    pub(super) fn client(&self, buffer_bytes: usize) -> Result<BenchClient, Stop> {
        BenchClient::connect(&self.session.server, self.timeout, buffer_bytes)
    }

    /// The processes of the server, if they are known. To be called while no command runs.
    pub(super) fn process_tree(&self) -> Vec<Process> {
        match (&self.processes, &self.started) {
            (Processes::Pid(pid), _) => proc::process_tree(*pid),
            (_, Some(started)) => proc::process_tree(started.pid()),
            (_, None) => Vec::new(),
        }
    }

    pub(super) fn memory_bytes(&self, of: fn(&[Process]) -> Option<u64>) -> Result<f64, Stop> {
        match self.processes {
            Processes::Unknown => Err(Stop::Skip("neither -- SERVER nor --pid".to_owned())),
            _ => of(&self.process_tree())
                .map(|bytes| bytes as f64)
                .ok_or_else(|| Stop::Skip("cannot read /proc".to_owned())),
        }
    }

    /// The result of `work`, and the peak memory of the server during it.
    pub(super) fn with_peak<T>(
        &self,
        work: impl FnOnce() -> Result<T, Stop>,
    ) -> Result<(T, Option<u64>), Stop> {
        let processes = self.process_tree();
        let reset = proc::reset_peak(&processes);
        let result = work()?;
        Ok((result, reset.and_then(|()| proc::peak_bytes(&processes))))
    }

    /// Removes the uploaded files and stops a started server.
    pub(super) fn finish(self) {
        // Without `rm` no measurement has uploaded a file. If removal fails, there is no other means.
        let _ = self.session.execute(&format!("rm -rf {}", self.session.directory));
    }
}
