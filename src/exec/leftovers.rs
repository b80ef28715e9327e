//! What commands leave behind when they end: pipes that something in the background still writes to, and children that
//! could not be reaped at once.
//!
//! One thread ([`Leftovers::drain`]) reads the pipes and throws away what comes, so that the writer neither blocks nor
//! dies of SIGPIPE, and reaps the children. The number of pipes is bounded: past it the oldest is closed.

use super::discard::rest;
use crate::sys::poll::{PollFd, pipe, poll, read};
use crate::sys::process::{Pid, reap};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a child that does not end is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The shared place.
#[derive(Debug)]
pub struct Leftovers {
    most: usize,
    arrived: Mutex<Arrived>,
    /// A byte through this pipe wakes the thread; its end stops it.
    wake: Mutex<Option<File>>,
    woken: OwnedFd,
}

#[derive(Debug, Default)]
struct Arrived {
    pipes: Vec<OwnedFd>,
    children: Vec<Pid>,
}

impl Leftovers {
    pub(super) fn new(most: usize) -> io::Result<Self> {
        let (woken, wake) = pipe()?;
        Ok(Self { most, arrived: Mutex::default(), wake: Mutex::new(Some(File::from(wake))), woken })
    }

    /// Reads this pipe to its end, whenever that is.
    pub(super) fn take_pipe(&self, pipe: OwnedFd) {
        locked(&self.arrived).pipes.push(pipe);
        self.wake();
    }

    /// Reaps this child, whenever it ends.
    pub(super) fn take_child(&self, child: Pid) {
        locked(&self.arrived).children.push(child);
        self.wake();
    }

    fn wake(&self) {
        if let Some(wake) = locked(&self.wake).as_mut() {
            // Fails only when the thread has stopped for good; a full pipe has woken it already, and the thread reads
            // in large pieces, so this never blocks for long.
            let _stopped = wake.write(&[0]);
        }
    }

    /// Lets [`drain`](Self::drain) return.
    pub fn stop(&self) {
        drop(locked(&self.wake).take());
    }

    /// Drains what there is and what will come, until [`stop`](Self::stop).
    pub fn drain(&self) {
        let mut pipes: Vec<OwnedFd> = Vec::new();
        let mut children: Vec<Pid> = Vec::new();
        let mut scratch = vec![0; 64 << 10];
        loop {
            let until = (!children.is_empty()).then(|| Instant::now() + LOOK_AGAIN);
            let mut waited = vec![PollFd::readable(self.woken.as_fd())];
            waited.extend(pipes.iter().map(|pipe| PollFd::readable(pipe.as_fd())));
            if poll(&mut waited, until).is_err() {
                // Out of memory for a moment: whoever writes waits a little.
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            let ready: Vec<bool> = waited.iter().map(PollFd::is_ready).collect();
            let (woken, ready) =
                ready.split_first().map_or((false, &[][..]), |(woken, ready)| (*woken, ready));
            rest(ready.iter().map(|is_ready| u32::from(*is_ready)).sum());
            let mut is_ready = ready.iter().copied();
            pipes.retain(|pipe| {
                // Only a pipe that has reached its end, or is broken, gives nothing.
                !is_ready.next().unwrap_or(false)
                    || read(pipe.as_fd(), &mut scratch).is_ok_and(|count| count > 0)
            });
            children.retain(|child| matches!(reap(*child), Ok(None)));
            if woken {
                if !read(self.woken.as_fd(), &mut scratch).is_ok_and(|count| count > 0) {
                    return;
                }
                let mut arrived = std::mem::take(&mut *locked(&self.arrived));
                pipes.append(&mut arrived.pipes);
                children.append(&mut arrived.children);
                pipes.drain(..pipes.len().saturating_sub(self.most));
            }
        }
    }
}

/// Nothing that is guarded here can be left half done, so a panic elsewhere does not matter.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
