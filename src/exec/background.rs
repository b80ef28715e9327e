//! Pipes that background processes of a finished command still hold open, and killed children that could not
//! be reaped at once.
//!
//! One thread ([`Background::drain`]) reads the pipes and discards their output, so that the writer neither
//! blocks nor dies of SIGPIPE, and reaps the children. The number of pipes is bounded: past the limit the
//! oldest is closed.

use super::locked;
use super::throttle::Throttle;
use crate::sys::poll::{PollFd, pipe, poll, read};
use crate::sys::process::{Pid, reap};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The interval at which a child that has not ended yet is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

const READ_BYTES: usize = 64 << 10;

/// The queue from the threads that run commands to the draining thread.
#[derive(Debug)]
pub struct Background {
    max_pipes: usize,
    received: Mutex<Received>,
    /// A byte through this pipe wakes the thread; closing it stops the thread.
    wake: Mutex<Option<File>>,
    woken: OwnedFd,
}

#[derive(Debug, Default)]
struct Received {
    pipes: Vec<OwnedFd>,
    children: Vec<Pid>,
}

impl Background {
    pub(super) fn new(max_pipes: usize) -> io::Result<Self> {
        let (woken, wake) = pipe()?;
        Ok(Self { max_pipes, received: Mutex::default(), wake: Mutex::new(Some(File::from(wake))), woken })
    }

    /// Reads this pipe until its end-of-file.
    pub(super) fn add_pipe(&self, pipe: OwnedFd) {
        locked(&self.received).pipes.push(pipe);
        self.wake();
    }

    /// Reaps this child when it ends.
    pub(super) fn add_child(&self, child: Pid) {
        locked(&self.received).children.push(child);
        self.wake();
    }

    fn wake(&self) {
        if let Some(wake) = locked(&self.wake).as_mut() {
            // Fails only after the thread has stopped. A full pipe has woken the thread already, and the
            // thread reads in large pieces, so this never blocks for long.
            let _stopped = wake.write(&[0]);
        }
    }

    /// Makes [`drain`](Self::drain) return.
    pub fn stop(&self) {
        drop(locked(&self.wake).take());
    }

    /// Drains pipes and reaps children until [`stop`](Self::stop).
    pub fn drain(&self) {
        let mut held = Received::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let until = (!held.children.is_empty()).then(|| Instant::now() + CHECK_INTERVAL);
            let Some((is_woken, ready)) = self.wait(&held.pipes, until) else { continue };
            Throttle::pause(ready.iter().map(|is_ready| u32::from(*is_ready)).sum());
            let mut is_ready = ready.iter().copied();
            held.pipes.retain(|pipe| {
                // A pipe that is ready and gives nothing is at its end, or broken.
                !is_ready.next().unwrap_or(false)
                    || read(pipe.as_fd(), &mut buffer).is_ok_and(|count| count > 0)
            });
            held.children.retain(|child| matches!(reap(*child), Ok(None)));
            if is_woken {
                if !read(self.woken.as_fd(), &mut buffer).is_ok_and(|count| count > 0) {
                    return;
                }
                self.receive(&mut held);
            }
        }
    }

    /// Waits for a wake-up or a pipe. `None` if poll(2) failed for want of memory; then the writers wait a
    /// moment.
    fn wait(&self, pipes: &[OwnedFd], until: Option<Instant>) -> Option<(bool, Vec<bool>)> {
        let mut slots = vec![PollFd::readable(self.woken.as_fd())];
        slots.extend(pipes.iter().map(|pipe| PollFd::readable(pipe.as_fd())));
        if poll(&mut slots, until).is_err() {
            std::thread::sleep(CHECK_INTERVAL);
            return None;
        }
        let mut ready = slots.iter().map(PollFd::is_ready);
        let is_woken = ready.next().unwrap_or(false);
        Some((is_woken, ready.collect()))
    }

    fn receive(&self, held: &mut Received) {
        let mut received = std::mem::take(&mut *locked(&self.received));
        held.pipes.append(&mut received.pipes);
        held.children.append(&mut received.children);
        let surplus = held.pipes.len().saturating_sub(self.max_pipes);
        held.pipes.drain(..surplus);
    }
}
