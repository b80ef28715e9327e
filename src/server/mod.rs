//! Sockets and threads: listen, accept, dispatch to workers, shut down. Threads are started only here.
//!
//! The accept thread ([`waiting`]) waits for everything that is idle. Where no worker can be started
//! (commands may have used up the processes that are allowed) it responds itself: to health checks as usual,
//! to everything else with 503 before anything is started.

mod chunks;
mod conn;
pub mod healthcheck;
mod listen;
mod request_body;
mod responder;
mod waiting;
mod wire;
mod workers;

pub use listen::{Error, Listen};

use crate::api::Sandbox;
use crate::deadline::Deadline;
use crate::log;
use crate::sys::poll::{PollFd, pipe, poll, widen_backlog};
use crate::sys::prctl::max_descriptors;
use crate::sys::signals::unblock_all_signals;
use conn::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use waiting::{Waiting, clear};
use workers::Workers;

/// Bounds for connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections, idle ones included. Past that the one that has been idle for longest is closed.
    /// Lowered to half of the descriptors that the server does not need itself, since commands need some too.
    pub connections: usize,
    /// Threads that serve requests.
    pub workers: usize,
    /// Workers that exist from the start to the end.
    pub core_workers: usize,
    /// How long a connection may be idle: longer than the 90 s for which routers keep theirs.
    pub idle: Duration,
    /// How long a worker stays with a connection to wait for its next request, or for the rest of a head.
    pub keep_alive_wait: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// For a body or a response, in addition to the time that its size allows.
    pub transfer: Duration,
    /// Each second allows this many bytes.
    pub slowest_bytes_per_second: u64,
    /// For requests in flight at shutdown.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            workers: 1024,
            core_workers: 2,
            idle: Duration::from_secs(120),
            keep_alive_wait: Duration::from_millis(50),
            head: Duration::from_secs(20),
            transfer: Duration::from_secs(60),
            slowest_bytes_per_second: 64 << 10,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

/// How many connections may wait to be accepted.
const BACKLOG: u16 = 4096;

/// Descriptors of the server itself, and a few more for the moment in which a command is started.
const OWN_DESCRIPTORS: usize = 24;

/// How long to wait for killed commands and their responses at the end.
const KILLED_GRACE: Duration = Duration::from_millis(1500);

impl Server {
    /// # Errors
    /// The address cannot be used.
    pub fn bind(listen: Listen, limits: Limits) -> Result<Self, Error> {
        let listener = listen.bind()?;
        let prepare = || {
            widen_backlog(&listener, BACKLOG)?;
            listener.set_nonblocking(true)?;
            listener.local_addr()
        };
        let address = prepare().map_err(|cause| listen.error(cause))?;
        let share = max_descriptors().saturating_sub(OWN_DESCRIPTORS) / 2;
        let limits = Limits { connections: limits.connections.min(share.max(1)), ..limits };
        Ok(Self { listener, address, limits })
    }

    /// Serves until SIGTERM, SIGINT, SIGHUP or SIGQUIT; then gives requests in flight the grace period to
    /// finish; then kills their commands. A second signal ends the grace period.
    ///
    /// # Errors
    /// No thread, or no descriptors.
    pub fn run(self, sandbox: Sandbox) -> io::Result<()> {
        let signals = signals()?;
        let (woken, wake) = pipe()?;
        let context = Arc::new(Context { sandbox, limits: self.limits, is_stopping: AtomicBool::new(false) });
        let workers = Arc::new(Workers::new(Arc::clone(&context), wake));
        workers.start()?;
        let background = workers::spawn("background", {
            let context = Arc::clone(&context);
            move || context.sandbox.runner.background().drain()
        })?;
        self.announce(&context.sandbox);
        Waiting::new(&self.listener, &signals, &woken, &workers, &context).run_until_signalled();
        drop(self.listener);
        log::info(format_args!("shutting down, {} requests in flight", workers.busy()));
        workers.stop();
        let runner = &context.sandbox.runner;
        if !wait_until_done(&workers, &woken, Some(&signals), self.limits.shutdown_grace) {
            runner.stop();
            wait_until_done(&workers, &woken, None, KILLED_GRACE);
        }
        runner.background().stop();
        drop(background.join());
        log::info(format_args!("stopped"));
        Ok(())
    }

    fn announce(&self, sandbox: &Sandbox) {
        let directory = sandbox.root.path().display();
        log::info(format_args!("listening on http://{}, serving {directory}", self.address));
        if !sandbox.root.is_open() {
            log::warn(format_args!(
                "the base directory {directory} does not exist; create it, or set --base-dir or \
                 SANDBOX_BASE_DIR"
            ));
        }
    }
}

/// A descriptor that becomes readable with each signal that requests a shutdown. SIGUSR1 and SIGUSR2 have no
/// effect; without a handler they would end the server.
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

/// Waits until no request is in flight, the time is over, or a signal arrives. Returns whether none is in
/// flight.
fn wait_until_done(workers: &Workers, woken: &OwnedFd, signals: Option<&OwnedFd>, time: Duration) -> bool {
    let until = Deadline::within(time);
    while workers.busy() > 0 && !until.has_passed() {
        let signals = signals.map_or(PollFd::nothing(), |signals| PollFd::readable(signals.as_fd()));
        let mut slots = [PollFd::readable(woken.as_fd()), signals];
        let polled = poll(&mut slots, Some(until.instant()));
        let [is_woken, is_signalled] = slots.map(|slot| slot.is_ready());
        if polled.is_err() || is_signalled {
            break;
        }
        if is_woken {
            clear(woken);
        }
    }
    workers.busy() == 0
}
