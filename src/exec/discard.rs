//! How fast output is read that nobody wants.
//!
//! A writer and a reader that only ever wait for each other take a processor for themselves, and a few such pairs keep
//! everything else off all of them: between control groups, Linux 6.18 has let others wait for seconds. So whoever throws
//! output away rests now and then, the longer the more of them there are, and the processors are idle in between.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// After how much output there is a rest.
const REST_EVERY_BYTES: u64 = 1 << 20;

/// How long a rest is for each stream that is being thrown away: about half of what one such piece costs its writer and its
/// reader together.
const REST: Duration = Duration::from_micros(250);

/// How many there are in this process, whose commands share the processors.
static STREAMS: AtomicU32 = AtomicU32::new(0);

/// One stream that is being thrown away.
#[derive(Debug)]
pub(super) struct Discarding(());

impl Discarding {
    fn begin() -> Self {
        STREAMS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Discarding {
    fn drop(&mut self) {
        STREAMS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Rests if it is time to, now that so many bytes of a stream are thrown away. The first time the stream begins to count.
pub(super) fn pace(stream: &mut Option<Discarding>, before: u64, now: u64) {
    if before / REST_EVERY_BYTES != now / REST_EVERY_BYTES {
        stream.get_or_insert_with(Discarding::begin);
        rest(STREAMS.load(Ordering::Relaxed));
    }
}

/// Rests after something was read of so many streams.
pub(super) fn rest(streams: u32) {
    std::thread::sleep(REST * streams);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn there_is_a_rest_after_each_piece_and_the_stream_counts_from_the_first_on() {
        let mut stream = None;
        pace(&mut stream, 0, REST_EVERY_BYTES - 1);
        assert!(stream.is_none());
        let begun = Instant::now();
        pace(&mut stream, REST_EVERY_BYTES - 1, REST_EVERY_BYTES);
        assert!(stream.is_some() && begun.elapsed() >= REST);
        let (begun, mut other) = (Instant::now(), None);
        pace(&mut other, 5, 3 * REST_EVERY_BYTES);
        assert!(begun.elapsed() >= 2 * REST, "a rest is for each stream");
    }
}
