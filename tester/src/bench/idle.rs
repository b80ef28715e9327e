//! The server at rest: the time to start it, its memory, and the memory of an idle connection.

use std::thread;
use std::time::Duration;

use super::client::{BenchClient, SMALL_BUFFER_BYTES};
use super::proc::{self, Process};
use super::samples::{Latency, Sample};
use super::target::{Processes, Target};
use crate::request::Request;
use crate::response::Stop;

const STARTS: usize = 10;
const CONNECTIONS: usize = 1000;
const RESERVED_DESCRIPTORS: usize = 16;
/// The time for a server to become idle.
const SETTLE: Duration = Duration::from_millis(300);

pub(super) fn starts(target: &mut Target) -> Result<Sample, Stop> {
    let times = (0..STARTS).map(|_| target.restart()).collect::<Result<Vec<_>, _>>()?;
    let latency = Latency::of(times);
    Ok(Sample { server: latency.map_or(0.0, |latency| latency.p50), latency, ..Sample::default() })
}

/// The memory of a server that has served nothing but `GET /`.
pub(super) fn memory_after_start(
    target: &mut Target,
    of: fn(&[Process]) -> Option<u64>,
) -> Result<Sample, Stop> {
    target.restart()?;
    memory(target, of)
}

pub(super) fn memory(target: &Target, of: fn(&[Process]) -> Option<u64>) -> Result<Sample, Stop> {
    thread::sleep(SETTLE);
    Ok(Sample { server: target.memory_bytes(of)?, ..Sample::default() })
}

/// The memory of one connection among many that have made one request and are kept open.
pub(super) fn connections(target: &mut Target) -> Result<Sample, Stop> {
    if let Processes::Command(_) = target.processes {
        target.restart()?;
    }
    let before = memory(target, proc::proportional_bytes)?.server;
    let health = Request::new("GET", "/").encode(&target.session.server.name);
    let opened = (0..CONNECTIONS).map_while(|_| {
        let mut client = target.client(SMALL_BUFFER_BYTES).ok()?;
        client.expect_ok(&health).ok().map(|()| client)
    });
    let mut clients: Vec<BenchClient> = opened.collect();
    if clients.len() < CONNECTIONS {
        // This process may be out of descriptors, and reading the memory needs some.
        clients.truncate(clients.len().saturating_sub(RESERVED_DESCRIPTORS));
    }
    let after = memory(target, proc::proportional_bytes)?.server;
    let open = clients.iter().filter(|client| client.is_open()).count();
    if open == 0 {
        return Err(Stop::Skip("the server keeps no connection open".to_owned()));
    }
    let note = (open < CONNECTIONS).then(|| format!("{open} connections"));
    Ok(Sample { server: (after - before) / open as f64, note, ..Sample::default() })
}
