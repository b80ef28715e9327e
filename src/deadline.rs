//! Deadlines: the instant by which something must be finished.
//!
//! The edge turns a timeout into a `Deadline` once; nothing below sees a timeout. The clock is monotonic, so
//! setting the time of day has no effect.

use std::time::{Duration, Instant};

/// About a hundred years: later than any real deadline, and early enough that no clock overflows.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// An instant of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The instant this long after another. A longer time is clamped to about a hundred years.
    pub fn after(start: Instant, time: Duration) -> Self {
        Self(start.checked_add(time.min(FAR)).unwrap_or(start))
    }

    /// The instant this long from now, clamped like [`after`](Self::after).
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

/// A number of seconds as a duration. `None` unless it is positive and finite. A larger one is clamped to
/// about a hundred years.
pub fn seconds(number: f64) -> Option<Duration> {
    let is_valid = number.is_finite() && number > 0.0;
    is_valid.then(|| Duration::try_from_secs_f64(number).unwrap_or(FAR).min(FAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_too_long_for_the_clock_is_clamped() {
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
    fn only_positive_finite_numbers_are_times() {
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
