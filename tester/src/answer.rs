//! An answer that knows what was asked, and what can be expected of it.
//!
//! An expectation that is not met is a [`Stop`], which holds what was sent, expected and received; a check is therefore
//! a list of steps with `?` behind them.

use std::time::Duration;

use crate::http::Response;
use crate::json::{self, Value};
use crate::report::escaped;

pub(crate) type Verdict = Result<(), Stop>;

/// Why a check did not come to its end.
pub(crate) enum Stop {
    Skip(String),
    /// Names the difference from the reference that was met.
    Differs(&'static str),
    Fail(Box<Failure>),
}

pub(crate) struct Failure {
    pub(crate) sent: Vec<u8>,
    pub(crate) expected: String,
    pub(crate) received: Vec<u8>,
}

/// A request and its answer.
pub(crate) struct Exchange {
    pub(crate) sent: Vec<u8>,
    pub(crate) response: Response,
    pub(crate) took: Duration,
}

impl Exchange {
    pub(crate) fn fail(&self, expected: &str) -> Stop {
        fail(&self.sent, expected, &self.response.show())
    }

    pub(crate) fn expect(&self, met: bool, expected: &str) -> Verdict {
        if met { Ok(()) } else { Err(self.fail(expected)) }
    }

    pub(crate) fn status(&self, status: u16) -> Verdict {
        self.expect(self.response.status == status, &format!("status {status}"))
    }

    pub(crate) fn header_is(&self, name: &str, value: &str) -> Verdict {
        self.expect(self.response.header(name) == Some(value), &format!("{name}: {value}"))
    }

    pub(crate) fn body_is(&self, body: &[u8]) -> Verdict {
        self.expect(self.response.body == body, &format!("the body {}", escaped(body)))
    }

    pub(crate) fn json(&self) -> Result<Value, Stop> {
        json::parse(&self.response.body).map_err(|error| self.fail(&format!("a JSON body ({error})")))
    }

    /// That status and that JSON, in any order and spacing.
    pub(crate) fn is(&self, status: u16, json: &str) -> Verdict {
        let expected = format!("status {status} and {json}");
        let wanted = json::parse(json.as_bytes());
        let kind = self.response.header("content-type").unwrap_or_default();
        let met =
            self.response.status == status && json::parse(&self.response.body) == wanted && wanted.is_ok();
        self.expect(met, &expected)?;
        self.expect(kind.starts_with("application/json"), "Content-Type: application/json")
    }

    pub(crate) fn ran(self) -> Result<Ran, Stop> {
        match Outcome::read(&self.response) {
            Ok(outcome) => Ok(Ran { exchange: self, outcome }),
            Err(why) => Err(self.fail(&format!("status 200 with stdout, stderr and exit_code ({why})"))),
        }
    }
}

pub(crate) const PREFIX: &str = "Failed to execute command: ";

/// The answer to `/execute`.
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit_code: i64,
    pub(crate) timed_out: bool,
    pub(crate) truncated: bool,
}

impl Outcome {
    /// The error says what is wrong with the answer.
    pub(crate) fn read(response: &Response) -> Result<Outcome, String> {
        if response.status != 200 {
            return Err(String::from_utf8_lossy(&response.body).into_owned());
        }
        let value = json::parse(&response.body)?;
        let text =
            |key| value.get(key).and_then(Value::text).map(str::to_owned).ok_or(format!("no text {key}"));
        let outcome = Outcome {
            stdout: text("stdout")?,
            stderr: text("stderr")?,
            exit_code: value.get("exit_code").and_then(Value::integer).ok_or("no whole number exit_code")?,
            timed_out: flag(&value, "timed_out")?,
            truncated: flag(&value, "truncated")?,
        };
        let known = 3 + usize::from(outcome.timed_out) + usize::from(outcome.truncated);
        if value.keys().len() == known { Ok(outcome) } else { Err(format!("keys {:?}", value.keys())) }
    }
}

/// `timed_out` and `truncated` are there only when true.
fn flag(value: &Value, key: &str) -> Result<bool, String> {
    match value.get(key) {
        None => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(_) => Err(format!("{key} that is not true")),
    }
}

pub(crate) struct Ran {
    pub(crate) exchange: Exchange,
    pub(crate) outcome: Outcome,
}

impl Ran {
    /// Exactly this result, and neither `timed_out` nor `truncated`.
    pub(crate) fn is(&self, stdout: &str, stderr: &str, exit_code: i64) -> Verdict {
        let got = &self.outcome;
        let whole = !got.timed_out && !got.truncated;
        let met = got.stdout == stdout && got.stderr == stderr && got.exit_code == exit_code && whole;
        let (stdout, stderr) = (json::string(stdout), json::string(stderr));
        self.exchange
            .expect(met, &format!("{{\"stdout\":{stdout},\"stderr\":{stderr},\"exit_code\":{exit_code}}}"))
    }

    /// A command that could not be run.
    pub(crate) fn could_not_run(&self, why: &str) -> Verdict {
        self.is("", &format!("{PREFIX}{why}"), 1)
    }

    pub(crate) fn within(&self, limit: Duration) -> Verdict {
        let met = self.exchange.took < limit;
        let took = self.exchange.took.as_secs_f64();
        self.exchange
            .expect(met, &format!("an answer within {:.1} s; it took {took:.1} s", limit.as_secs_f64()))
    }
}

pub(crate) fn fail(sent: &[u8], expected: &str, received: &[u8]) -> Stop {
    Stop::Fail(Box::new(Failure {
        sent: sent.to_owned(),
        expected: expected.to_owned(),
        received: received.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn outcome(body: &str, good: bool) {
        let response = Response { status: 200, headers: Vec::new(), body: body.as_bytes().to_owned() };
        assert_eq!(Outcome::read(&response).is_ok(), good, "{body}");
    }

    #[test]
    fn an_outcome_has_three_keys_unless_something_happened() {
        outcome(r#"{"stdout":"","stderr":"","exit_code":0}"#, true);
        outcome(r#"{"stdout":"","stderr":"","exit_code":-9,"timed_out":true,"truncated":true}"#, true);
        outcome(r#"{"stdout":"","stderr":"","exit_code":0,"timed_out":false}"#, false);
        outcome(r#"{"stdout":"","stderr":"","exit_code":0,"more":1}"#, false);
        outcome(r#"{"stdout":"","stderr":"","exit_code":0.0}"#, false);
        outcome(r#"{"stdout":"","stderr":null,"exit_code":0}"#, false);
        outcome(r#"{"stdout":"","exit_code":0}"#, false);
    }
}
