//! Waiting for conditions.

use std::io::{ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a busy machine; most waits end at once.
pub const TIMEOUT: Duration = Duration::from_secs(20);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until the condition is true; `false` after [`TIMEOUT`].
pub fn eventually(mut is_true: impl FnMut() -> bool) -> bool {
    eventually_some(|| is_true().then_some(())).is_some()
}

/// Waits until there is a value; `None` after [`TIMEOUT`].
pub fn eventually_some<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = find() {
            return Some(found);
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Sets a flag for the threads of a test when it goes out of scope. A failed test would otherwise wait for
/// them.
#[derive(Debug)]
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats a call that fails with `EINTR`, which a socket with a timeout returns for signals that have no
/// other effect (signal(7)).
///
/// # Errors
/// Those of the call.
pub fn uninterrupted(mut call: impl FnMut() -> Result<usize>) -> Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
