//! Slows down the reading of output that is discarded.
//!
//! A writer and a reader that only wait for each other occupy a processor, and a few such pairs starve all
//! other processes: between control groups, Linux 6.18 has kept them waiting for seconds. So a thread that
//! discards output sleeps now and then, the longer the more streams are discarded, and the processors become
//! idle in between.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How much output is discarded between two pauses.
const PAUSE_EVERY_BYTES: u64 = 1 << 20;

/// The pause for each stream that is being discarded: about half of the time that a megabyte costs its writer
/// and its reader together.
const PAUSE: Duration = Duration::from_micros(250);

/// Counts the streams that are being discarded by one [`Runner`](super::Runner), whose commands share the
/// processors.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    streams: AtomicU32,
}

/// One stream, which counts from its first pause until it is dropped.
#[derive(Debug)]
pub(super) struct Discarded<'a> {
    throttle: &'a Throttle,
    bytes: u64,
    is_counted: bool,
}

impl Throttle {
    pub(super) fn stream(&self) -> Discarded<'_> {
        Discarded { throttle: self, bytes: 0, is_counted: false }
    }

    /// Sleeps as long as this many streams require.
    pub(super) fn pause(streams: u32) {
        std::thread::sleep(PAUSE * streams);
    }
}

impl Discarded<'_> {
    /// Notes discarded bytes, and pauses if it is time.
    pub(super) fn add(&mut self, count: usize) {
        let before = self.bytes;
        self.bytes += count as u64;
        if before / PAUSE_EVERY_BYTES == self.bytes / PAUSE_EVERY_BYTES {
            return;
        }
        if !self.is_counted {
            self.is_counted = true;
            self.throttle.streams.fetch_add(1, Ordering::Relaxed);
        }
        Throttle::pause(self.throttle.streams.load(Ordering::Relaxed));
    }
}

impl Drop for Discarded<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            self.throttle.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn each_megabyte_pauses_once_for_each_stream() {
        let throttle = Throttle::default();
        let pause = |stream: &mut Discarded<'_>, count: usize| {
            let begun = Instant::now();
            stream.add(count);
            begun.elapsed()
        };
        let (mut one, mut two) = (throttle.stream(), throttle.stream());
        one.add((1 << 20) - 1);
        assert_eq!(throttle.streams.load(Ordering::Relaxed), 0, "not counted before its first pause");
        assert!(pause(&mut one, 1) >= PAUSE);
        assert!(pause(&mut two, 3 << 20) >= 2 * PAUSE, "one pause for each stream");
        drop(two);
        assert_eq!(throttle.streams.load(Ordering::Relaxed), 1);
    }
}
