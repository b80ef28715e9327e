//! `POST /execute`: runs a command and responds with its output and exit code.
//!
//! A command that cannot be started is a 200 with `exit_code` 1 and a message in `stderr`. Only an invalid
//! body is refused, before anything runs.

use super::super::{Request, RequestBody, Responder, Sandbox, Sent};
use super::stdout::{CommandResult, ExecuteSink};
use super::wire::{ExecuteRequest, Invalid};
use super::{errors, python, shlex};
use crate::deadline::{Deadline, seconds};
use crate::exec::{self, Argv, Ending, InvalidArgv, Spec, Subject};
use crate::http::is_json;
use crate::http::response::Response;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

pub(super) fn execute(
    sandbox: &Sandbox,
    request: &Request<'_>,
    body: RequestBody<'_>,
    responder: Responder<'_>,
) -> Sent {
    let ExecuteRequest { command, timeout_seconds } = match parse(request, body) {
        Ok(parsed) => parsed,
        Err(refusal) => return responder.send(refusal),
    };
    let (timeout_seconds, timeout) = timeout(sandbox, timeout_seconds);
    let deadline = Deadline::after(request.received, timeout);
    let mut sink = ExecuteSink::new(responder.stream(errors::executed), &sandbox.limits);
    let result = run(sandbox, &command, deadline, timeout_seconds, &mut sink);
    sink.finish(result.unwrap_or_else(|message| failed(format!("{PREFIX}{message}"))))
}

fn parse(request: &Request<'_>, body: RequestBody<'_>) -> Result<ExecuteRequest, Response> {
    let content_type = request.head.headers.get("content-type");
    if !content_type.is_some_and(is_json) {
        return Err(errors::unprocessable(&Invalid::not_json()));
    }
    let body = body.open().and_then(|body| body.read_to_end());
    let body = body.map_err(|error| errors::body_refused(&error))?;
    ExecuteRequest::from_json(&body).map_err(|invalid| errors::unprocessable(&invalid))
}

/// The time limit that the request asks for, but at most the server's.
fn timeout(sandbox: &Sandbox, requested_seconds: Option<f64>) -> (f64, Duration) {
    let most = sandbox.limits.exec_timeout_seconds;
    let number = requested_seconds.map_or(most, |requested| requested.min(most));
    // Both are greater than 0 by construction.
    (number, seconds(number).unwrap_or_default())
}

/// Runs the command; the error is a message in Python's words.
fn run(
    sandbox: &Sandbox,
    command: &str,
    deadline: Deadline,
    timeout_seconds: f64,
    sink: &mut ExecuteSink<'_>,
) -> Result<CommandResult, String> {
    let arguments = shlex::split(command).map_err(|error| error.to_string())?;
    let argv = Argv::new(arguments).map_err(|error| invalid_argv(error).to_owned())?;
    let root = &sandbox.root;
    let directory = root.directory().map_err(|error| no_directory(sandbox, error.raw_os_error()))?;
    let spec = Spec { argv: &argv, directory: directory.as_fd() };
    let ending = sandbox.runner.run(&spec, deadline, sink);
    let ending = ending.map_err(|error| not_started(sandbox, &argv, &error))?;
    Ok(result(ending, &argv, timeout_seconds))
}

const PREFIX: &str = "Failed to execute command: ";

/// Python's messages for indexing an empty list, and for passing a NUL byte to the kernel.
fn invalid_argv(error: InvalidArgv) -> &'static str {
    match error {
        InvalidArgv::Empty => "list index out of range",
        InvalidArgv::NulByte => "embedded null byte",
    }
}

fn no_directory(sandbox: &Sandbox, errno: Option<i32>) -> String {
    let cause = errno.map_or_else(|| io::ErrorKind::NotFound.into(), io::Error::from_raw_os_error);
    python::os_error(&cause, Some(&sandbox.root.path().to_string_lossy()))
}

fn not_started(sandbox: &Sandbox, argv: &Argv, error: &exec::Error) -> String {
    let name = match error.subject {
        Subject::Program => Some(argv.program().to_string_lossy()),
        Subject::Directory => Some(sandbox.root.path().to_string_lossy()),
        Subject::Resources => None,
    };
    python::os_error(&error.cause, name.as_deref())
}

fn result(ending: Ending, argv: &Argv, timeout_seconds: f64) -> CommandResult {
    let command = || {
        let list = python::list(argv.arguments().iter().map(|argument| argument.to_string_lossy()));
        format!("{PREFIX}Command '{list}'")
    };
    match ending {
        Ending::Exited(exit_code) => CommandResult { exit_code, ..CommandResult::default() },
        Ending::Signaled(signal) => CommandResult { exit_code: -signal, ..CommandResult::default() },
        Ending::TimedOut => {
            let message = format!("{} timed out after {} seconds", command(), python::float(timeout_seconds));
            CommandResult { timed_out: true, ..failed(message) }
        }
        Ending::Disconnected => failed(format!("{} was killed: client disconnected", command())),
        Ending::ShutDown => failed(format!("{} was killed: server shutting down", command())),
        Ending::Unknown => failed(format!("{} has ended, but its exit status was lost", command())),
    }
}

fn failed(message: String) -> CommandResult {
    CommandResult { exit_code: 1, timed_out: false, message }
}
