//! `POST /execute`: JSON to a command, its outcome to JSON.
//!
//! Whatever keeps a command from running is a 200 with `exit_code` 1 and a sentence in `stderr`; only a body that is not
//! the JSON asked for is refused, before anything runs.

use super::{App, Client, Incoming, python, reply};
use crate::api::{EXECUTE_BEGINS, ExecuteRequest, ExecuteResponse, Text, push_escaped};
use crate::deadline::Deadline;
use crate::exec::{Captured, Command, Ending, Malformed, Outcome, Subject};
use crate::http::head::Head;
use crate::http::is_json;
use crate::http::response::{Response, Stream};
use crate::shlex;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

impl App {
    pub(super) fn execute(
        &self,
        head: &Head,
        incoming: &mut dyn Incoming,
        received: Instant,
    ) -> Result<Response, Response> {
        if !head.headers.get("content-type").is_some_and(is_json) {
            return Err(reply::not_json());
        }
        let body = self.read_command(incoming).map_err(|error| reply::body_refused(&error))?;
        let request = ExecuteRequest::from_json(&body).map_err(|invalid| reply::unprocessable(&invalid))?;
        drop(body);
        let (timeout_seconds, timeout) = self.exec_timeout(request.timeout_seconds);
        let deadline = Deadline::after(received, timeout);
        let words = shlex::split(&request.command).map_err(|error| not_run(&error.to_string()))?;
        let command = Command::new(words).map_err(|error| not_run(malformed(error)))?;
        let directory =
            self.root.directory().map_err(|error| not_run(&self.no_directory(error.raw_os_error())))?;
        let mut teller = Teller { incoming, told: Told::Nothing, json: Vec::new() };
        let outcome = self
            .runner
            .run(&command, directory.as_fd(), deadline, &mut teller)
            .map_err(|error| not_run(&self.not_started(&command, &error)))?;
        let sentence = sentence(outcome.ending, &command, timeout_seconds);
        Ok(answer(outcome, sentence, teller.told))
    }

    fn read_command(&self, incoming: &mut dyn Incoming) -> Result<Vec<u8>, super::BodyError> {
        incoming.accept(self.limits.command_bytes)?;
        let mut body = Vec::new();
        loop {
            let part = incoming.read()?;
            if part.is_empty() {
                return Ok(body);
            }
            body.extend_from_slice(part);
        }
    }

    /// What Python says when the program, the directory, or the means are lacking.
    fn not_started(&self, command: &Command, error: &crate::exec::Error) -> String {
        match error.subject {
            Subject::Program => python::os_error(&error.cause, Some(&command.program().to_string_lossy())),
            Subject::Directory => python::os_error(&error.cause, Some(&self.root.path().to_string_lossy())),
            Subject::Resources => python::os_error(&error.cause, None),
        }
    }

    fn no_directory(&self, errno: Option<i32>) -> String {
        let cause = errno.map_or_else(
            || std::io::Error::from(std::io::ErrorKind::NotFound),
            std::io::Error::from_raw_os_error,
        );
        python::os_error(&cause, Some(&self.root.path().to_string_lossy()))
    }
}

/// Tells standard output as JSON while it arrives.
struct Teller<'a> {
    incoming: &'a mut dyn Incoming,
    told: Told,
    /// Made anew for each part.
    json: Vec<u8>,
}

/// How much of an answer has been told while the command ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// Its beginning, up to some place within standard output.
    Begun,
}

impl Client for Teller<'_> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.incoming.descriptor()
    }

    fn nudge(&mut self) -> io::Result<()> {
        self.incoming.nudge()
    }

    fn take(&mut self, stdout: &[u8]) -> io::Result<()> {
        self.json.clear();
        if self.told == Told::Nothing {
            self.json.extend_from_slice(EXECUTE_BEGINS);
        }
        self.told = Told::Begun;
        push_escaped(stdout, &mut self.json);
        self.incoming.take(&self.json)
    }

    fn is_behind(&self) -> bool {
        self.incoming.is_behind()
    }

    fn catch_up(&mut self) -> io::Result<()> {
        self.incoming.catch_up()
    }
}

const PREFIX: &str = "Failed to execute command: ";

/// The answer for a command that did not run.
fn not_run(why: &str) -> Response {
    reply::not_executed(&ExecuteResponse {
        stdout: Text(vec![]),
        stderr: Text(vec![PREFIX.as_bytes(), why.as_bytes()]),
        exit_code: 1,
        timed_out: false,
        truncated: false,
    })
}

/// Python's words: what indexing an empty list, and passing a NUL to the kernel, give there.
fn malformed(error: Malformed) -> &'static str {
    match error {
        Malformed::Empty => "list index out of range",
        Malformed::NulByte => "embedded null byte",
    }
}

/// What is added to standard error when the command did not end by itself.
fn sentence(ending: Ending, command: &Command, timeout_seconds: f64) -> String {
    let words = || python::list(command.words().iter().map(|word| word.to_string_lossy()));
    match ending {
        Ending::Exited(_) | Ending::Signaled(_) => String::new(),
        Ending::Unknown => format!("{PREFIX}Command '{}' has ended, and its exit status is lost", words()),
        Ending::TimedOut => {
            format!(
                "{PREFIX}Command '{}' timed out after {} seconds",
                words(),
                python::float(timeout_seconds)
            )
        }
        Ending::Abandoned => format!("{PREFIX}Command '{}' was killed: the client is gone", words()),
        Ending::ShutDown => format!("{PREFIX}Command '{}' was killed: the server is going down", words()),
    }
}

/// What a command gave, to be written as JSON.
#[derive(Debug)]
struct Answer {
    outcome: Outcome,
    /// What is added to standard error.
    sentence: String,
    /// What stands for the bytes left out of each stream.
    gaps: [String; 2],
    told: Told,
}

fn answer(outcome: Outcome, sentence: String, told: Told) -> Response {
    let kept = [&outcome.stdout, &outcome.stderr].map(|stream| stream.first.len() + stream.last.len());
    let gaps = [&outcome.stdout, &outcome.stderr].map(gap);
    reply::json_made(Answer { outcome, sentence, gaps, told }, kept.iter().sum())
}

impl Answer {
    fn view(&self) -> ExecuteResponse<'_> {
        let Outcome { ending, stdout, stderr } = &self.outcome;
        let [out_gap, err_gap] = &self.gaps;
        ExecuteResponse {
            stdout: Text(vec![&stdout.first, out_gap.as_bytes(), &stdout.last]),
            stderr: Text(vec![&stderr.first, err_gap.as_bytes(), &stderr.last, self.sentence.as_bytes()]),
            exit_code: match *ending {
                Ending::Exited(code) => code,
                Ending::Signaled(signal) => -signal,
                Ending::TimedOut | Ending::Abandoned | Ending::ShutDown | Ending::Unknown => 1,
            },
            timed_out: *ending == Ending::TimedOut,
            truncated: stdout.left_out > 0 || stderr.left_out > 0,
        }
    }
}

impl Stream for Answer {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.told == Told::Nothing {
            out.write_all(EXECUTE_BEGINS)?;
        }
        self.view().write_rest(out)
    }
}

/// The line that stands for what was left out.
fn gap(captured: &Captured) -> String {
    match captured.left_out {
        0 => String::new(),
        bytes => format!("\n[... {bytes} bytes left out ...]\n"),
    }
}
