//! What was measured, and what a reader is told of it: the median over the rounds.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Seconds,
    PerSecond,
    Bytes,
}

/// One measurement in one round, in its [`Unit`].
#[derive(Default)]
pub(super) struct Sample {
    pub(super) server: f64,
    pub(super) floor: Option<f64>,
    pub(super) latency: Option<Latency>,
    pub(super) floor_latency: Option<Latency>,
    pub(super) work: Option<Work>,
    pub(super) peak_bytes: Option<u64>,
    pub(super) delivered: Option<Delivered>,
    /// What a reader has to know beside the number.
    pub(super) note: Option<String>,
}

/// In seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// What the server itself used of the processors, and for how many commands.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) cpu_seconds: f64,
    pub(super) commands: f64,
}

/// How much of a command's output arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Delivered {
    All(u64),
    /// The rest was left out by the server: its time compares with no floor.
    Truncated(u64),
}

impl Latency {
    /// `None` when nothing was measured.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Latency> {
        times.sort_unstable();
        let seconds = |percent| percentile(&times, percent).map(|time| time.as_secs_f64());
        Some(Latency { p50: seconds(50)?, p99: seconds(99)?, max: seconds(100)? })
    }
}

/// By the nearest rank: a time that was measured, and none between two.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// All rounds of one measurement.
#[derive(Default)]
pub(super) struct Summary {
    pub(super) server: Option<f64>,
    pub(super) floor: Option<f64>,
    /// Of a round's server to the same round's floor.
    pub(super) ratio: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) floor_p99: Option<f64>,
    pub(super) floor_max: Option<f64>,
    pub(super) cpu_per_1000: Option<f64>,
    /// The highest of all rounds.
    pub(super) peak_bytes: Option<u64>,
    pub(super) delivered: Option<Delivered>,
    pub(super) note: Option<String>,
}

impl Summary {
    pub(super) fn of(samples: &[Sample]) -> Summary {
        let middle = |field: fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(field));
        let last = samples.last();
        Summary {
            server: middle(|sample| Some(sample.server)),
            floor: middle(|sample| sample.floor),
            ratio: middle(ratio),
            p50: middle(|sample| sample.latency.map(|latency| latency.p50)),
            p99: middle(|sample| sample.latency.map(|latency| latency.p99)),
            max: middle(|sample| sample.latency.map(|latency| latency.max)),
            floor_p99: middle(|sample| sample.floor_latency.map(|latency| latency.p99)),
            floor_max: middle(|sample| sample.floor_latency.map(|latency| latency.max)),
            cpu_per_1000: cpu_per_1000(samples),
            peak_bytes: samples.iter().filter_map(|sample| sample.peak_bytes).max(),
            delivered: last.and_then(|sample| sample.delivered),
            note: last.and_then(|sample| sample.note.clone()),
        }
    }
}

fn ratio(sample: &Sample) -> Option<f64> {
    match sample.delivered {
        Some(Delivered::Truncated(_)) => None,
        _ => sample.floor.map(|floor| sample.server / floor),
    }
}

/// Of all rounds together: the kernel counts in hundredths of a second, too coarse for one.
fn cpu_per_1000(samples: &[Sample]) -> Option<f64> {
    let mut all = samples.iter().filter_map(|sample| sample.work);
    let first = all.next()?;
    let sum = all.fold(first, |sum, work| Work {
        cpu_seconds: sum.cpu_seconds + work.cpu_seconds,
        commands: sum.commands + work.commands,
    });
    Some(sum.cpu_seconds / sum.commands * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_median(values: &[f64], expected: Option<f64>) {
        assert_eq!(median(values.iter().copied()), expected);
    }

    #[test]
    fn the_median_is_the_middle_one_or_between_the_middle_two() {
        check_median(&[], None);
        check_median(&[3.0], Some(3.0));
        check_median(&[5.0, 1.0], Some(3.0));
        check_median(&[9.0, 1.0, 2.0], Some(2.0));
        check_median(&[4.0, 1.0, 3.0, 100.0], Some(3.5));
    }

    #[track_caller]
    fn check_latency(millis: impl Iterator<Item = u64>, expected: Option<[f64; 3]>) {
        let found = Latency::of(millis.map(Duration::from_millis).collect());
        assert_eq!(found, expected.map(|[p50, p99, max]| Latency { p50, p99, max }));
    }

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        check_latency(0..0, None);
        check_latency(7..8, Some([0.007; 3]));
        check_latency((1..=100).rev(), Some([0.050, 0.099, 0.100]));
        check_latency(1..=1000, Some([0.500, 0.990, 1.000]));
        check_latency(1..=3, Some([0.002, 0.003, 0.003]));
    }

    #[test]
    fn a_ratio_is_of_rounds_and_not_of_medians() {
        let sample = |server, floor| Sample { server, floor: Some(floor), ..Sample::default() };
        // The machine was slower in two of the rounds, for server and floor alike.
        let summary = Summary::of(&[sample(2.0, 1.0), sample(20.0, 10.0), sample(60.0, 20.0)]);
        assert_eq!((summary.server, summary.floor, summary.ratio), (Some(20.0), Some(10.0), Some(2.0)));
        let cut = Sample { delivered: Some(Delivered::Truncated(1)), ..sample(1.0, 1.0) };
        assert_eq!(Summary::of(&[cut]).ratio, None);
    }

    #[test]
    fn processor_time_is_of_all_rounds_together() {
        let sample = |cpu_seconds, commands| Sample {
            work: Some(Work { cpu_seconds, commands }),
            ..Sample::default()
        };
        let summary = Summary::of(&[sample(0.0, 400.0), sample(0.2, 600.0)]);
        assert_eq!(summary.cpu_per_1000, Some(0.2));
        assert_eq!(Summary::of(&[Sample::default()]).cpu_per_1000, None);
    }
}
