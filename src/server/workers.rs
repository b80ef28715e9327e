//! The threads that work on requests: some for good, others as long as there is work.
//!
//! A connection that is given to them comes back when it is idle, or is closed.

use super::Limits;
use super::conn::{Connection, Next};
use crate::app::App;
use crate::log;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long a worker that is not needed waits for work.
const KEPT: Duration = Duration::from_secs(10);

/// How many workers may wait for work besides those that exist for good. Each counts as a process where those are limited, and
/// commands need them, too.
const SPARE: usize = 4;

/// musl's default of 128 KiB is little; buffers are on the heap all the same.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(work)
}

/// All of them.
pub(super) struct Workers {
    app: Arc<App>,
    limits: Limits,
    state: Mutex<State>,
    work: Condvar,
    stopping: AtomicBool,
    /// Connections that have become idle, for the thread that waits for them.
    returned: Mutex<Vec<Connection>>,
    /// A byte through this pipe wakes that thread.
    wake: File,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Connection>,
    threads: usize,
    /// Threads that wait for a job.
    free: usize,
    /// Jobs that wait or are being worked on.
    busy: usize,
}

impl Workers {
    pub(super) fn new(app: Arc<App>, limits: Limits, wake: OwnedFd) -> Self {
        Self {
            app,
            limits,
            state: Mutex::default(),
            work: Condvar::new(),
            stopping: AtomicBool::new(false),
            returned: Mutex::default(),
            wake: File::from(wake),
        }
    }

    /// Starts the standing ones.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        for _ in 0..self.limits.standing_workers {
            self.add_thread(Kind::Standing)?;
        }
        Ok(())
    }

    /// Has a thread work on a connection: one that is free, or a new one. Gives the connection back when there is none of
    /// either.
    pub(super) fn take(self: &Arc<Self>, connection: Connection) -> Result<(), Connection> {
        let state = self.state();
        let has_free = state.free > state.jobs.len();
        let may_add = state.threads < self.limits.workers;
        drop(state);
        let has_thread = has_free || (may_add && self.add_thread(Kind::Passing).is_ok());
        if !has_thread {
            return Err(connection);
        }
        let mut state = self.state();
        state.jobs.push_back(connection);
        state.busy += 1;
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// How many connections have a request that is not answered yet.
    pub(super) fn busy(&self) -> usize {
        self.state().busy
    }

    /// Those that have become idle.
    pub(super) fn returned(&self) -> Vec<Connection> {
        std::mem::take(&mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every connection is closed after the answer that it waits for, and threads end.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.work.notify_all();
    }

    fn add_thread(self: &Arc<Self>, kind: Kind) -> io::Result<()> {
        self.state().threads += 1;
        let this = Arc::clone(self);
        let spawned = spawn("worker", move || this.work_on_jobs(kind));
        if spawned.is_err() {
            self.state().threads -= 1;
        }
        spawned.map(drop)
    }

    fn work_on_jobs(&self, kind: Kind) {
        while let Some(connection) = self.next_job(kind) {
            match connection.serve(&self.app, &self.limits, &self.stopping) {
                Next::Idle(connection) => self.give_back(connection),
                Next::Closed(reason) => log::debug(format_args!("closed a connection: {reason}")),
            }
            self.state().busy -= 1;
            if self.stopping.load(Ordering::SeqCst) {
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
            if kind == Kind::Passing && state.free >= SPARE {
                state.threads -= 1;
                return None;
            }
            state.free += 1;
            let waited = self.work.wait_timeout(state, KEPT).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.free -= 1;
            let is_surplus = kind == Kind::Passing && waited.1.timed_out();
            if state.jobs.is_empty() && (is_surplus || self.stopping.load(Ordering::SeqCst)) {
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
        // A pipe that is full has enough to wake anybody. It breaks only when the process ends.
        let _woken_anyway = (&self.wake).write(&[0]);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counts and a queue: no panic can leave them half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Exists as long as the server.
    Standing,
    /// Ends when there is no work for a while.
    Passing,
}
