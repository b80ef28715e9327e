//! Commands per second with many concurrent clients.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{BenchClient, SMALL_BUFFER_BYTES};
use super::floor::BareCommand;
use super::machine;
use super::proc;
use super::round::Round;
use super::samples::{Latency, Sample, Work};
use super::target::Target;
use crate::request::Request;
use crate::response::Stop;

const COMMANDS: usize = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connections {
    KeepAlive,
    PerRequest,
}

/// `true` from concurrent clients. The floor is one bare loop per processor, which keeps the machine fully
/// busy.
pub(super) fn concurrent(
    target: &Target,
    round: Round,
    clients: usize,
    connections: Connections,
) -> Result<Sample, Stop> {
    let processes = target.process_tree();
    let server = || {
        let before = proc::cpu_seconds(&processes);
        let throughput = match connections {
            Connections::KeepAlive => with_keep_alive(target, clients),
            Connections::PerRequest => with_new_connections(target, clients),
        }?;
        Ok((throughput, Work::since(before, proc::cpu_seconds(&processes), COMMANDS)))
    };
    let floor = || {
        let bare = |_| BareCommand::program("true", &[]).map(|mut bare| move || bare.run());
        share((0..machine::processors()).map(bare).collect::<Result<_, _>>()?)
    };
    let ((throughput, work), floor) = round.both(server, floor)?;
    Ok(Sample {
        server: throughput.per_second,
        floor: Some(floor.per_second),
        latency: throughput.latency,
        floor_latency: floor.latency,
        work,
        ..Sample::default()
    })
}

fn with_keep_alive(target: &Target, clients: usize) -> Result<Throughput, Stop> {
    let request = Request::command("true").encode(&target.session.server.name);
    let request = request.as_slice();
    let worker = |_| {
        let mut client = target.client(SMALL_BUFFER_BYTES)?;
        client.run(request)?;
        Ok(move || client.run(request))
    };
    share((0..clients).map(worker).collect::<Result<_, Stop>>()?)
}

fn with_new_connections(target: &Target, clients: usize) -> Result<Throughput, Stop> {
    let (server, timeout) = (&target.session.server, target.timeout);
    let request = Request::command("true").header("Connection", "close").encode(&server.name);
    let worker = |_| || BenchClient::connect(server, timeout, SMALL_BUFFER_BYTES)?.run(&request);
    share((0..clients).map(worker).collect())
}

struct Throughput {
    per_second: f64,
    latency: Option<Latency>,
}

/// Runs one thread per worker; the workers share the commands.
fn share<W: FnMut() -> Result<(), Stop> + Send>(workers: Vec<W>) -> Result<Throughput, Stop> {
    let remaining = AtomicUsize::new(COMMANDS);
    let started = Instant::now();
    let times = thread::scope(|scope| {
        let spawn = |worker| {
            let remaining = &remaining;
            thread::Builder::new().spawn_scoped(scope, move || {
                // A failure stops the other workers too.
                work(worker, remaining).inspect_err(|_| remaining.store(0, Ordering::Relaxed))
            })
        };
        let (mut threads, mut times, mut failed) = (Vec::new(), Vec::new(), None);
        for worker in workers {
            match spawn(worker) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    remaining.store(0, Ordering::Relaxed);
                    failed = Some(Stop::Skip(format!("cannot start a local thread: {error}")));
                }
            }
        }
        for thread in threads {
            match thread.join() {
                Ok(Ok(part)) => times.extend(part),
                Ok(Err(stop)) => failed = failed.or(Some(stop)),
                Err(panic) => panic::resume_unwind(panic),
            }
        }
        failed.map_or(Ok(times), Err)
    })?;
    let per_second = COMMANDS as f64 / started.elapsed().as_secs_f64();
    Ok(Throughput { per_second, latency: Latency::of(times) })
}

/// Runs commands until none remains, and returns the time of each.
fn work(mut run: impl FnMut() -> Result<(), Stop>, remaining: &AtomicUsize) -> Result<Vec<Duration>, Stop> {
    let mut times = Vec::with_capacity(COMMANDS);
    let decrement = |count: usize| count.checked_sub(1);
    while remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_ok() {
        let started = Instant::now();
        run()?;
        times.push(started.elapsed());
    }
    Ok(times)
}
