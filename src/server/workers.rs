//! The threads that serve requests: a fixed core, and temporary threads under load.
//!
//! A connection that is given to them is returned when it is idle, or closed.

use super::conn::{Connection, Context, Next};
use crate::log;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long an idle temporary worker waits for work.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Idle workers that are kept in addition to the core. Each counts as a process where those are limited, and
/// commands need some too.
const MAX_IDLE: usize = 4;

/// More than musl's default of 128 KiB; buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(work)
}

/// The pool.
pub(super) struct Workers {
    context: Arc<Context>,
    state: Mutex<State>,
    work: Condvar,
    /// Connections that have become idle, for the accept thread.
    returned: Mutex<Vec<Connection>>,
    /// A byte through this pipe wakes the accept thread.
    wake: File,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Connection>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
    /// Jobs that are queued or being worked on.
    busy: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Exists as long as the server.
    Core,
    /// Ends after a while without work.
    Temporary,
}

impl Workers {
    pub(super) fn new(context: Arc<Context>, wake: OwnedFd) -> Self {
        let (state, work, returned) = (Mutex::default(), Condvar::new(), Mutex::default());
        Self { context, state, work, returned, wake: File::from(wake) }
    }

    /// Starts the core.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        (0..self.context.limits.core_workers).try_for_each(|_| self.add_thread(&mut self.state(), Kind::Core))
    }

    /// Gives a connection to an idle worker or a new one. Returns the connection if there is neither.
    pub(super) fn submit(self: &Arc<Self>, connection: Connection) -> Result<(), Connection> {
        let mut state = self.state();
        let has_idle = state.idle > state.jobs.len();
        let may_add = state.threads < self.context.limits.workers;
        let has_worker = has_idle || (may_add && self.add_thread(&mut state, Kind::Temporary).is_ok());
        if !has_worker {
            return Err(connection);
        }
        state.jobs.push_back(connection);
        state.busy += 1;
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// How many connections have a request in flight.
    pub(super) fn busy(&self) -> usize {
        self.state().busy
    }

    /// The connections that have become idle.
    pub(super) fn returned(&self) -> Vec<Connection> {
        std::mem::take(&mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes every connection after its current response, and ends idle threads.
    pub(super) fn stop(&self) {
        self.context.is_stopping.store(true, Ordering::SeqCst);
        self.work.notify_all();
    }

    /// Starts a thread, which waits for the lock that the caller holds.
    fn add_thread(self: &Arc<Self>, state: &mut State, kind: Kind) -> io::Result<()> {
        let this = Arc::clone(self);
        spawn("worker", move || this.run(kind))?;
        state.threads += 1;
        Ok(())
    }

    fn run(&self, kind: Kind) {
        while let Some(connection) = self.next_job(kind) {
            match connection.serve(&self.context) {
                Next::Idle(connection) => self.give_back(connection),
                Next::Closed(reason) => log::debug(format_args!("closed a connection: {reason}")),
            }
            self.state().busy -= 1;
            if self.context.is_stopping() {
                self.wake();
            }
        }
    }

    fn next_job(&self, kind: Kind) -> Option<Connection> {
        let mut state = self.state();
        loop {
            if let Some(connection) = state.jobs.pop_front() {
                return Some(connection);
            }
            if kind == Kind::Temporary && state.idle >= MAX_IDLE {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.work.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            let is_surplus = kind == Kind::Temporary && timeout.timed_out();
            if state.jobs.is_empty() && (is_surplus || self.context.is_stopping()) {
                state.threads -= 1;
                return None;
            }
        }
    }

    fn give_back(&self, connection: Connection) {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.wake();
    }

    fn wake(&self) {
        // A full pipe wakes the thread as well. It breaks only when the process ends.
        let _woken_anyway = (&self.wake).write(&[0]);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counts and a queue, which a panic cannot leave half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
