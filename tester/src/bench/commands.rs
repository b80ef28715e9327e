//! Small commands, one after the other.

use std::time::{Duration, Instant};

use super::client::SMALL_BUFFER_BYTES;
use super::floor::BareCommand;
use super::proc;
use super::round::Round;
use super::samples::{Latency, Sample, Work};
use super::target::Target;
use super::tiny::{self, TinyProgram};
use crate::request::Request;
use crate::response::{PREFIX, Stop};

/// Server and floor alternate in blocks, so that both see the same state of the machine.
const BLOCKS: usize = 8;
const BLOCK_COMMANDS: usize = 50;
const WARM_UP_COMMANDS: usize = 20;

/// One client that runs `command` repeatedly, and the same command without a server.
pub(super) fn sequential(
    target: &Target,
    round: Round,
    command: &str,
    mut floor: BareCommand,
) -> Result<Sample, Stop> {
    let request = Request::command(command).encode(&target.session.server.name);
    let mut client = target.client(SMALL_BUFFER_BYTES)?;
    let (mut server_times, mut floor_times) = (Vec::new(), Vec::new());
    for _ in 0..WARM_UP_COMMANDS {
        client.run(&request)?;
        floor.run()?;
    }
    let processes = target.process_tree();
    let before = proc::cpu_seconds(&processes);
    for block in 0..BLOCKS {
        round.plus(block).both(
            || timed(|| client.run(&request)).map(|times| server_times.extend(times)),
            || timed(|| floor.run()).map(|times| floor_times.extend(times)),
        )?;
    }
    let work = Work::since(before, proc::cpu_seconds(&processes), BLOCKS * BLOCK_COMMANDS);
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

/// One block, and the time of each command.
fn timed(mut run: impl FnMut() -> Result<(), Stop>) -> Result<Vec<Duration>, Stop> {
    let one = |_| {
        let started = Instant::now();
        run().map(|()| started.elapsed())
    };
    (0..BLOCK_COMMANDS).map(one).collect()
}

/// The same with a program that only exits.
pub(super) fn sequential_tiny(target: &Target, round: Round) -> Result<Sample, Stop> {
    let content = tiny::program()?;
    target.session.needs(&["chmod", "rm"])?;
    let path = target.session.file("tiny", &content)?;
    target.session.execute(&format!("chmod 755 {path}"))?.expect_result("", "", 0)?;
    let ran = target.session.execute(&path)?;
    if let Some(reason) = ran.outcome.stderr.strip_prefix(PREFIX) {
        // The base directory is mounted noexec, or the machine has another architecture.
        return Err(Stop::Skip(format!("an uploaded program cannot be run: {reason}")));
    }
    let tiny = TinyProgram::write(&content)?;
    sequential(target, round, &path, BareCommand::at(tiny.path()))
}
