//! Small commands, one after the other and from many clients at once.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Client, SMALL_BUFFER_BYTES};
use super::floor::{self, Bare, Tiny};
use super::process::{self, Process};
use super::samples::{Latency, Sample, Work};
use super::{Bench, Round};
use crate::answer::{PREFIX, Stop};
use crate::request::Request;

/// In blocks, so that server and floor see the same machine.
const BLOCKS: usize = 8;
const BLOCK_COMMANDS: usize = 50;
const WARM_UP: usize = 20;
const CROWD_COMMANDS: usize = 1500;
const LOADERS: usize = 16;
const HEALTH_REQUESTS: usize = 400;
const PROBE_PAUSE: Duration = Duration::from_millis(2);

/// One client, one command after the other, and the same without a server.
pub(super) fn sequential(
    bench: &Bench,
    round: Round,
    command: &str,
    mut floor: Bare,
) -> Result<Sample, Stop> {
    let request = Request::command(command).encode(&bench.session.server.name);
    let mut client = bench.client(SMALL_BUFFER_BYTES)?;
    let (mut server_times, mut floor_times) = (Vec::new(), Vec::new());
    for _ in 0..WARM_UP {
        client.run(&request)?;
        floor.run()?;
    }
    let processes = bench.processes();
    let before = process::cpu_seconds(&processes);
    for block in 0..BLOCKS {
        let left = || AtomicUsize::new(BLOCK_COMMANDS);
        round.plus(block).both(
            || timed(|| client.run(&request), &left()).map(|times| server_times.extend(times)),
            || timed(|| floor.run(), &left()).map(|times| floor_times.extend(times)),
        )?;
    }
    let work = work(&processes, before, BLOCKS * BLOCK_COMMANDS);
    let (latency, floor_latency) = (Latency::of(server_times), Latency::of(floor_times));
    Ok(Sample {
        server: latency.map_or(0.0, |latency| latency.p50),
        floor: floor_latency.map(|latency| latency.p50),
        latency,
        floor_latency,
        work,
        ..Sample::default()
    })
}

/// The same with a program that does nothing at all.
pub(super) fn sequential_tiny(bench: &Bench, round: Round) -> Result<Sample, Stop> {
    let content = floor::tiny()?;
    bench.session.needs(&["chmod", "rm"])?;
    let path = bench.session.file("tiny", &content)?;
    bench.session.execute(&format!("chmod 755 {path}"))?.is("", "", 0)?;
    let ran = bench.session.execute(&path)?;
    if let Some(why) = ran.outcome.stderr.strip_prefix(PREFIX) {
        // Mounted noexec, or another kind of machine.
        return Err(Stop::Skip(format!("what is uploaded does not run there: {why}")));
    }
    let tiny = Tiny::write(&content)?;
    sequential(bench, round, &path, tiny.bare())
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Connections {
    Kept,
    /// A new one for each request.
    New,
}

/// `true` from many clients at once, against a bare loop for each processor: the most that the machine is kept busy with.
pub(super) fn crowded(
    bench: &Bench,
    round: Round,
    clients: usize,
    connections: Connections,
) -> Result<Sample, Stop> {
    let processes = bench.processes();
    let server = || {
        let before = process::cpu_seconds(&processes);
        let crowd = match connections {
            Connections::Kept => kept(bench, clients),
            Connections::New => renewed(bench, clients),
        }?;
        Ok((crowd, work(&processes, before, CROWD_COMMANDS)))
    };
    let floor = || {
        let bare = |_| Bare::program("true", &[]).map(|mut bare| move || bare.run());
        crowd((0..process::processors()).map(bare).collect::<Result<_, _>>()?)
    };
    let ((crowd, work), floor) = round.both(server, floor)?;
    Ok(Sample {
        server: crowd.per_second,
        floor: Some(floor.per_second),
        latency: crowd.latency,
        floor_latency: floor.latency,
        work,
        ..Sample::default()
    })
}

fn kept(bench: &Bench, clients: usize) -> Result<Crowd, Stop> {
    let request = Request::command("true").encode(&bench.session.server.name);
    let request = request.as_slice();
    let worker = |_| {
        let mut client = bench.client(SMALL_BUFFER_BYTES)?;
        client.run(request)?;
        Ok(move || client.run(request))
    };
    crowd((0..clients).map(worker).collect::<Result<_, Stop>>()?)
}

fn renewed(bench: &Bench, clients: usize) -> Result<Crowd, Stop> {
    let request = Request::command("true").header("Connection", "close").encode(&bench.session.server.name);
    let (server, wait) = (&bench.session.server, bench.wait);
    let worker = |_| || Client::connect(server, wait, SMALL_BUFFER_BYTES)?.run(&request);
    crowd((0..clients).map(worker).collect())
}

struct Crowd {
    per_second: f64,
    latency: Option<Latency>,
}

/// A thread for each worker; they share one number of commands.
fn crowd<W: FnMut() -> Result<(), Stop> + Send>(workers: Vec<W>) -> Result<Crowd, Stop> {
    let left = AtomicUsize::new(CROWD_COMMANDS);
    let begun = Instant::now();
    let times = thread::scope(|scope| {
        let work = |worker| {
            let left = &left;
            thread::Builder::new().spawn_scoped(scope, move || {
                // Who fails ends the others' work too.
                timed(worker, left).inspect_err(|_| left.store(0, Ordering::Relaxed))
            })
        };
        let (mut threads, mut times, mut failed) = (Vec::new(), Vec::new(), None);
        for worker in workers {
            match work(worker) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    left.store(0, Ordering::Relaxed);
                    failed = Some(Stop::Skip(format!("a thread here: {error}")));
                }
            }
        }
        for thread in threads {
            match thread.join() {
                Ok(Ok(some)) => times.extend(some),
                Ok(Err(stop)) => failed = failed.or(Some(stop)),
                Err(panic) => panic::resume_unwind(panic),
            }
        }
        failed.map_or(Ok(times), Err)
    })?;
    let per_second = CROWD_COMMANDS as f64 / begun.elapsed().as_secs_f64();
    Ok(Crowd { per_second, latency: Latency::of(times) })
}

/// Works until nothing is left, and gives back how long each time took.
fn timed(mut work: impl FnMut() -> Result<(), Stop>, left: &AtomicUsize) -> Result<Vec<Duration>, Stop> {
    let mut times = Vec::with_capacity(CROWD_COMMANDS);
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// `GET /` while clients keep the machine busy.
pub(super) fn health(bench: &Bench, _round: Round) -> Result<Sample, Stop> {
    let name = &bench.session.server.name;
    let (command, health) = (Request::command("true").encode(name), Request::new("GET", "/").encode(name));
    let mut asking = bench.client(SMALL_BUFFER_BYTES)?;
    let loaders = (0..LOADERS).map(|_| bench.client(SMALL_BUFFER_BYTES)).collect::<Result<Vec<_>, _>>()?;
    let (stopping, under_way) = (AtomicBool::new(false), AtomicUsize::new(0));
    let times = thread::scope(|scope| {
        let load = |mut client: Client| {
            let (command, stopping, under_way) = (&command, &stopping, &under_way);
            thread::Builder::new().spawn_scoped(scope, move || {
                // Counted in any case: nobody waits for a client that has failed.
                let first = client.run(command);
                under_way.fetch_add(1, Ordering::Relaxed);
                first?;
                while !stopping.load(Ordering::Relaxed) {
                    client.run(command)?;
                }
                Ok(())
            })
        };
        let threads: Vec<_> = loaders.into_iter().map(load).collect();
        while under_way.load(Ordering::Relaxed) < threads.iter().filter(|thread| thread.is_ok()).count() {
            thread::sleep(Duration::from_millis(1));
        }
        let times = probe(|| asking.ask(&health));
        stopping.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.map(|thread| thread.join()) {
                Ok(Ok(result)) => result?,
                Ok(Err(panic)) => panic::resume_unwind(panic),
                Err(error) => return Err(Stop::Skip(format!("a thread here: {error}"))),
            }
        }
        times
    })?;
    let latency = Latency::of(times);
    Ok(Sample { server: latency.map_or(0.0, |latency| latency.p50), latency, ..Sample::default() })
}

/// One now and then, as probes come, and not all in one moment.
fn probe(mut ask: impl FnMut() -> Result<(), Stop>) -> Result<Vec<Duration>, Stop> {
    let one = |_| {
        thread::sleep(PROBE_PAUSE);
        let begun = Instant::now();
        ask().map(|()| begun.elapsed())
    };
    (0..HEALTH_REQUESTS).map(one).collect()
}

fn work(processes: &[Process], before: Option<f64>, commands: usize) -> Option<Work> {
    let cpu_seconds = process::cpu_seconds(processes)? - before?;
    Some(Work { cpu_seconds, commands: commands as f64 })
}
