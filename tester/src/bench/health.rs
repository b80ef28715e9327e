//! `GET /` while clients keep the machine busy.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{BenchClient, SMALL_BUFFER_BYTES};
use super::samples::{Latency, Sample};
use super::target::Target;
use crate::request::Request;
use crate::response::Stop;

const LOAD_CLIENTS: usize = 16;
const PROBES: usize = 400;
const PROBE_PAUSE: Duration = Duration::from_millis(2);

pub(super) fn under_load(target: &Target) -> Result<Sample, Stop> {
    let name = &target.session.server.name;
    let (command, health) = (Request::command("true").encode(name), Request::new("GET", "/").encode(name));
    let mut prober = target.client(SMALL_BUFFER_BYTES)?;
    let connect = |_| target.client(SMALL_BUFFER_BYTES);
    let load_clients = (0..LOAD_CLIENTS).map(connect).collect::<Result<Vec<_>, _>>()?;
    let (stopping, running) = (AtomicBool::new(false), AtomicUsize::new(0));
    let times = thread::scope(|scope| {
        let load = |mut client: BenchClient| {
            let (command, stopping, running) = (&command, &stopping, &running);
            thread::Builder::new().spawn_scoped(scope, move || {
                // Counted even if it fails: the wait below must not hang on a failed client.
                let first = client.run(command);
                running.fetch_add(1, Ordering::Relaxed);
                first?;
                while !stopping.load(Ordering::Relaxed) {
                    client.run(command)?;
                }
                Ok(())
            })
        };
        let threads: Vec<_> = load_clients.into_iter().map(load).collect();
        while running.load(Ordering::Relaxed) < threads.iter().filter(|thread| thread.is_ok()).count() {
            thread::sleep(Duration::from_millis(1));
        }
        let times = probe(|| prober.expect_ok(&health));
        stopping.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.map(|thread| thread.join()) {
                Ok(Ok(result)) => result?,
                Ok(Err(panic)) => panic::resume_unwind(panic),
                Err(error) => return Err(Stop::Skip(format!("cannot start a local thread: {error}"))),
            }
        }
        times
    })?;
    let latency = Latency::of(times);
    Ok(Sample { server: latency.map_or(0.0, |latency| latency.p50), latency, ..Sample::default() })
}

/// Spread over time, as health probes are, instead of back to back.
fn probe(mut request: impl FnMut() -> Result<(), Stop>) -> Result<Vec<Duration>, Stop> {
    let one = |_| {
        thread::sleep(PROBE_PAUSE);
        let started = Instant::now();
        request().map(|()| started.elapsed())
    };
    (0..PROBES).map(one).collect()
}
