//! The table of measurements.

use super::commands;
use super::files;
use super::floor::BareCommand;
use super::health;
use super::idle;
use super::output;
use super::proc;
use super::round::Round;
use super::samples::{Sample, Unit};
use super::target::Target;
use super::throughput::{self, Connections};
use crate::response::Stop;

pub(super) struct Measurement {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) measure: fn(&mut Target, Round) -> Result<Sample, Stop>,
}

const fn row(
    name: &'static str,
    unit: Unit,
    measure: fn(&mut Target, Round) -> Result<Sample, Stop>,
) -> Measurement {
    Measurement { name, unit, measure }
}

/// In order. All rounds of the measurements that start the server come first: the others open many
/// connections, which the kernel keeps in TIME_WAIT for a minute, and these would disturb a server that
/// starts on the same port.
pub(super) const GROUPS: [&[Measurement]; 2] = [STARTING, RUNNING];

const STARTING: &[Measurement] = &[
    row("start", Unit::Seconds, |target, _| idle::starts(target)),
    row("idle-rss", Unit::Bytes, |target, _| idle::memory_after_start(target, proc::resident_bytes)),
    row("idle-pss", Unit::Bytes, |target, _| idle::memory_after_start(target, proc::proportional_bytes)),
    row("idle-connections", Unit::Bytes, |target, _| idle::connections(target)),
];

const RUNNING: &[Measurement] = &[
    row("spawn-true", Unit::Seconds, |target, round| {
        commands::sequential(target, round, "true", BareCommand::program("true", &[])?)
    }),
    row("spawn-tiny", Unit::Seconds, |target, round| commands::sequential_tiny(target, round)),
    row("echo", Unit::Seconds, |target, round| {
        target.session.needs(&["echo"])?;
        commands::sequential(target, round, "echo hello", BareCommand::program("echo", &["hello"])?)
    }),
    row("clients-1", Unit::PerSecond, |target, round| clients(target, round, 1)),
    row("clients-4", Unit::PerSecond, |target, round| clients(target, round, 4)),
    row("clients-16", Unit::PerSecond, |target, round| clients(target, round, 16)),
    row("clients-64", Unit::PerSecond, |target, round| clients(target, round, 64)),
    row("connections-1", Unit::PerSecond, |target, round| connections(target, round, 1)),
    row("connections-16", Unit::PerSecond, |target, round| connections(target, round, 16)),
    row("health-load", Unit::Seconds, |target, _| health::under_load(target)),
    row("text-100MiB", Unit::Seconds, |target, round| output::stream(target, round, &output::TEXT)),
    row("nul-100MiB", Unit::Seconds, |target, round| output::stream(target, round, &output::NUL)),
    row("upload-256MiB", Unit::Seconds, |target, round| files::upload(target, round)),
    row("download-256MiB", Unit::Seconds, |target, round| files::download(target, round)),
    row("loaded-rss", Unit::Bytes, |target, _| idle::memory(target, proc::resident_bytes)),
];

fn clients(target: &Target, round: Round, clients: usize) -> Result<Sample, Stop> {
    throughput::concurrent(target, round, clients, Connections::KeepAlive)
}

fn connections(target: &Target, round: Round, clients: usize) -> Result<Sample, Stop> {
    throughput::concurrent(target, round, clients, Connections::PerRequest)
}
