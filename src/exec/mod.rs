//! Runs commands: a [`Spec`] in, an [`Ending`] out, and output to a [`Sink`] while it arrives.
//!
//! A command runs in a process group of its own, without a shell and with an empty standard input. It ends by
//! itself or is killed, with all of its descendants ([`kill`]), at its deadline, if its client disconnects,
//! or if the server shuts down; [`pump`] has the loop and the table of endings. A command that cannot be
//! started is an [`Error`] with the errno.
//!
//! The child is reaped last: until then its pid, and so the number of its process group, stays reserved, and
//! a group kill cannot hit an unrelated process.
//!
//! Not here: where a command comes from, and how its result is encoded.

mod background;
mod capture;
mod kill;
mod lookup;
mod process;
mod procfs;
mod pump;
mod sink;
mod spawn;
mod spec;
mod tag;
mod throttle;

pub use background::Background;
pub use capture::{Capture, Captured};
pub use sink::{Channel, Flow, Sink, Watch};
pub use spec::{Argv, Environment, InvalidArgv, Spec};

use crate::deadline::Deadline;
use crate::sys::poll::pipe;
use crate::sys::process::{ExitStatus, reap};
use crate::sys::signals::keep_exit_statuses;
use crate::sys::spawn::close_inherited_on_exec;
use kill::kill_descendants;
use pump::Pump;
use spawn::Spawner;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use throttle::Throttle;

/// Bounds for all commands together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pipes of background processes that are drained at once. Past that the oldest is closed.
    pub background_pipes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { background_pipes: 512 }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this exit status.
    Exited(i32),
    /// By a signal of this number that the server did not send.
    Signaled(i32),
    /// Killed at its deadline.
    TimedOut,
    /// Killed because the client disconnected.
    Disconnected,
    /// Killed because the server shuts down.
    ShutDown,
    /// By itself, but its exit status was lost: something else reaped it.
    Unknown,
}

/// Why a command could not be started.
#[derive(Debug)]
pub struct Error {
    pub subject: Subject,
    pub cause: io::Error,
}

/// The operation that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Program,
    Directory,
    /// Pipes, descriptors, processes or memory.
    Resources,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let attempt = match self.subject {
            Subject::Program => "run the program",
            Subject::Directory => "use the working directory",
            Subject::Resources => "start a command",
        };
        write!(f, "cannot {attempt}: {}", self.cause)
    }
}

impl std::error::Error for Error {}

/// How long to wait for the end of a pipe that a background process holds. Long enough for the tail of `… |
/// tee log` on a busy machine, short enough that `server &` gets its response at once.
const HELD_PIPE_GRACE: Duration = Duration::from_millis(200);

/// How long to wait for a killed command: it ends at once unless it is in an uninterruptible wait.
const KILLED_GRACE: Duration = Duration::from_millis(300);

/// Runs commands. One is shared by all threads.
#[derive(Debug)]
pub struct Runner {
    spawner: Spawner,
    throttle: Throttle,
    background: Background,
    /// At end-of-file from the moment that [`stop`](Self::stop) closes the other end.
    stopping: OwnedFd,
    stop: Mutex<Option<OwnedFd>>,
}

impl Runner {
    /// # Errors
    /// `/dev/null` is missing, or descriptors have run out.
    pub fn new(environment: Environment, limits: Limits) -> io::Result<Self> {
        keep_exit_statuses()?;
        close_inherited_on_exec()?;
        let (stopping, stop) = pipe()?;
        Ok(Self {
            spawner: Spawner::new(environment)?,
            throttle: Throttle::default(),
            background: Background::new(limits.background_pipes)?,
            stopping,
            stop: Mutex::new(Some(stop)),
        })
    }

    /// Runs a command until it ends or is killed.
    ///
    /// # Errors
    /// The command could not be started; nothing runs, and the sink was not called.
    pub fn run(&self, spec: &Spec<'_>, deadline: Deadline, sink: &mut dyn Sink) -> Result<Ending, Error> {
        let process = self.spawner.start(spec)?;
        let mut pump = Pump::new(process, sink, &self.throttle);
        let killed = pump.run(deadline, self.stopping.as_fd());
        if killed.is_some() {
            let siblings = kill_descendants(pump.child.pid, &pump.child.tag);
            siblings.into_iter().for_each(|child| self.background.add_child(child));
        }
        pump.drain(if killed.is_some() { KILLED_GRACE } else { HELD_PIPE_GRACE });
        Ok(self.finish(pump, killed))
    }

    fn finish(&self, pump: Pump<'_>, killed: Option<Ending>) -> Ending {
        let (child, pipes) = pump.finish();
        // After a kill no writer is left that a closed pipe could harm.
        if killed.is_none() {
            pipes.for_each(|pipe| self.background.add_pipe(pipe));
        }
        let status = reap(child.pid);
        if matches!(status, Ok(None)) {
            self.background.add_child(child.pid);
        }
        killed.unwrap_or(match status {
            Ok(Some(ExitStatus::Exited(code))) => Ending::Exited(code),
            Ok(Some(ExitStatus::Signaled(signal))) => Ending::Signaled(signal),
            Ok(None) => Ending::TimedOut,
            Err(_) => Ending::Unknown,
        })
    }

    /// Kills every command that runs, now and from now on.
    pub fn stop(&self) {
        drop(locked(&self.stop).take());
    }

    /// Background processes' pipes; one thread must drain them.
    pub fn background(&self) -> &Background {
        &self.background
    }
}

/// No panic can leave a value that is guarded in this folder (a list, a number, an `Option`) half changed, so
/// a poisoned lock is usable.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
