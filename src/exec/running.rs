//! A command that runs: one wait for whatever happens next, and what has come of its output.

use super::capture::Capture;
use super::discard::{Discarding, pace};
use super::mark::Mark;
use super::{Client, DEFAULT_OUTPUT_BYTES, Limits};
use crate::deadline::Deadline;
use crate::sys::poll::{Input, PollFd, poll, widen_pipe};
use crate::sys::process::{Pid, has_ended, pidfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How much a pipe holds once much comes through it; Linux begins with 64 KiB.
pub(super) const WIDE_PIPE_BYTES: usize = 1 << 20;

/// How often a process is looked at where the kernel has no pidfd.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A command that was started and is not reaped yet.
pub(super) struct Running {
    pub(super) leader: Pid,
    pub(super) mark: Mark,
    pub(super) has_ended: bool,
    /// `None`: an old kernel, a filter, no descriptor left. The process is looked at now and then.
    process: Option<OwnedFd>,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
    telling: Telling,
}

/// Whether standard output is told while it arrives.
#[derive(Clone, Copy)]
enum Telling {
    /// Not before there is more of it than this.
    NotYet {
        buffer_bytes: usize,
    },
    Begun,
}

/// One of the two pipes, until its end-of-file.
pub(super) struct Stream {
    pub(super) pipe: Option<OwnedFd>,
    arrived: u64,
    pub(super) capture: Capture,
    discarding: Option<Discarding>,
}

/// The connection of whoever waits.
pub(super) struct Peer<'fd> {
    pub(super) descriptor: BorrowedFd<'fd>,
    /// It has shut down its sending side, and that was noticed.
    pub(super) is_silent: bool,
    /// It has not taken all that it was told.
    pub(super) is_behind: bool,
}

impl<'fd> Peer<'fd> {
    fn awaited(&self) -> PollFd<'fd> {
        let lost =
            if self.is_silent { PollFd::failure(self.descriptor) } else { PollFd::hang_up(self.descriptor) };
        if self.is_behind { lost.or_writable() } else { lost }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Output, end-of-file, or the end of the process: all taken in already.
    Progress,
    /// Nothing came until the instant.
    Late,
    HalfClosed,
    Reset,
    Stopping,
}

impl Running {
    pub(super) fn new(leader: Pid, mark: Mark, stdout: OwnedFd, stderr: OwnedFd, limits: &Limits) -> Self {
        Self {
            leader,
            mark,
            has_ended: false,
            process: pidfd(leader).ok(),
            stdout: Stream::new(stdout, limits.output_bytes),
            stderr: Stream::new(stderr, Some(limits.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES))),
            telling: Telling::NotYet { buffer_bytes: limits.buffer_bytes },
        }
    }

    /// How many bytes have been read of both streams.
    pub(super) fn arrived(&self) -> u64 {
        self.stdout.arrived + self.stderr.arrived
    }

    pub(super) fn is_over(&self) -> bool {
        self.has_ended && self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Waits for one event, and takes in what has come.
    pub(super) fn wait(
        &mut self,
        until: Deadline,
        peer: Option<Peer<'_>>,
        stopping: Option<BorrowedFd<'_>>,
    ) -> Event {
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

    /// Passes on what can be told of standard output, once there is enough of it and as long as the client keeps up.
    pub(super) fn tell(&mut self, client: &mut dyn Client) -> io::Result<()> {
        if client.is_behind() {
            client.catch_up()?;
        }
        match self.telling {
            _ if client.is_behind() => return Ok(()),
            Telling::NotYet { buffer_bytes } if self.stdout.capture.untold() <= buffer_bytes => return Ok(()),
            Telling::NotYet { .. } => {
                self.telling = Telling::Begun;
                self.stdout.widen();
            }
            Telling::Begun => {}
        }
        self.stdout.pass_on(Capture::tellable, client)
    }

    /// Sends something to a client that waits. Within standard output nothing can be said that does not change it, but for a
    /// little of itself.
    pub(super) fn nudge(&mut self, client: &mut dyn Client) -> io::Result<()> {
        match self.telling {
            Telling::NotYet { .. } => client.nudge(),
            Telling::Begun => self.stdout.pass_on(Capture::next_held, client),
        }
    }
}

impl Stream {
    fn new(pipe: OwnedFd, limit_bytes: Option<usize>) -> Self {
        Self { pipe: Some(pipe), arrived: 0, capture: Capture::new(limit_bytes), discarding: None }
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

    /// Gives this part of what is kept to the client, and keeps it no longer.
    fn pass_on(&mut self, part: fn(&Capture) -> &[u8], client: &mut dyn Client) -> io::Result<()> {
        let part = part(&self.capture);
        let count = part.len();
        client.take(part)?;
        self.capture.told(count);
        Ok(())
    }

    /// Takes what is there; at end-of-file the pipe is closed.
    fn take_in(&mut self, input: Input) {
        let Some(pipe) = self.pipe.as_ref().filter(|_| input != Input::Nothing) else { return };
        let before = self.capture.left_out();
        match if input == Input::End { Ok(0) } else { self.capture.read(pipe.as_fd()) } {
            Ok(count) if count > 0 => self.arrived += count as u64,
            _ => (self.pipe, self.discarding) = (None, None),
        }
        pace(&mut self.discarding, before, self.capture.left_out());
    }
}
