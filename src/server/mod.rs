//! Sockets and threads: listen, accept, hand out work, shut down. Threads are born here only.
//!
//! One thread waits for everything that is idle: the listener, the connections between two requests, the signals. A
//! connection that has something to say gets a worker thread for as long as a request is read, done and answered. So an
//! idle connection, or one whose head comes drop by drop, costs a descriptor and no thread. Where no thread can be had (commands have used up the processes that
//! are allowed) the first thread answers in passing: health as always, and 503 before anything is started.

mod chunks;
mod conn;
mod exchange;
mod listen;
pub mod probe;
mod wire;
mod workers;

pub use listen::{Error, Listen};

use crate::app::App;
use crate::deadline::Deadline;
use crate::log;
use crate::sys::errno::is_transient_shortage;
use crate::sys::poll::{PollFd, pipe, poll, read, widen_backlog};
use crate::sys::process::{most_descriptors, unblock_all_signals};
use conn::{Connection, Next};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use workers::Workers;

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once, idle ones included; past that the one that is idle for longest is closed. Fewer where they
    /// would take more than half of the descriptors that the server leaves, which commands need too.
    pub connections: usize,
    /// Threads that work on requests.
    pub workers: usize,
    /// Workers that exist from the start and for good.
    pub standing_workers: usize,
    /// How long a connection may stay between two requests: longer than the 90 s for which routers keep theirs.
    pub idle: Duration,
    /// How long a worker stays with a connection for its next request, or the rest of a head, before it gives it back.
    pub linger: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// For a body, or an answer, as far as its size does not excuse more.
    pub transfer: Duration,
    /// Each of these bytes that have passed excuse one second more.
    pub slowest_bytes_per_second: u64,
    /// For running requests to end when the server is told to stop.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            workers: 1024,
            standing_workers: 2,
            idle: Duration::from_secs(120),
            linger: Duration::from_millis(50),
            head: Duration::from_secs(20),
            transfer: Duration::from_secs(60),
            slowest_bytes_per_second: 64 << 10,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// A socket that listens, and nothing behind it yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

/// How many connections may wait to be accepted.
const BACKLOG: u16 = 4096;

/// How many connections are accepted before the others get their turn.
const ACCEPTED_AT_ONCE: usize = 64;

/// What the server has open by itself, and a few for the moment in which a command is started.
const OWN_DESCRIPTORS: usize = 24;

/// How long accepting rests when descriptors have run out and nobody idle can be sent away.
const REST: Duration = Duration::from_millis(50);

/// How long killed commands and their answers are waited for at the end.
const KILLED_GRACE: Duration = Duration::from_millis(1500);

impl Server {
    /// # Errors
    /// The address can not be used; says which and why.
    pub fn bind(listen: Listen, limits: Limits) -> Result<Self, Error> {
        let listener = listen.bind()?;
        let prepare = || {
            widen_backlog(&listener, BACKLOG)?;
            listener.set_nonblocking(true)?;
            listener.local_addr()
        };
        let address = prepare().map_err(|cause| listen.error(cause))?;
        let share = most_descriptors().saturating_sub(OWN_DESCRIPTORS) / 2;
        let limits = Limits { connections: limits.connections.min(share.max(1)), ..limits };
        Ok(Self { listener, address, limits })
    }

    /// Serves until SIGTERM or SIGINT (SIGHUP and SIGQUIT are the same), then lets running requests end within the
    /// grace, then kills their commands. A second signal shortens the grace to nothing.
    ///
    /// # Errors
    /// No thread or no descriptor to begin with.
    pub fn run(self, app: App) -> io::Result<()> {
        let signals = signals()?;
        let (woken, wake) = pipe()?;
        let app = Arc::new(app);
        let workers = Arc::new(Workers::new(Arc::clone(&app), self.limits, wake));
        workers.start()?;
        let leftovers = workers::spawn("leftovers", {
            let app = Arc::clone(&app);
            move || app.runner.leftovers().drain()
        })?;
        self.announce(&app);
        let mut waiting = Waiting {
            listener: &self.listener,
            signals: &signals,
            woken: &woken,
            workers: &workers,
            app: &app,
            limits: self.limits,
            idle: VecDeque::new(),
            rest: None,
        };
        waiting.until_signalled();
        drop(waiting);
        drop(self.listener);
        log::info(format_args!("stopping; requests that are running: {}", workers.busy()));
        workers.stop();
        if !all_ended(&workers, &woken, Some(&signals), self.limits.shutdown_grace) {
            app.runner.stop();
            all_ended(&workers, &woken, None, KILLED_GRACE);
        }
        app.runner.leftovers().stop();
        drop(leftovers.join());
        log::info(format_args!("stopped"));
        Ok(())
    }

    fn announce(&self, app: &App) {
        let directory = app.root.path().display();
        log::info(format_args!("listening on http://{}, serving {directory}", self.address));
        if !app.root.is_open() {
            log::warn(format_args!(
                "the base directory {directory} does not exist: make it, or choose another with --base-dir or SANDBOX_BASE_DIR"
            ));
        }
    }
}

/// A descriptor that becomes readable with each signal that asks to stop. SIGUSR1 and SIGUSR2 do nothing; without a handler
/// they would end the server.
fn signals() -> io::Result<OwnedFd> {
    let (signalled, signal) = pipe()?;
    for number in [SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(number, Arc::default())?;
    }
    for number in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        signal_hook::low_level::pipe::register(number, signal.try_clone()?)?;
    }
    unblock_all_signals();
    Ok(signalled)
}

/// Waits until no request runs, or the time is over, or (where they count) another signal comes. Whether none runs.
fn all_ended(workers: &Workers, woken: &OwnedFd, signals: Option<&OwnedFd>, time: Duration) -> bool {
    let until = Deadline::within(time);
    while workers.busy() > 0 && !until.has_passed() {
        let mut waited = [
            PollFd::readable(woken.as_fd()),
            signals.map_or(PollFd::nothing(), |fd| PollFd::readable(fd.as_fd())),
        ];
        let polled = poll(&mut waited, Some(until.instant()));
        let [is_woken, is_signalled] = waited.map(|descriptor| descriptor.is_ready());
        if polled.is_err() || is_signalled {
            break;
        }
        if is_woken {
            clear(woken);
        }
    }
    workers.busy() == 0
}

/// Takes the bytes that did nothing but wake this thread.
fn clear(pipe: &OwnedFd) {
    // Whether one or many, and even an error, means the same: look what there is to do.
    let _number_is_of_no_interest = read(pipe.as_fd(), &mut [0; 512]);
}

/// What waits without a thread.
struct Waiting<'a> {
    listener: &'a TcpListener,
    signals: &'a OwnedFd,
    /// Readable when workers have given connections back.
    woken: &'a OwnedFd,
    workers: &'a Arc<Workers>,
    app: &'a App,
    limits: Limits,
    /// The one that is idle for longest comes first.
    idle: VecDeque<Idle>,
    /// Until when nothing is accepted.
    rest: Option<Instant>,
}

struct Idle {
    connection: Connection,
    until: Deadline,
}

impl Waiting<'_> {
    fn until_signalled(&mut self) {
        loop {
            self.rest = self.rest.filter(|rest| *rest > Instant::now());
            let accept = match self.rest {
                Some(_) => PollFd::nothing(),
                None => PollFd::readable(self.listener.as_fd()),
            };
            let mut waited =
                vec![accept, PollFd::readable(self.woken.as_fd()), PollFd::readable(self.signals.as_fd())];
            waited.extend(self.idle.iter().map(|idle| PollFd::readable(idle.connection.descriptor())));
            let until = self.rest.into_iter().chain(self.idle.iter().map(|idle| idle.until.instant())).min();
            if let Err(error) = poll(&mut waited, until) {
                log::warn(format_args!("can not wait for connections: {error}"));
                std::thread::sleep(REST);
                continue;
            }
            let ready: Vec<bool> = waited.iter().map(PollFd::is_ready).collect();
            let [is_accept, is_woken, is_signalled, connections @ ..] = ready.as_slice() else { return };
            if *is_signalled {
                clear(self.signals);
                return;
            }
            self.hand_out(connections);
            if *is_woken {
                clear(self.woken);
                self.workers.returned().into_iter().for_each(|connection| self.keep(connection));
            }
            if *is_accept {
                self.accept();
            }
        }
    }

    /// Gives those that have something to say to the workers, and also those that have begun a request and are too slow, to
    /// be told so. Closes those that were silent for too long.
    fn hand_out(&mut self, ready: &[bool]) {
        for (idle, is_ready) in std::mem::take(&mut self.idle).into_iter().zip(ready) {
            let is_late = !is_ready && idle.until.has_passed();
            if *is_ready || (is_late && idle.connection.has_begun()) {
                if let Err(connection) = self.workers.take(idle.connection) {
                    self.serve_at_once(connection);
                }
            } else if !is_late {
                self.idle.push_back(idle);
            }
        }
    }

    fn serve_at_once(&mut self, connection: Connection) {
        match connection.serve_at_once(self.app, &self.limits) {
            Next::Idle(connection) => self.keep(connection),
            Next::Closed(reason) => log::debug(format_args!("closed a connection: {reason}")),
        }
    }

    fn keep(&mut self, connection: Connection) {
        let until = connection.patience(&self.limits);
        self.idle.push_back(Idle { connection, until });
    }

    /// Accepts those that wait. Whoever has been idle for longest makes room where there is none; but nobody who has only
    /// just come, and may have said something already. Then others wait.
    fn accept(&mut self) {
        let mut idle_for_long = self.idle.len();
        for _ in 0..ACCEPTED_AT_ONCE {
            let is_full = self.idle.len() + self.workers.busy() >= self.limits.connections;
            let lack = match is_full {
                true => None,
                false => match self.listener.accept() {
                    Ok((stream, peer)) => {
                        self.admit(stream, peer);
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(error) if is_transient_shortage(&error) => Some(error),
                    // The connection was gone before it was accepted (accept(2)). The next may be well.
                    Err(_) => continue,
                },
            };
            if idle_for_long == 0 {
                if let Some(error) = lack {
                    log::warn(format_args!("can not accept connections: {error}"));
                }
                self.rest = Some(Instant::now() + REST);
                return;
            }
            idle_for_long -= 1;
            self.idle.pop_front();
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        match Connection::new(stream, peer) {
            Ok(connection) => self.keep(connection),
            Err(error) => log::debug(format_args!("a connection was gone at once: {error}")),
        }
    }
}
