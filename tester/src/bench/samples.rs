//! The samples of a measurement, and their summary: the median over the rounds.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A remark shown beside the number.
    pub(super) note: Option<String>,
}

impl Sample {
    /// In [`Unit::Seconds`].
    pub(super) fn of_times(server: Duration, floor: Duration) -> Self {
        Self { server: server.as_secs_f64(), floor: Some(floor.as_secs_f64()), ..Self::default() }
    }
}

/// In seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// CPU time of the server process itself, and the number of commands.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) cpu_seconds: f64,
    pub(super) commands: f64,
}

/// How much of the output of a command arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    All(u64),
    /// The server truncated the output, so its time is not comparable with the floor.
    Truncated(u64),
}

impl Work {
    /// From the CPU time before and after the commands.
    pub(super) fn since(before: Option<f64>, after: Option<f64>, commands: usize) -> Option<Self> {
        Some(Self { cpu_seconds: after? - before?, commands: commands as f64 })
    }
}

impl Latency {
    /// `None` if there is no time.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let seconds = |percent| percentile(&times, percent).map(|time| time.as_secs_f64());
        Some(Self { p50: seconds(50)?, p99: seconds(99)?, max: seconds(100)? })
    }
}

/// By nearest rank: always a measured time, never an interpolated one.
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
    /// The median of the ratios, each of the server to the floor of the same round.
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
    pub(super) fn of(samples: &[Sample]) -> Self {
        let median_of = |field: fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(field));
        let last = samples.last();
        Self {
            server: median_of(|sample| Some(sample.server)),
            floor: median_of(|sample| sample.floor),
            ratio: median_of(ratio),
            p50: median_of(|sample| sample.latency.map(|latency| latency.p50)),
            p99: median_of(|sample| sample.latency.map(|latency| latency.p99)),
            max: median_of(|sample| sample.latency.map(|latency| latency.max)),
            floor_p99: median_of(|sample| sample.floor_latency.map(|latency| latency.p99)),
            floor_max: median_of(|sample| sample.floor_latency.map(|latency| latency.max)),
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

/// For all rounds together: the kernel counts in hundredths of a second, too coarse for one round.
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
    fn median_is_the_middle_or_the_midpoint() {
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
    fn percentile_is_the_nearest_rank() {
        check_latency(0..0, None);
        check_latency(7..8, Some([0.007; 3]));
        check_latency((1..=100).rev(), Some([0.050, 0.099, 0.100]));
        check_latency(1..=1000, Some([0.500, 0.990, 1.000]));
        check_latency(1..=3, Some([0.002, 0.003, 0.003]));
    }

    #[test]
    fn ratio_is_the_median_of_the_ratios() {
        let sample = |server, floor| Sample { server, floor: Some(floor), ..Sample::default() };
        // The machine was slower in two of the rounds, for the server and the floor alike.
        let summary = Summary::of(&[sample(2.0, 1.0), sample(20.0, 10.0), sample(60.0, 20.0)]);
        assert_eq!((summary.server, summary.floor, summary.ratio), (Some(20.0), Some(10.0), Some(2.0)));
        let truncated = Sample { delivered: Some(Delivered::Truncated(1)), ..sample(1.0, 1.0) };
        assert_eq!(Summary::of(&[truncated]).ratio, None);
    }

    #[test]
    fn cpu_time_is_summed_over_all_rounds() {
        let sample = |cpu_seconds, commands| Sample {
            work: Some(Work { cpu_seconds, commands }),
            ..Sample::default()
        };
        let summary = Summary::of(&[sample(0.0, 400.0), sample(0.2, 600.0)]);
        assert_eq!(summary.cpu_per_1000, Some(0.2));
        assert_eq!(Summary::of(&[Sample::default()]).cpu_per_1000, None);
    }
}
