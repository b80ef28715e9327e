//! `tester bench`: measures the speed of a server relative to the same machine without a server.
//!
//! Both are measured in the same rounds, so that their ratio is comparable between machines. Every response
//! is checked during the measurement: a wrong response never counts.

mod client;
mod commands;
mod date;
mod files;
mod floor;
mod health;
mod history;
mod idle;
mod machine;
mod measurements;
mod options;
mod output;
mod proc;
mod results;
mod round;
mod samples;
mod server_process;
mod table;
mod target;
mod throughput;
mod tiny;
mod version;

pub(crate) use options::{Invocation, Options, parse};

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use crate::escape::{escaped, preview};
use crate::http::Server;
use crate::response::Stop;

use history::History;
use measurements::{GROUPS, Measurement};
use options::Format;
use results::{Outcome, Results, Row};
use round::Round;
use samples::{Sample, Summary};
use target::Target;

/// The error is a sentence for the user.
pub(crate) fn run(options: &Options, server: Server) -> Result<(), String> {
    let (server_name, is_loopback) = (server.name.clone(), server.is_loopback());
    // Opened first, so that a wrong path is reported before the measurements and not after them.
    let history = options.history.as_deref().map(open_history).transpose()?;
    let version = history.as_ref().and_then(|_| version::of_server(&options.processes));
    let mut target = Target::new(options.processes.clone(), server, options.timeout)?;
    let rows = GROUPS.iter().flat_map(|group| measure(&mut target, group, options)).collect();
    target.finish();
    let results = Results { server: server_name, is_loopback, rounds: options.rounds, rows };
    let text = match options.format {
        Format::Table => table::markdown(&results),
        Format::Json => results.json() + "\n",
    };
    io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write the results: {error}"))?;
    if let Some(failure) = results.first_failure() {
        return Err(failure);
    }
    let Some(mut history) = history else { return Ok(()) };
    let line = history::line(&results, &date::today(), version.as_deref());
    history.append(&line).map_err(|error| format!("cannot append to the history: {error}"))
}

fn open_history(path: &Path) -> Result<History, String> {
    History::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))
}

/// All rounds of one group. A measurement that fails or is skipped in one round is not taken in the next.
fn measure(target: &mut Target, group: &'static [Measurement], options: &Options) -> Vec<Row> {
    let is_chosen =
        |measurement: &&Measurement| options.only.is_empty() || options.only.contains(&measurement.name);
    let chosen: Vec<_> = group.iter().filter(is_chosen).collect();
    let mut taken: Vec<_> = chosen.iter().map(|_| (Vec::new(), None)).collect();
    for round in 0..options.rounds {
        for (measurement, (samples, stop)) in chosen.iter().zip(&mut taken) {
            if stop.is_some() {
                continue;
            }
            progress(&format!("round {} of {}: {}", round + 1, options.rounds, measurement.name));
            match (measurement.measure)(target, Round(round)) {
                Ok(sample) => samples.push(sample),
                Err(reason) => *stop = Some(reason),
            }
        }
    }
    progress("");
    let rows = chosen.into_iter().zip(taken);
    rows.map(|(measurement, (samples, stop))| Row {
        name: measurement.name,
        unit: measurement.unit,
        outcome: outcome(&samples, stop),
    })
    .collect()
}

fn outcome(samples: &[Sample], stop: Option<Stop>) -> Outcome {
    match stop {
        None => Outcome::Measured(Summary::of(samples)),
        Some(Stop::Skip(reason)) => Outcome::Skipped(escaped(reason.as_bytes())),
        Some(Stop::Differs(name)) => Outcome::Failed(name.to_owned()),
        Some(Stop::Fail(failure)) => {
            Outcome::Failed(format!("expected {}, received {}", failure.expected, preview(&failure.received)))
        }
    }
}

/// A progress line on a terminal; each one overwrites the previous one.
fn progress(text: &str) {
    if io::stderr().is_terminal() {
        // Progress is not worth an error.
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}
