//! One instant by which something must be over, asked what remains.
//!
//! The edge turns a timeout into a `Deadline` once; nothing below sees a timeout. The clock is the monotonic one, so
//! setting the time of day changes nothing.

use std::time::{Duration, Instant};

/// Later than anything waits for, and early enough that no clock overflows: about a hundred years.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The instant this long after another. A time too long for the clock is cut to about a hundred years.
    pub fn after(start: Instant, time: Duration) -> Self {
        Self(start.checked_add(time.min(FAR)).unwrap_or(start))
    }

    /// The instant this long from now, cut like [`after`](Self::after).
    pub fn within(time: Duration) -> Self {
        Self::after(Instant::now(), time)
    }

    pub fn instant(self) -> Instant {
        self.0
    }

    pub fn has_passed(self) -> bool {
        Instant::now() >= self.0
    }
}

/// A number of seconds as a duration. `None` for what is no time to wait: zero, negative, NaN, infinite. A number too
/// large for a `Duration` is cut to about a hundred years.
pub fn seconds(number: f64) -> Option<Duration> {
    let is_a_time = number.is_finite() && number > 0.0;
    is_a_time.then(|| Duration::try_from_secs_f64(number).unwrap_or(FAR).min(FAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_too_large_for_the_clock_is_cut_and_not_an_error() {
        // CG-02
        for number in [3e9, 1e10, 1e18, 1e19, 1.7e308, 77_777_777_777_777_777_777.0] {
            let time = seconds(number).unwrap();
            assert!(
                Deadline::within(time) > Deadline::within(Duration::from_secs(2_000_000_000)),
                "{number}"
            );
        }
    }

    #[test]
    fn what_is_no_time_to_wait_is_none() {
        for number in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(seconds(number), None, "{number}");
        }
        assert_eq!(seconds(0.05), Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_deadline_passes() {
        assert!(Deadline::within(Duration::ZERO).has_passed());
        assert!(!Deadline::within(Duration::from_secs(60)).has_passed());
    }
}
