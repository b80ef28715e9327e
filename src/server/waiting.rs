//! The accept thread: one poll(2) over the listener, the signals, and every idle connection.
//!
//! A connection gets a worker for as long as a request is read and served. So an idle connection, or one
//! whose head arrives slowly, costs a descriptor and no thread.

use super::Limits;
use super::conn::{Connection, Context, Next};
use super::workers::Workers;
use crate::deadline::Deadline;
use crate::log;
use crate::sys::errno::is_transient_shortage;
use crate::sys::poll::{PollFd, poll, read};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many connections are accepted before the others get their turn.
const ACCEPT_BATCH: usize = 64;

/// The pause in accepting when descriptors have run out and no idle connection can be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Everything that waits without a thread of its own.
pub(super) struct Waiting<'a> {
    listener: &'a TcpListener,
    signals: &'a OwnedFd,
    /// Readable when workers have returned connections.
    woken: &'a OwnedFd,
    workers: &'a Arc<Workers>,
    context: &'a Context,
    /// The one that has been idle for longest comes first.
    idle: VecDeque<Idle>,
    /// Until when nothing is accepted.
    paused_until: Option<Instant>,
}

struct Idle {
    connection: Connection,
    until: Deadline,
}

/// The result of one attempt to accept a connection.
enum Accepted {
    Connection(TcpStream, SocketAddr),
    NoneWaiting,
    /// The limit of connections is reached.
    Full,
    /// Descriptors or memory have run out.
    Shortage(io::Error),
    /// The connection was closed before it was accepted (accept(2)).
    Failed,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(
        listener: &'a TcpListener,
        signals: &'a OwnedFd,
        woken: &'a OwnedFd,
        workers: &'a Arc<Workers>,
        context: &'a Context,
    ) -> Self {
        Self { listener, signals, woken, workers, context, idle: VecDeque::new(), paused_until: None }
    }

    pub(super) fn run_until_signalled(&mut self) {
        loop {
            self.paused_until = self.paused_until.filter(|until| *until > Instant::now());
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => {
                    log::warn(format_args!("cannot wait for connections: {error}"));
                    std::thread::sleep(ACCEPT_PAUSE);
                    continue;
                }
            };
            let [can_accept, is_woken, is_signalled, connections @ ..] = ready.as_slice() else { return };
            if *is_signalled {
                return clear(self.signals);
            }
            self.dispatch(connections);
            if *is_woken {
                clear(self.woken);
                self.workers.returned().into_iter().for_each(|connection| self.keep(connection));
            }
            if *can_accept {
                self.accept();
            }
        }
    }

    /// Whether the listener, the wake-up pipe, the signals, and each idle connection are ready.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let listener = match self.paused_until {
            Some(_) => PollFd::nothing(),
            None => PollFd::readable(self.listener.as_fd()),
        };
        let (woken, signals) = (PollFd::readable(self.woken.as_fd()), PollFd::readable(self.signals.as_fd()));
        let mut slots = vec![listener, woken, signals];
        slots.extend(self.idle.iter().map(|idle| PollFd::readable(idle.connection.descriptor())));
        let deadlines = self.idle.iter().map(|idle| idle.until.instant());
        poll(&mut slots, self.paused_until.into_iter().chain(deadlines).min())?;
        Ok(slots.iter().map(PollFd::is_ready).collect())
    }

    /// Gives readable connections to the workers, and also those whose request is late, for an error
    /// response. Closes those that have been idle for too long.
    fn dispatch(&mut self, ready: &[bool]) {
        for (idle, is_ready) in std::mem::take(&mut self.idle).into_iter().zip(ready) {
            let is_late = !is_ready && idle.until.has_passed();
            if *is_ready || (is_late && idle.connection.has_begun()) {
                if let Err(connection) = self.workers.submit(idle.connection) {
                    self.serve_at_once(connection);
                }
            } else if !is_late {
                self.idle.push_back(idle);
            }
        }
    }

    fn serve_at_once(&mut self, connection: Connection) {
        match connection.serve_at_once(self.context) {
            Next::Idle(connection) => self.keep(connection),
            Next::Closed(reason) => log::debug(format_args!("closed a connection: {reason}")),
        }
    }

    fn keep(&mut self, connection: Connection) {
        let until = connection.idle_deadline(&self.context.limits);
        self.idle.push_back(Idle { connection, until });
    }

    /// Accepts a batch. Without room, the connection that has been idle for longest is closed; but
    /// never one from this batch, which may have sent a request already. Then new connections wait.
    fn accept(&mut self) {
        let mut replaceable = self.idle.len();
        for _ in 0..ACCEPT_BATCH {
            let shortage = match self.accept_one() {
                Accepted::Connection(stream, peer) => {
                    self.admit(stream, peer);
                    continue;
                }
                Accepted::Failed => continue,
                Accepted::NoneWaiting => return,
                Accepted::Full => None,
                Accepted::Shortage(error) => Some(error),
            };
            if replaceable == 0 {
                return self.pause(shortage);
            }
            replaceable -= 1;
            self.idle.pop_front();
        }
    }

    fn accept_one(&self) -> Accepted {
        let Limits { connections, .. } = self.context.limits;
        if self.idle.len() + self.workers.busy() >= connections {
            return Accepted::Full;
        }
        match self.listener.accept() {
            Ok((stream, peer)) => Accepted::Connection(stream, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::NoneWaiting,
            Err(error) if is_transient_shortage(&error) => Accepted::Shortage(error),
            Err(_) => Accepted::Failed,
        }
    }

    fn pause(&mut self, shortage: Option<io::Error>) {
        if let Some(error) = shortage {
            log::warn(format_args!("cannot accept connections: {error}"));
        }
        self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        match Connection::new(stream, peer) {
            Ok(connection) => self.keep(connection),
            Err(error) => log::debug(format_args!("connection closed during accept: {error}")),
        }
    }
}

/// Removes the bytes that woke this thread.
pub(super) fn clear(pipe: &OwnedFd) {
    // One or many, or even an error, mean the same: there may be something to do.
    let _count = read(pipe.as_fd(), &mut [0; 512]);
}
