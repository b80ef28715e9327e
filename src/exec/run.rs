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

use super::capture::Capture;
use super::mark::Mark;
use super::tree::kill_tree;
use super::{Client, Command, Ending, Error, Outcome, REST, Runner, Subject};
use crate::deadline::Deadline;
use crate::sys::is_lack;
use crate::sys::poll::{Input, PollFd, pipe, poll, widen_pipe};
use crate::sys::process::{ExitStatus, Pid, has_ended, pidfd, reap};
use crate::sys::spawn::{Spawn, is_executable};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long a pipe that outlived the process is waited for. Long enough for the tail of `… | tee log` on a busy machine,
/// short enough that `server &` answers at once.
const HELD_PIPE_GRACE: Duration = Duration::from_millis(200);

/// How long a killed command is waited for: it ends at once, unless the kernel is busy on its behalf.
const KILLED_GRACE: Duration = Duration::from_millis(300);

/// How long a pipe that outlived the process is read when output never ceases.
const LONGEST_GRACE: Duration = Duration::from_millis(500);

/// After how much output that is not kept there is a [`REST`].
const REST_EVERY_BYTES: u64 = 1 << 20;

/// How much standard output is read after the end without being told: more than a pipe holds, so that all is there that was
/// written before.
const MOST_UNTOLD_BYTES: usize = 2 << 20;

/// How much a pipe holds once much comes through it; Linux begins with 64 KiB.
const WIDE_PIPE_BYTES: usize = 1 << 20;

/// How often a process is looked at where the kernel has no pidfd.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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
    /// was written before the end is all read.
    fn drain(&self, running: &mut Running, client: &mut dyn Client, grace: Duration) {
        let (quiet, last) = (Deadline::within(grace), Deadline::within(LONGEST_GRACE));
        let enough = running.arrived() + WIDE_PIPE_BYTES as u64;
        while !running.is_over()
            && (!last.has_passed() || running.arrived() < enough)
            && running.stdout.capture.untold() <= self.limits.buffer_bytes + MOST_UNTOLD_BYTES
            && running.wait(quiet, None, None) == Event::Progress
        {
            // Whether the client is still there shows when the rest is sent.
            let _told = running.tell(client);
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
        Ok(Running {
            leader,
            mark,
            has_ended: false,
            // Without one (an old kernel, a filter, no descriptor left) the process is looked at now and then.
            process: pidfd(leader).ok(),
            stdout: Stream::new(stdout, self.limits.output_bytes),
            stderr: Stream::new(stderr, Some(self.limits.output_bytes.unwrap_or(UNTOLD_STREAM_BYTES))),
            telling: Telling::NotYet { buffer_bytes: self.limits.buffer_bytes },
        })
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
                Err(cause) if is_lack(&cause) => return Err(Error { subject: Subject::Resources, cause }),
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

/// How much is kept of a stream that is not told while it arrives, where there is no limit.
const UNTOLD_STREAM_BYTES: usize = 8 << 20;

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A command that was started and is not reaped yet.
struct Running {
    leader: Pid,
    mark: Mark,
    has_ended: bool,
    process: Option<OwnedFd>,
    stdout: Stream,
    stderr: Stream,
    telling: Telling,
}

/// Whether standard output is told while it arrives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    /// Not before there is more of it than this.
    NotYet {
        buffer_bytes: usize,
    },
    Begun,
}

/// One of the two pipes, until its end-of-file.
struct Stream {
    pipe: Option<OwnedFd>,
    arrived: u64,
    capture: Capture,
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

/// The connection of whoever waits.
struct Peer<'fd> {
    descriptor: BorrowedFd<'fd>,
    /// It has shut down its sending side, and that was noticed.
    is_silent: bool,
    /// It has not taken all that it was told.
    is_behind: bool,
}

impl<'fd> Peer<'fd> {
    fn awaited(&self) -> PollFd<'fd> {
        let lost =
            if self.is_silent { PollFd::failure(self.descriptor) } else { PollFd::hang_up(self.descriptor) };
        if self.is_behind { lost.or_writable() } else { lost }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    /// Output, end-of-file, or the end of the process: all taken in already.
    Progress,
    /// Nothing came until the instant.
    Late,
    HalfClosed,
    Reset,
    Stopping,
}

impl Running {
    /// How many bytes have been read of both streams.
    fn arrived(&self) -> u64 {
        self.stdout.arrived + self.stderr.arrived
    }

    fn is_over(&self) -> bool {
        self.has_ended && self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Waits for one event, and takes in what has come.
    fn wait(&mut self, until: Deadline, peer: Option<Peer<'_>>, stopping: Option<BorrowedFd<'_>>) -> Event {
        let must_look = self.process.is_none() && !self.has_ended;
        let wake = if must_look { until.min(Deadline::within(LOOK_AGAIN)) } else { until };
        let must_hold = self.stdout.capture.is_in_first() && peer.as_ref().is_some_and(|peer| peer.is_behind);
        let mut waited = [
            if must_hold { PollFd::nothing() } else { self.stdout.awaited() },
            self.stderr.awaited(),
            self.process
                .as_ref()
                .filter(|_| !self.has_ended)
                .map_or(PollFd::nothing(), |fd| PollFd::readable(fd.as_fd())),
            peer.as_ref().map_or(PollFd::nothing(), Peer::awaited),
            stopping.map_or(PollFd::nothing(), PollFd::readable),
        ];
        if poll(&mut waited, Some(wake.instant())).is_err() {
            // No memory for a moment. The clock goes on.
            std::thread::sleep(LOOK_AGAIN);
        }
        let [is_out, is_err, is_end, is_peer, is_stop] = waited.map(|descriptor| descriptor.is_ready());
        let [out, err, _, peer, _] = waited;
        let (out, err) = (out.input(), err.input());
        let (is_reset, is_half_closed) = (peer.is_gone(), peer.has_hung_up());
        let is_end = is_end || (must_look && has_ended(self.leader).unwrap_or(true));
        self.has_ended |= is_end;
        self.stdout.take_in(out);
        self.stderr.take_in(err);
        if is_stop {
            Event::Stopping
        } else if is_reset {
            Event::Reset
        } else if is_half_closed {
            Event::HalfClosed
        } else if is_out || is_err || is_end || is_peer || !until.has_passed() {
            Event::Progress
        } else {
            Event::Late
        }
    }
}

impl Running {
    /// Passes on what can be told of standard output, once there is enough of it and as long as the client keeps up.
    fn tell(&mut self, client: &mut dyn Client) -> io::Result<()> {
        let capture = &mut self.stdout.capture;
        if client.is_behind() {
            client.catch_up()?;
        }
        match self.telling {
            _ if client.is_behind() => return Ok(()),
            Telling::NotYet { buffer_bytes } if capture.untold() <= buffer_bytes => return Ok(()),
            Telling::NotYet { .. } => {
                self.telling = Telling::Begun;
                self.stdout.widen();
            }
            Telling::Begun => {}
        }
        let capture = &mut self.stdout.capture;
        let part = capture.tellable();
        let count = part.len();
        client.take(part)?;
        capture.told(count);
        Ok(())
    }

    /// Sends something to a client that waits. Within standard output nothing can be said that does not change it, but for a
    /// little of itself.
    fn nudge(&mut self, client: &mut dyn Client) -> io::Result<()> {
        if self.telling != Telling::Begun {
            return client.nudge();
        }
        let part = self.stdout.capture.next_held();
        let count = part.len();
        client.take(part)?;
        self.stdout.capture.told(count);
        Ok(())
    }
}

impl Stream {
    fn new(pipe: OwnedFd, limit_bytes: Option<usize>) -> Self {
        Self { pipe: Some(pipe), arrived: 0, capture: Capture::new(limit_bytes) }
    }

    fn awaited(&self) -> PollFd<'_> {
        self.pipe.as_ref().map_or(PollFd::nothing(), |pipe| PollFd::readable(pipe.as_fd()))
    }

    /// Lets whoever writes be further ahead, if the kernel allows.
    fn widen(&self) {
        if let Some(pipe) = &self.pipe {
            let _refused = widen_pipe(pipe.as_fd(), WIDE_PIPE_BYTES);
        }
    }

    /// Takes what is there; at end-of-file the pipe is closed.
    fn take_in(&mut self, input: Input) {
        let Some(pipe) = self.pipe.as_ref().filter(|_| input != Input::Nothing) else { return };
        let before = self.capture.left_out();
        match if input == Input::End { Ok(0) } else { self.capture.read(pipe.as_fd()) } {
            Ok(count) if count > 0 => self.arrived += count as u64,
            _ => self.pipe = None,
        }
        if before / REST_EVERY_BYTES != self.capture.left_out() / REST_EVERY_BYTES {
            std::thread::sleep(REST);
        }
    }
}
