//! What running a command means: [`Command`] in, [`Outcome`] out.
//!
//! The command runs in a process group of its own, reads nothing, and ends by itself or by being killed at its deadline
//! ([`run`] holds the loop and the table of endings), with all that it started ([`tree`]). What it says is bounded
//! ([`capture`]). No shell takes part.
//! A command that could not be started is an [`Error`] with the errno, and no outcome.
//!
//! This folder does not know where a command came from, nor how its outcome is told.

mod capture;
mod command;
mod discard;
mod leftovers;
mod mark;
mod run;
mod running;
mod tree;

pub use capture::Captured;
pub use command::{Command, Environment, Malformed};
pub use leftovers::Leftovers;

use crate::sys::poll::pipe;
use crate::sys::process::{SignalSet, keep_exit_statuses};
use crate::sys::spawn::{Leads, close_inherited_on_exec};
use mark::Marks;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

/// How much a command may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many bytes of each output stream are kept: half from its beginning, half from its end. `None`: all of standard
    /// output, which is told while it arrives; standard error is kept as by default.
    pub output_bytes: Option<usize>,
    /// How many bytes of standard output are gathered before it is told while it arrives.
    pub buffer_bytes: usize,
    /// After how long the answer is begun although the command still runs: before a client or a router gives up waiting
    /// for the first byte, and sends the request again. Clients wait a second at least.
    pub commit_after: Duration,
    /// How many pipes that outlived their command are drained at once; past that the oldest is closed.
    pub leftovers: usize,
}

/// How much is kept of a stream by default; and of standard error where standard output has no limit.
const DEFAULT_OUTPUT_BYTES: usize = 8 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            output_bytes: Some(DEFAULT_OUTPUT_BYTES),
            buffer_bytes: 64 << 10,
            commit_after: Duration::from_millis(500),
            leftovers: 512,
        }
    }
}

/// Whoever waits for the answer.
pub trait Client {
    /// Its connection, to see it go away.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Sends something that does not change the answer: the head first, later white space before the JSON. A peer that
    /// only shut down its sending side takes it; a peer that is gone answers with a reset.
    ///
    /// # Errors
    /// The connection is gone.
    fn nudge(&mut self) -> io::Result<()>;

    /// Takes the next part of the answer, all of it; what the connection does not take now is kept. It never blocks.
    ///
    /// # Errors
    /// The connection is gone.
    fn take(&mut self, part: &[u8]) -> io::Result<()>;

    /// Whether something is kept. Then nothing more should be given, and the connection is waited for.
    fn is_behind(&self) -> bool;

    /// Sends of what is kept as much as the connection takes now.
    ///
    /// # Errors
    /// The connection is gone.
    fn catch_up(&mut self) -> io::Result<()>;
}

/// What became of a command; of standard output what the client has not taken.
#[derive(Debug)]
pub struct Outcome {
    pub ending: Ending,
    pub stdout: Captured,
    pub stderr: Captured,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this exit status.
    Exited(i32),
    /// By a signal of this number, which was not ours.
    Signaled(i32),
    /// Killed at its deadline.
    TimedOut,
    /// Killed because nobody waits for the answer any more.
    Abandoned,
    /// Killed because the server is going down.
    ShutDown,
    /// By itself, and somebody else has taken its exit status.
    Unknown,
}

/// Why a command could not be started.
#[derive(Debug)]
pub struct Error {
    pub subject: Subject,
    pub cause: io::Error,
}

/// What the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// To run the program.
    Program,
    /// To use the working directory.
    Directory,
    /// To give the pipes, descriptors or memory that running anything takes.
    Resources,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let subject = match self.subject {
            Subject::Program => "run the program",
            Subject::Directory => "use the working directory",
            Subject::Resources => "prepare a command",
        };
        write!(f, "can not {subject}: {}", self.cause)
    }
}

impl std::error::Error for Error {}

/// Runs commands. One is shared by all threads; nothing of one command is left in it for the next.
#[derive(Debug)]
pub struct Runner {
    environment: Environment,
    limits: Limits,
    marks: Marks,
    null: File,
    reset_signals: SignalSet,
    leads: Leads,
    leftovers: Leftovers,
    /// Readable (as end-of-file) from the moment that [`stop`](Self::stop) closes the other end.
    stopping: OwnedFd,
    stop: Mutex<Option<OwnedFd>>,
}

impl Runner {
    /// Looks once at what does not change: dispositions, terminal, `/dev/null`.
    ///
    /// # Errors
    /// No `/dev/null`, or no descriptors.
    pub fn new(environment: Environment, limits: Limits) -> io::Result<Self> {
        keep_exit_statuses()?;
        close_inherited_on_exec()?;
        let (stopping, stop) = pipe()?;
        Ok(Self {
            environment,
            limits,
            marks: Marks::new(),
            null: File::open("/dev/null")?,
            reset_signals: SignalSet::ignored(),
            leads: leads(),
            leftovers: Leftovers::new(limits.leftovers)?,
            stopping,
            stop: Mutex::new(Some(stop)),
        })
    }

    /// Kills every command that runs, now and from now on.
    pub fn stop(&self) {
        let end = self.stop.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        drop(end);
    }

    /// What commands have left behind; one thread must drain it.
    pub fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }
}

/// Where the server has a controlling terminal (somebody started it by hand), a command gets a session of its own: a
/// group in the background of that terminal would be stopped as soon as it reads `/dev/tty`. Elsewhere a group is
/// enough, as there is no terminal to have.
fn leads() -> Leads {
    if File::open("/dev/tty").is_ok() { Leads::Session } else { Leads::Group }
}
