//! The consumer of a command's output, seen from the command: all that this folder knows of HTTP clients,
//! logs and protocols.
//!
//! A sink accepts every byte that it is given and never blocks. If it cannot keep up, it returns
//! [`Flow::Pause`]: the command's pipe is then left unread until [`Sink::flush`] returns something else, so a
//! slow client slows the command down instead of filling memory.

use crate::deadline::Deadline;
use std::os::fd::BorrowedFd;

/// Which of its streams a command wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Stdout,
    Stderr,
}

/// How a sink is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More output is welcome.
    Continue,
    /// As `Continue`, but output is being discarded because a limit was reached. Reading may be throttled.
    Discard,
    /// Bytes are pending. Do not read this channel before [`Sink::flush`] succeeds.
    Pause,
    /// The consumer has disconnected; the output has no destination any more.
    Disconnected,
}

/// A connection to poll while the command runs.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'fd> {
    pub connection: BorrowedFd<'fd>,
    /// The peer's half-close has been reported already ([`Sink::half_closed`]), so only a full disconnect
    /// counts.
    pub is_half_closed: bool,
    /// Bytes wait for the connection to become writable.
    pub has_pending: bool,
}

/// A consumer of output.
pub trait Sink {
    /// Accepts output, all of it. The flow concerns this channel.
    fn output(&mut self, channel: Channel, bytes: &[u8]) -> Flow;

    /// Sends pending bytes. Called when the watched connection is writable.
    fn flush(&mut self) -> Flow;

    /// Sends something that does not change the result, so that neither the client nor a proxy gives up
    /// waiting, and so that a client that disconnected behind a proxy is noticed. Called at
    /// [`keep_alive_at`](Self::keep_alive_at).
    fn keep_alive(&mut self) -> Flow;

    /// When [`keep_alive`](Self::keep_alive) is due next.
    fn keep_alive_at(&self) -> Option<Deadline>;

    /// The peer has shut down its sending side. It may still read.
    fn half_closed(&mut self);

    /// The command has ended or has been killed. The rest of the pipes follows, and reading it is more urgent
    /// than sending it.
    fn ended(&mut self);

    /// The connection of the client, if there is one.
    fn watch(&self) -> Option<Watch<'_>>;
}
