//! The one loop of a running command: waits for output, the end of the process, the deadline, the client and
//! the server, all in one poll(2), and passes output to the sink.
//!
//! | event | action | [`Ending`] | tests in `tests/it` |
//! |---|---|---|---|
//! | the process has ended, and both pipes too | respond | `Exited` or `Signaled` | `exit_status` |
//! | the process has ended, a background process holds a pipe | drain for a short grace, leave the pipe to [`Background`](super::Background), respond | the same | `background` |
//! | both pipes have ended, the process runs on | wait for the process | (none) | `execute`, `timeout` |
//! | the process is stopped | wait, since a stopped process has not ended | (none) | `exit_status`, `timeout` |
//! | output never ceases | the sink bounds it; the clock is checked all the same | (none) | `output`, `timeout` |
//! | the sink pauses | leave the pipe unread until the sink is flushed | (none) | `streaming` |
//! | the deadline passes | [kill](super::kill), drain for a short grace, respond | `TimedOut` | `timeout`, `tree` |
//! | the client half-closes | report it to the sink, which sends keep-alive bytes | (none) | `connections`, `client` |
//! | the client's connection is reset | as at the deadline | `Disconnected` | `connections`, `streaming`, `tree` |
//! | the server shuts down | as at the deadline | `ShutDown` | `shutdown`, `tree` |

use super::Ending;
use super::process::{Child, Process};
use super::sink::{Channel, Flow, Sink, Watch};
use super::throttle::{Discarded, Throttle};
use crate::deadline::Deadline;
use crate::sys::poll::{Input, PollFd, poll, read_append, widen_pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The size of one read(2).
const READ_BYTES: usize = 64 << 10;
/// The size of the first one: most commands write little.
const FIRST_READ_BYTES: usize = 2 << 10;

/// The capacity of a pipe that carries much output; Linux starts with 64 KiB.
const WIDE_PIPE_BYTES: usize = 1 << 20;

/// A pipe that has carried this much is widened.
const WIDEN_AFTER_BYTES: u64 = 64 << 10;

/// The interval at which a child without a pidfd is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// How long the drain goes on while output keeps coming.
const LONGEST_DRAIN: Duration = Duration::from_millis(500);

/// A running command and its sink.
pub(super) struct Pump<'a> {
    pub(super) child: Child,
    stdout: Stream<'a>,
    stderr: Stream<'a>,
    sink: &'a mut dyn Sink,
    /// Output on its way from a pipe to the sink.
    buffer: Vec<u8>,
}

/// One of the two pipes, until its end-of-file.
struct Stream<'a> {
    channel: Channel,
    pipe: Option<OwnedFd>,
    received_bytes: u64,
    is_paused: bool,
    discarded: Discarded<'a>,
}

/// The result of one poll(2).
struct Ready {
    stdout: Input,
    stderr: Input,
    has_ended: bool,
    peer: Peer,
    /// The connection takes more bytes, or has failed.
    can_flush: bool,
    is_stopping: bool,
    is_timed_out: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Unchanged,
    HalfClosed,
    Reset,
}

impl<'a> Pump<'a> {
    pub(super) fn new(process: Process, sink: &'a mut dyn Sink, throttle: &'a Throttle) -> Self {
        let Process { child, stdout, stderr } = process;
        let stream = |channel, pipe| Stream {
            channel,
            pipe: Some(pipe),
            received_bytes: 0,
            is_paused: false,
            discarded: throttle.stream(),
        };
        let (stdout, stderr) = (stream(Channel::Stdout, stdout), stream(Channel::Stderr, stderr));
        Self { child, stdout, stderr, sink, buffer: Vec::new() }
    }

    /// Runs until the child ends by itself (`None`) or must be killed.
    pub(super) fn run(&mut self, deadline: Deadline, stopping: BorrowedFd<'_>) -> Option<Ending> {
        loop {
            let keep_alive = self.sink.keep_alive_at().unwrap_or(deadline);
            let ready = self.wait(keep_alive.min(deadline), Some(stopping));
            let flow = self.transfer(&ready);
            // The order of the arms is the precedence.
            match (&ready, flow) {
                _ if self.child.has_ended => return None,
                (Ready { is_stopping: true, .. }, _) => return Some(Ending::ShutDown),
                (Ready { peer: Peer::Reset, .. }, _) => return Some(Ending::Disconnected),
                _ if deadline.has_passed() => return Some(Ending::TimedOut),
                (_, Flow::Disconnected) => return Some(Ending::Disconnected),
                (Ready { peer: Peer::HalfClosed, .. }, _) => self.sink.half_closed(),
                _ => {}
            }
            let is_due = self.sink.keep_alive_at().is_some_and(Deadline::has_passed);
            if is_due && self.sink.keep_alive() == Flow::Disconnected {
                return Some(Ending::Disconnected);
            }
        }
    }

    /// Reads the pipes after the end, for as long as output comes within the grace. However slow the machine
    /// is, all output that was written before the end is read: at least one pipe's capacity, even past the
    /// grace.
    pub(super) fn drain(&mut self, grace: Duration) {
        self.sink.ended();
        (self.stdout.is_paused, self.stderr.is_paused) = (false, false);
        let (quiet, last) = (Deadline::within(grace), Deadline::within(LONGEST_DRAIN));
        let enough_bytes = self.received_bytes() + WIDE_PIPE_BYTES as u64;
        while !self.is_over() && (!last.has_passed() || self.received_bytes() < enough_bytes) {
            let ready = self.wait(quiet, None);
            let flow = self.transfer(&ready);
            if ready.is_timed_out || ready.peer == Peer::Reset || flow == Flow::Disconnected {
                return;
            }
        }
    }

    /// The child, and the pipes that have not ended.
    pub(super) fn finish(self) -> (Child, impl Iterator<Item = OwnedFd>) {
        (self.child, self.stdout.pipe.into_iter().chain(self.stderr.pipe))
    }

    fn received_bytes(&self) -> u64 {
        self.stdout.received_bytes + self.stderr.received_bytes
    }

    fn is_over(&self) -> bool {
        self.child.has_ended && self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    fn wait(&self, until: Deadline, stopping: Option<BorrowedFd<'_>>) -> Ready {
        let next_check = Deadline::within(CHECK_INTERVAL);
        let wake = if self.child.needs_checks() { until.min(next_check) } else { until };
        let mut slots = [
            self.stdout.slot(),
            self.stderr.slot(),
            self.child.slot(),
            self.sink.watch().map_or(PollFd::nothing(), watch_slot),
            stopping.map_or(PollFd::nothing(), PollFd::readable),
        ];
        if poll(&mut slots, Some(wake.instant())).is_err() {
            // Out of memory for a moment. The deadline stands.
            std::thread::sleep(CHECK_INTERVAL);
        }
        let is_idle = slots.iter().all(|slot| !slot.is_ready());
        let [stdout, stderr, child, connection, stopping] = slots;
        Ready {
            stdout: stdout.input(),
            stderr: stderr.input(),
            has_ended: child.is_ready(),
            peer: peer(&connection),
            can_flush: connection.is_ready(),
            is_stopping: stopping.is_ready(),
            is_timed_out: is_idle && until.has_passed(),
        }
    }

    /// Acts on the result of one wait.
    fn transfer(&mut self, ready: &Ready) -> Flow {
        self.child.update(ready.has_ended);
        let flushed = if ready.can_flush { self.flush() } else { Flow::Continue };
        let stdout = self.stdout.transfer(ready.stdout, self.sink, &mut self.buffer);
        let stderr = self.stderr.transfer(ready.stderr, self.sink, &mut self.buffer);
        if [flushed, stdout, stderr].contains(&Flow::Disconnected) {
            Flow::Disconnected
        } else {
            Flow::Continue
        }
    }

    fn flush(&mut self) -> Flow {
        let flow = self.sink.flush();
        if flow != Flow::Pause {
            (self.stdout.is_paused, self.stderr.is_paused) = (false, false);
        }
        flow
    }
}

fn watch_slot(watch: Watch<'_>) -> PollFd<'_> {
    let disconnect = if watch.is_half_closed {
        PollFd::disconnect(watch.connection)
    } else {
        PollFd::half_close(watch.connection)
    };
    if watch.has_pending { disconnect.or_writable() } else { disconnect }
}

fn peer(connection: &PollFd<'_>) -> Peer {
    match (connection.is_disconnected(), connection.is_half_closed()) {
        (true, _) => Peer::Reset,
        (false, true) => Peer::HalfClosed,
        (false, false) => Peer::Unchanged,
    }
}

impl Stream<'_> {
    fn slot(&self) -> PollFd<'_> {
        let pipe = self.pipe.as_ref().filter(|_| !self.is_paused);
        pipe.map_or(PollFd::nothing(), |pipe| PollFd::readable(pipe.as_fd()))
    }

    /// Reads once and passes the output on. At end-of-file the pipe is closed.
    fn transfer(&mut self, input: Input, sink: &mut dyn Sink, buffer: &mut Vec<u8>) -> Flow {
        let Some(pipe) = &self.pipe else { return Flow::Continue };
        buffer.clear();
        let count = match input {
            Input::Empty => return Flow::Continue,
            Input::End => 0,
            // A pipe that cannot be read gives nothing more.
            Input::Ready => read_append(pipe.as_fd(), buffer, self.next_read_bytes()).unwrap_or(0),
        };
        if count == 0 {
            self.pipe = None;
            return Flow::Continue;
        }
        self.note_received(count);
        let flow = sink.output(self.channel, buffer);
        self.is_paused = flow == Flow::Pause;
        if flow == Flow::Discard {
            self.discarded.add(count);
        }
        flow
    }

    fn next_read_bytes(&self) -> usize {
        usize::try_from(self.received_bytes).unwrap_or(READ_BYTES).clamp(FIRST_READ_BYTES, READ_BYTES)
    }

    /// Counts output. A command that writes much to standard output gets a wide pipe, so that it can write
    /// ahead.
    fn note_received(&mut self, count: usize) {
        let is_small = self.received_bytes <= WIDEN_AFTER_BYTES;
        self.received_bytes += count as u64;
        let is_large = self.received_bytes > WIDEN_AFTER_BYTES;
        if let (true, true, Channel::Stdout, Some(pipe)) = (is_small, is_large, self.channel, &self.pipe) {
            // Unprivileged users may be refused (pipe(7)).
            let _refused = widen_pipe(pipe.as_fd(), WIDE_PIPE_BYTES);
        }
    }
}
