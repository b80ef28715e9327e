//! One command, from spawn to reap. Everything that can happen is an event of one poll loop: output, end-of-file, the end
//! of the process, the deadline, a client that is gone, a server that goes down.
//!
//! | what happens | what is done | [`Ending`] | tests in `tests/it` |
//! |---|---|---|---|
//! | the process has ended, and both pipes too | answer | `Exited` or `Signaled` | `ending` |
//! | the process has ended, something still holds a pipe | drain for a short grace, leave the pipe to [`Leftovers`](super::Leftovers), answer | the same | `background` |
//! | both pipes have ended, the process runs on | wait for the process | (not an ending) | `execute`, `timeout` |
//! | the process is stopped | wait (a stop is no end) | (not an ending) | `ending`, `timeout` |
//! | output never ceases | keep its two ends, look at the clock all the same | (not an ending) | `output`, `timeout` |
//! | standard output is much | tell it as it comes; when the client takes no more, read no more | (not an ending) | `streaming` |
//! | the deadline passes | kill the [tree](super::tree), drain for a short grace, answer | `TimedOut` | `timeout`, `tree` |
//! | the client has shut down its sending side | nudge it again and again | (not an ending) | `connections`, `client` |
//! | the client's connection is reset | the same as at the deadline | `Abandoned` | `connections`, `streaming`, `tree` |
//! | the server stops | the same | `ShutDown` | `shutdown`, `tree` |
//!
//! The leader is reaped last: until then its pid, and so the number of its group, belong to it, and a group kill can hit
//! no stranger.

use super::mark::Mark;
use super::running::{Event, Peer, Running, WIDE_PIPE_BYTES};
use super::tree::kill_tree;
use super::{Client, Command, Ending, Error, Outcome, Runner, Subject};
use crate::deadline::Deadline;
use crate::sys::errno::is_transient_shortage;
use crate::sys::poll::pipe;
use crate::sys::process::{ExitStatus, Pid, reap};
use crate::sys::spawn::{Spawn, is_executable};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long a pipe that outlived the process is waited for. Long enough for the tail of `… | tee log` on a busy machine,
/// short enough that `server &` answers at once.
const HELD_PIPE_GRACE: Duration = Duration::from_millis(200);

/// How long a killed command is waited for: it ends at once, unless the kernel is busy on its behalf.
const KILLED_GRACE: Duration = Duration::from_millis(300);

/// How long a pipe that outlived the process is read when output never ceases.
const LONGEST_GRACE: Duration = Duration::from_millis(500);

/// How much standard output is read after the end without being told: more than a pipe holds, so that all is there that was
/// written before.
const MOST_UNTOLD_BYTES: usize = 2 << 20;

impl Runner {
    /// Runs a command in `directory` until it ends, or its deadline passes, or nobody waits for it any more.
    ///
    /// # Errors
    /// The command could not be started, and nothing runs.
    pub fn run(
        &self,
        command: &Command,
        directory: BorrowedFd<'_>,
        deadline: Deadline,
        client: &mut dyn Client,
    ) -> Result<Outcome, Error> {
        let mut running = self.start(command, directory)?;
        let mut nudge = Nudge::new(self.limits.commit_after);
        let mut verdict = None;
        while verdict.is_none() {
            let peer = client.descriptor().map(|descriptor| Peer {
                descriptor,
                is_silent: nudge.repeats(),
                is_behind: client.is_behind(),
            });
            let event = running.wait(nudge.at.min(deadline), peer, Some(self.stopping.as_fd()));
            let told = running.tell(client);
            if running.has_ended {
                break;
            }
            match event {
                Event::Stopping => verdict = Some(Ending::ShutDown),
                Event::Reset => verdict = Some(Ending::Abandoned),
                _ if deadline.has_passed() => verdict = Some(Ending::TimedOut),
                _ if told.is_err() => verdict = Some(Ending::Abandoned),
                Event::HalfClosed => nudge.begin(),
                Event::Late | Event::Progress => {}
            }
            if verdict.is_none() && nudge.is_due() && running.nudge(client).is_err() {
                verdict = Some(Ending::Abandoned);
            }
        }
        if verdict.is_some() {
            for child in kill_tree(running.leader, &running.mark) {
                self.leftovers.take_child(child);
            }
        }
        self.drain(&mut running, client, if verdict.is_some() { KILLED_GRACE } else { HELD_PIPE_GRACE });
        Ok(self.finish(running, verdict))
    }

    /// Reads what is in the pipes at the end, and what still comes while the grace lasts. However slow the machine is, what
    /// was written before the end is all read: nothing is told meanwhile, which takes longer than reading. Without a limit,
    /// what is more than a pipe holds is told all the same, and has to wait for the client.
    fn drain(&self, running: &mut Running, client: &mut dyn Client, grace: Duration) {
        let (quiet, last) = (Deadline::within(grace), Deadline::within(LONGEST_GRACE));
        let enough = running.arrived() + WIDE_PIPE_BYTES as u64;
        let most =
            self.limits.output_bytes.map_or(self.limits.buffer_bytes + MOST_UNTOLD_BYTES, |_| usize::MAX);
        while !running.is_over() && (!last.has_passed() || running.arrived() < enough) {
            let is_much = running.stdout.capture.untold() > most;
            // Whether the client is still there shows when the rest is sent.
            let _told = is_much.then(|| running.tell(client));
            let peer = client.descriptor().filter(|_| is_much && client.is_behind());
            let peer = peer.map(|descriptor| Peer { descriptor, is_silent: true, is_behind: true });
            if running.wait(quiet, peer, None) != Event::Progress {
                return;
            }
        }
    }

    fn start(&self, command: &Command, directory: BorrowedFd<'_>) -> Result<Running, Error> {
        let lacking = |cause| Error { subject: Subject::Resources, cause };
        let (stdout, child_stdout) = pipe().map_err(lacking)?;
        let (stderr, child_stderr) = pipe().map_err(lacking)?;
        let start = |mark: &Mark| {
            let spawn = Spawn {
                arguments: command.words(),
                environment: self.environment.variables(),
                mark: mark.variable(),
                directory,
                stdin: self.null.as_fd(),
                stdout: child_stdout.as_fd(),
                stderr: child_stderr.as_fd(),
                reset_signals: self.reset_signals,
                leads: self.leads,
            };
            self.spawn_first(command.program(), &spawn)
        };
        let (leader, mark) = self.marks.start(start).map_err(lacking)?;
        let leader = leader?;
        Ok(Running::new(leader, mark, stdout, stderr, &self.limits))
    }

    /// Starts the first candidate that can be started. When there is none, the first error that says more than "not
    /// there" wins, as in execvp(3).
    fn spawn_first(&self, program: &CStr, spawn: &Spawn<'_>) -> Result<Pid, Error> {
        let mut refusal = io::Error::from(io::ErrorKind::NotFound);
        let mut candidates = self.environment.candidates(program);
        while let Some(candidate) = candidates.following() {
            match is_executable(spawn.directory, candidate).and_then(|()| spawn.start(candidate)) {
                Ok(leader) => return Ok(leader),
                // Another would fare no better.
                Err(cause) if is_transient_shortage(&cause) => {
                    return Err(Error { subject: Subject::Resources, cause });
                }
                Err(cause) if is_absence(&refusal) => refusal = cause,
                Err(_) => {}
            }
        }
        let usable = is_executable(spawn.directory, c".").is_ok();
        let subject = if usable { Subject::Program } else { Subject::Directory };
        Err(Error { subject, cause: refusal })
    }

    fn finish(&self, running: Running, verdict: Option<Ending>) -> Outcome {
        let Running { leader, stdout, stderr, .. } = running;
        let status = reap(leader);
        if matches!(status, Ok(None)) {
            self.leftovers.take_child(leader);
        }
        let ending = verdict.unwrap_or(match status {
            Ok(Some(ExitStatus::Exited(code))) => Ending::Exited(code),
            Ok(Some(ExitStatus::Signaled(signal))) => Ending::Signaled(signal),
            Ok(None) => Ending::TimedOut,
            Err(_) => Ending::Unknown,
        });
        let captured = [stdout, stderr].map(|stream| {
            // After a kill nobody is left whom a closed pipe could hurt.
            if let (Some(pipe), None) = (stream.pipe, verdict) {
                self.leftovers.take_pipe(pipe);
            }
            stream.capture.finish()
        });
        let [stdout, stderr] = captured;
        Outcome { ending, stdout, stderr }
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// When something is sent to a client that waits.
///
/// Once after a while, so that nothing on the way gives up. And when the client has shut down its sending side, again and
/// again, ever more rarely: a proxy between shows that its client is gone only by what becomes of the second or third
/// thing that it passes on.
struct Nudge {
    at: Deadline,
    interval: Option<Duration>,
}

const FIRST_INTERVAL: Duration = Duration::from_millis(50);
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

impl Nudge {
    fn new(after: Duration) -> Self {
        Self { at: Deadline::within(after), interval: None }
    }

    /// From now on.
    fn begin(&mut self) {
        self.interval = Some(FIRST_INTERVAL);
        self.at = Deadline::within(Duration::ZERO);
    }

    fn repeats(&self) -> bool {
        self.interval.is_some()
    }

    /// Whether it is time; if so, sets the next.
    fn is_due(&mut self) -> bool {
        if !self.at.has_passed() {
            return false;
        }
        self.at = Deadline::within(self.interval.unwrap_or(Duration::MAX));
        self.interval = self.interval.map(|interval| (interval * 2).min(LONGEST_INTERVAL));
        true
    }
}
