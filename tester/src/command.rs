//! `tester [ip] [port] -- COMMAND...`: runs a command in the runtime as if it ran locally.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use crate::escape::escaped;
use crate::http::{self, Deadline, Method, Response, Server};
use crate::quote::quote;
use crate::request::Request;
use crate::response::Outcome;

/// Passes the output through and returns the exit code.
pub(crate) fn run(server: &Server, argv: &[String], timeout: Duration) -> Result<u8, Error> {
    let response = exchange(server, &quote(argv), timeout).map_err(Error::Exchange)?;
    let outcome =
        Outcome::read(&response).map_err(|reason| Error::Refused { reason, status: response.status })?;
    io::stdout().write_all(outcome.stdout.as_bytes()).map_err(Error::Output)?;
    io::stdout().flush().map_err(Error::Output)?;
    io::stderr().write_all(outcome.stderr.as_bytes()).map_err(Error::Output)?;
    Ok(shell_code(outcome.exit_code))
}

fn exchange(server: &Server, command: &str, timeout: Duration) -> Result<Response, http::Error> {
    let request = Request::command(command).header("Connection", "close");
    let mut connection = server.connect(Deadline::after(timeout))?;
    connection.send(&request.encode(&server.name))?;
    connection.response(Method::Other)
}

/// As in a shell: 128+N if signal N ended the command.
fn shell_code(exit_code: i64) -> u8 {
    let code = if exit_code < 0 {
        exit_code.checked_neg().and_then(|n| n.checked_add(128))
    } else {
        Some(exit_code)
    };
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

pub(crate) enum Error {
    Exchange(http::Error),
    Refused { reason: String, status: u16 },
    Output(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(error) => write!(f, "cannot run the command: {error}"),
            Self::Refused { reason, status } => {
                write!(f, "status {status} without a command result: {}", escaped(reason.as_bytes()))
            }
            Self::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_is_the_one_of_a_shell() {
        for (code, expected) in [(0, 0), (1, 1), (255, 255), (-1, 129), (-9, 137), (-64, 192)] {
            assert_eq!(shell_code(code), expected, "{code}");
        }
    }

    #[test]
    fn invalid_exit_code_is_a_failure() {
        for code in [256, -128, i64::MAX, i64::MIN] {
            assert_eq!(shell_code(code), 1, "{code}");
        }
    }
}
