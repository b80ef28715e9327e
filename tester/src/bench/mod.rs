//! `tester bench`: how fast a server is, beside how fast this machine is without one.
//!
//! Both are measured in the same rounds, so that their ratio says something about the server wherever it is measured.
//! What the server says is looked at all the while: a number that comes from a wrong answer is none.

mod bulk;
mod client;
mod floor;
mod load;
mod options;
mod process;
mod samples;
mod table;
mod tiny;

pub(crate) use options::{Options, parse};

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use crate::answer::{Stop, fail};
use crate::http::Server;
use crate::report::{escaped, preview};
use crate::request::Request;
use crate::session::{Differences, Session};

use client::{Client, SMALL_BUFFER_BYTES};
use floor::Bare;
use load::Connections;
use options::{Format, Subject};
use process::{Process, Started};
use samples::{Sample, Summary, Unit};
use table::{Outcome, Row};

pub(super) struct Measurement {
    name: &'static str,
    unit: Unit,
    take: fn(&mut Bench, Round) -> Result<Sample, Stop>,
}

const fn measure(
    name: &'static str,
    unit: Unit,
    take: fn(&mut Bench, Round) -> Result<Sample, Stop>,
) -> Measurement {
    Measurement { name, unit, take }
}

/// In the order in which they are taken: first all rounds of those that start the server, as the many connections of the others
/// would stay with the kernel for a minute, and in the way of whoever listens at the same port.
const MEASUREMENTS: [&[Measurement]; 2] = [STARTING, RUNNING];

const STARTING: &[Measurement] = &[
    measure("start", Unit::Seconds, |bench, _| bench.starts()),
    measure("idle-rss", Unit::Bytes, |bench, _| bench.idle_memory(process::resident_bytes)),
    measure("idle-pss", Unit::Bytes, |bench, _| bench.idle_memory(process::proportional_bytes)),
    measure("idle-connections", Unit::Bytes, |bench, _| bench.idle_connections()),
];

const RUNNING: &[Measurement] = &[
    measure("spawn-true", Unit::Seconds, |bench, round| {
        load::sequential(bench, round, "true", Bare::program("true", &[])?)
    }),
    measure("spawn-tiny", Unit::Seconds, |bench, round| load::sequential_tiny(bench, round)),
    measure("echo", Unit::Seconds, |bench, round| {
        bench.session.needs(&["echo"])?;
        load::sequential(bench, round, "echo hello", Bare::program("echo", &["hello"])?)
    }),
    measure("clients-1", Unit::PerSecond, |bench, round| load::crowded(bench, round, 1, Connections::Kept)),
    measure("clients-4", Unit::PerSecond, |bench, round| load::crowded(bench, round, 4, Connections::Kept)),
    measure("clients-16", Unit::PerSecond, |bench, round| load::crowded(bench, round, 16, Connections::Kept)),
    measure("clients-64", Unit::PerSecond, |bench, round| load::crowded(bench, round, 64, Connections::Kept)),
    measure("connections-1", Unit::PerSecond, |bench, round| {
        load::crowded(bench, round, 1, Connections::New)
    }),
    measure("connections-16", Unit::PerSecond, |bench, round| {
        load::crowded(bench, round, 16, Connections::New)
    }),
    measure("health-load", Unit::Seconds, |bench, round| load::health(bench, round)),
    measure("text-100MiB", Unit::Seconds, |bench, round| bulk::output(bench, round, &bulk::TEXT)),
    measure("nul-100MiB", Unit::Seconds, |bench, round| bulk::output(bench, round, &bulk::NUL)),
    measure("upload-256MiB", Unit::Seconds, |bench, round| bulk::upload(bench, round)),
    measure("download-256MiB", Unit::Seconds, |bench, round| bulk::download(bench, round)),
    measure("loaded-rss", Unit::Bytes, |bench, _| bench.memory(process::resident_bytes)),
];

/// The error is a sentence for the user, like "nothing was measured" or "one answer was wrong".
pub(crate) fn run(options: &Options, server: Server) -> Result<(), String> {
    let is_loopback = server.is_loopback();
    let name = server.name.clone();
    let mut bench = Bench::begin(options, server)?;
    let rows = bench.rounds(options);
    bench.end();
    let failed = rows.iter().find_map(|row| match &row.outcome {
        Outcome::Failed(why) => Some(format!("{}: {why}", row.name)),
        _ => None,
    });
    let result = table::Result { server: name, is_loopback, rounds: options.rounds, rows };
    let text = match options.format {
        Format::Table => result.markdown(),
        Format::Json => result.json(),
    };
    io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write: {error}"))?;
    failed.map_or(Ok(()), Err)
}

/// One server, while it is measured.
struct Bench {
    session: Session,
    wait: Duration,
    running: Running,
}

enum Running {
    Unknown,
    Pid(u32),
    Ours { words: Vec<String>, server: Option<Started> },
}

const STARTS: usize = 10;
const IDLE_CONNECTIONS: usize = 1000;
const SPARE_DESCRIPTORS: usize = 16;
/// Between the end of a server and the start of the next.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a server has to come to rest.
const REST: Duration = Duration::from_millis(300);

impl Bench {
    fn begin(options: &Options, server: Server) -> Result<Bench, String> {
        let running = match &options.subject {
            Subject::Unknown => Running::Unknown,
            Subject::Pid(pid) => Running::Pid(*pid),
            Subject::Command(words) => Running::Ours { words: words.clone(), server: None },
        };
        let session = Session::new(server, options.wait, Differences::AreFailures);
        let mut bench = Bench { session, wait: options.wait, running };
        if let Running::Ours { .. } = bench.running {
            bench.start()?;
        }
        if let (Running::Pid(pid), true) = (&bench.running, bench.processes().is_empty()) {
            return Err(format!("there is no process {pid}"));
        }
        Ok(bench)
    }

    fn rounds(&mut self, options: &Options) -> Vec<Row> {
        MEASUREMENTS.iter().flat_map(|measurements| self.rounds_of(measurements, options)).collect()
    }

    fn rounds_of(&mut self, measurements: &'static [Measurement], options: &Options) -> Vec<Row> {
        let chosen =
            |measurement: &&Measurement| options.only.is_empty() || options.only.contains(&measurement.name);
        let chosen: Vec<_> = measurements.iter().filter(chosen).collect();
        let mut taken: Vec<_> = chosen.iter().map(|_| (Vec::new(), None)).collect();
        for round in 0..options.rounds {
            for (measurement, (samples, stop)) in chosen.iter().zip(&mut taken) {
                if stop.is_some() {
                    continue;
                }
                progress(&format!("round {} of {}: {}", round + 1, options.rounds, measurement.name));
                match (measurement.take)(self, Round(round)) {
                    Ok(sample) => samples.push(sample),
                    Err(why) => *stop = Some(why),
                }
            }
        }
        progress("");
        let outcome = |samples: Vec<Sample>, stop| match stop {
            None => Outcome::Measured(Summary::of(&samples)),
            Some(Stop::Skip(why)) => Outcome::Skipped(escaped(why.as_bytes())),
            Some(stop) => Outcome::Failed(sentence(&stop)),
        };
        let rows = chosen.into_iter().zip(taken);
        rows.map(|(measurement, (samples, stop))| Row {
            name: measurement.name,
            unit: measurement.unit,
            outcome: outcome(samples, stop),
        })
        .collect()
    }

    /// Leaves nothing there. What was uploaded needed an `rm` to begin with.
    fn end(self) {
        // Without one there is nothing to remove, and where it fails nobody can do better.
        let _ = self.session.execute(&format!("rm -rf {}", self.session.directory));
    }

    fn client(&self, buffer_bytes: usize) -> Result<Client, Stop> {
        Client::connect(&self.session.server, self.wait, buffer_bytes)
    }

    /// The server's, as far as they are known. Meant for when no command runs.
    fn processes(&self) -> Vec<Process> {
        match &self.running {
            Running::Unknown | Running::Ours { server: None, .. } => Vec::new(),
            Running::Pid(pid) => process::family(*pid),
            Running::Ours { server: Some(server), .. } => process::family(server.pid()),
        }
    }

    /// Stops the server that runs, starts another, and gives back how long that took.
    fn start(&mut self) -> Result<Duration, String> {
        let Running::Ours { words, server } = &mut self.running else {
            return Err("no command to start".to_owned());
        };
        if server.take().is_some() {
            // What the last one leaves to the kernel is done before the next one is timed.
            thread::sleep(PAUSE);
        }
        let (started, took) = Started::start(words, &self.session.server, self.wait)?;
        *server = Some(started);
        Ok(took)
    }

    fn restart(&mut self) -> Result<Duration, Stop> {
        if !matches!(self.running, Running::Ours { .. }) {
            return Err(Stop::Skip("no -- SERVER".to_owned()));
        }
        self.start().map_err(|why| fail(b"", "a server that starts", why.as_bytes()))
    }

    fn starts(&mut self) -> Result<Sample, Stop> {
        let times = (0..STARTS).map(|_| self.restart()).collect::<Result<Vec<_>, _>>()?;
        let latency = samples::Latency::of(times);
        Ok(Sample { server: latency.map_or(0.0, |latency| latency.p50), latency, ..Sample::default() })
    }

    /// Of a server that has answered nothing but `GET /`.
    fn idle_memory(&mut self, of: fn(&[Process]) -> Option<u64>) -> Result<Sample, Stop> {
        self.restart()?;
        self.memory(of)
    }

    fn memory(&self, of: fn(&[Process]) -> Option<u64>) -> Result<Sample, Stop> {
        thread::sleep(REST);
        Ok(Sample { server: self.bytes(of)?, ..Sample::default() })
    }

    fn bytes(&self, of: fn(&[Process]) -> Option<u64>) -> Result<f64, Stop> {
        match self.running {
            Running::Unknown => Err(Stop::Skip("neither -- SERVER nor --pid".to_owned())),
            _ => of(&self.processes())
                .map(|bytes| bytes as f64)
                .ok_or_else(|| Stop::Skip("/proc can not be read".to_owned())),
        }
    }

    /// What one of many costs that have asked once and are kept.
    fn idle_connections(&mut self) -> Result<Sample, Stop> {
        if let Running::Ours { .. } = self.running {
            self.restart()?;
        }
        let before = self.memory(process::proportional_bytes)?.server;
        let health = Request::new("GET", "/").encode(&self.session.server.name);
        let opened = (0..IDLE_CONNECTIONS).map_while(|_| {
            let mut client = self.client(SMALL_BUFFER_BYTES).ok()?;
            client.ask(&health).ok().map(|()| client)
        });
        let mut clients: Vec<Client> = opened.collect();
        if clients.len() < IDLE_CONNECTIONS {
            // Descriptors may have run out here, and to look at memory takes some.
            clients.truncate(clients.len().saturating_sub(SPARE_DESCRIPTORS));
        }
        let after = self.memory(process::proportional_bytes)?.server;
        let open = clients.iter().filter(|client| client.is_open()).count();
        if open == 0 {
            return Err(Stop::Skip("it keeps no connection".to_owned()));
        }
        let note = (open < IDLE_CONNECTIONS).then(|| format!("{open} connections"));
        Ok(Sample { server: (after - before) / open as f64, note, ..Sample::default() })
    }
}

/// Which one it is decides who goes first, so that a machine that gets slower favours nobody.
#[derive(Clone, Copy)]
struct Round(usize);

impl Round {
    fn plus(self, blocks: usize) -> Round {
        Round(self.0 + blocks)
    }

    fn is_floor_first(self) -> bool {
        self.0 % 2 == 1
    }

    fn both<S, F>(
        self,
        server: impl FnOnce() -> Result<S, Stop>,
        floor: impl FnOnce() -> Result<F, Stop>,
    ) -> Result<(S, F), Stop> {
        if self.is_floor_first() {
            let floor = floor()?;
            Ok((server()?, floor))
        } else {
            let server = server()?;
            Ok((server, floor()?))
        }
    }
}

fn sentence(stop: &Stop) -> String {
    match stop {
        Stop::Skip(why) => escaped(why.as_bytes()),
        Stop::Differs(which) => (*which).to_owned(),
        Stop::Fail(failure) => {
            format!("expected {}, received {}", failure.expected, preview(&failure.received))
        }
    }
}

/// One line that the next one replaces, for a person who waits.
fn progress(text: &str) {
    if io::stderr().is_terminal() {
        // A line that does not appear is no loss.
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}
