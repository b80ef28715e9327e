//! A client for the sandbox runtime: it runs one command there, or checks what the runtime promises.
//!
//! It shares no code with the runtime and uses the standard library only, so that a fault in one is not hidden by
//! the same fault in the other. Read `args`, `http` and `session` first; a check is then a few lines.

mod answer;
mod args;
mod bench;
mod checks;
mod command;
mod http;
mod json;
mod quote;
mod report;
mod request;
mod session;
mod talk;

use std::io::{self, Write};
use std::process::ExitCode;

use args::Task;
use http::{Deadline, Server};

const FAILED: u8 = 1;
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let task = match args::parse(std::env::args_os().skip(1)) {
        Ok(task) => task,
        Err(error) => return complain(&format!("{error}; see tester --help"), BAD_USAGE),
    };
    match carry_out(task) {
        Ok(code) => ExitCode::from(code),
        Err(sentence) => complain(&sentence, FAILED),
    }
}

fn carry_out(task: Task) -> Result<u8, String> {
    match task {
        Task::Help => say(args::HELP),
        Task::Version => say(concat!("tester ", env!("CARGO_PKG_VERSION"), "\n")),
        Task::Command { address, words, wait } => {
            let server = find(&address, wait)?;
            command::run(&server, &words, wait).map_err(|error| error.to_string())
        }
        Task::Bench(options) => {
            let server = if options.starts_server() {
                look_up(&options.address, options.wait)?
            } else {
                find(&options.address, options.wait)?
            };
            bench::run(&options, server).map(|()| 0)
        }
        Task::Check { address, wait, differences } => {
            let server = find(&address, wait)?;
            let session = session::Session::new(server, wait, differences);
            let failed =
                checks::run_all(&session).map_err(|error| format!("cannot write the report: {error}"))?;
            Ok(if failed == 0 { 0 } else { FAILED })
        }
    }
}

/// Looks the server up and connects once, so that "nothing is listening there" is one sentence and not a hundred.
fn find(address: &args::Address, wait: std::time::Duration) -> Result<Server, String> {
    let server = look_up(address, wait)?;
    match server.connect(Deadline::after(wait)) {
        Ok(_connection) => Ok(server),
        Err(error) => Err(unreachable(address, &error)),
    }
}

fn look_up(address: &args::Address, wait: std::time::Duration) -> Result<Server, String> {
    Server::look_up(&address.host, address.port, Deadline::after(wait))
        .map_err(|error| unreachable(address, &error))
}

fn unreachable(address: &args::Address, error: &http::Error) -> String {
    format!(
        "cannot connect to {address}: {error}; start sandbox-runtime there, or give another address: \
         tester [ip] [port]"
    )
}

fn say(text: &str) -> Result<u8, String> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write: {error}"))?;
    Ok(0)
}

fn complain(sentence: &str, code: u8) -> ExitCode {
    // When standard error is gone too, the exit code is all that is left to say it with.
    let _ = writeln!(io::stderr(), "tester: {sentence}");
    ExitCode::from(code)
}
