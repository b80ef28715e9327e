//! `tester [ip] [port] -- COMMAND...`: run it there, behave here as if it had run here.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use crate::answer::Outcome;
use crate::http::{self, Deadline, Method, Response, Server};
use crate::quote::quote;
use crate::report::escaped;
use crate::request::Request;

/// Passes the output on and returns the code to end with.
pub(crate) fn run(server: &Server, words: &[String], wait: Duration) -> Result<u8, Error> {
    let response = exchange(server, &quote(words), wait).map_err(Error::Exchange)?;
    let outcome = Outcome::read(&response).map_err(|why| Error::Refused { why, status: response.status })?;
    io::stdout().write_all(outcome.stdout.as_bytes()).map_err(Error::Output)?;
    io::stdout().flush().map_err(Error::Output)?;
    io::stderr().write_all(outcome.stderr.as_bytes()).map_err(Error::Output)?;
    Ok(ending(outcome.exit_code))
}

fn exchange(server: &Server, command: &str, wait: Duration) -> Result<Response, http::Error> {
    let request = Request::command(command).header("Connection", "close");
    let mut connection = server.connect(Deadline::after(wait))?;
    connection.send(&request.encode(&server.name))?;
    connection.response(Method::Other)
}

/// As a shell would say it: 128+N when signal N ended the command.
fn ending(exit_code: i64) -> u8 {
    let code = if exit_code < 0 {
        exit_code.checked_neg().and_then(|n| n.checked_add(128))
    } else {
        Some(exit_code)
    };
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

pub(crate) enum Error {
    Exchange(http::Error),
    Refused { why: String, status: u16 },
    Output(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Exchange(error) => write!(f, "running the command: {error}"),
            Error::Refused { why, status } => {
                write!(f, "the server answered {status}, not with a result: {}", escaped(why.as_bytes()))
            }
            Error::Output(error) => write!(f, "cannot pass the output on: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_what_a_shell_would_say() {
        for (code, expected) in [(0, 0), (1, 1), (255, 255), (-1, 129), (-9, 137), (-64, 192)] {
            assert_eq!(ending(code), expected, "{code}");
        }
    }

    #[test]
    fn a_code_no_process_can_end_with_is_a_failure() {
        for code in [256, -128, i64::MAX, i64::MIN] {
            assert_eq!(ending(code), 1, "{code}");
        }
    }
}
