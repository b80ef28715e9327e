//! A black-box client for the sandbox runtime: it runs one command, checks the promises of the runtime, or
//! measures it.
//!
//! It shares no code with the runtime and uses only the standard library, so that a bug in one is not hidden
//! by the same bug in the other. Read `args`, `http` and `session` first; after that, a check is a few lines.

mod address;
mod args;
mod bench;
mod checks;
mod client;
mod command;
mod escape;
mod http;
mod json;
mod quote;
mod report;
mod request;
mod response;
mod session;
mod usage;
mod value;

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use address::Address;
use args::{Attempts, Task};
use http::{Deadline, Server};

const FAILED: u8 = 1;
const USAGE_ERROR: u8 = 2;
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let task = match args::parse(std::env::args_os().skip(1)) {
        Ok(task) => task,
        Err(error) => return report_error(&format!("{error}; see tester --help"), USAGE_ERROR),
    };
    match run(task) {
        Ok(code) => ExitCode::from(code),
        Err(sentence) => report_error(&sentence, FAILED),
    }
}

fn run(task: Task) -> Result<u8, String> {
    match task {
        Task::Help => print(usage::HELP),
        Task::Version => print(concat!("tester ", env!("CARGO_PKG_VERSION"), "\n")),
        Task::Command { address, attempts, argv, timeout } => {
            let server = connectable(&address, attempts, timeout)?;
            command::run(&server, &argv, timeout).map_err(|error| error.to_string())
        }
        Task::Bench(options) => {
            let server = if options.starts_server() {
                resolve(&options.address, options.timeout)?
            } else {
                connectable(&options.address, Attempts::One, options.timeout)?
            };
            bench::run(&options, server).map(|()| 0)
        }
        Task::Check { address, attempts, timeout, differences } => {
            let server = connectable(&address, attempts, timeout)?;
            let session = session::Session::new(server, timeout, differences);
            let failed =
                checks::run_all(&session).map_err(|error| format!("cannot write the report: {error}"))?;
            Ok(if failed == 0 { 0 } else { FAILED })
        }
    }
}

/// Resolves the name and connects, so that an unreachable server is reported once and not by every check.
fn connectable(address: &Address, attempts: Attempts, timeout: Duration) -> Result<Server, String> {
    let server = resolve(address, timeout)?;
    let end = Instant::now() + timeout;
    loop {
        match server.connect(Deadline::after(timeout)) {
            Ok(_connection) => return Ok(server),
            Err(_) if attempts == Attempts::UntilTimeout && Instant::now() < end => thread::sleep(RETRY),
            Err(error) => return Err(unreachable(address, &error)),
        }
    }
}

fn resolve(address: &Address, timeout: Duration) -> Result<Server, String> {
    Server::resolve(&address.host, address.port, Deadline::after(timeout))
        .map_err(|error| unreachable(address, &error))
}

fn unreachable(address: &Address, error: &http::Error) -> String {
    format!(
        "cannot connect to {address}: {error}; start sandbox-runtime there or pass another address: \
         tester [ip] [port]"
    )
}

fn print(text: &str) -> Result<u8, String> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write: {error}"))?;
    Ok(0)
}

fn report_error(sentence: &str, code: u8) -> ExitCode {
    // If standard error is closed too, only the exit code reports the failure.
    let _ = writeln!(io::stderr(), "tester: {sentence}");
    ExitCode::from(code)
}
