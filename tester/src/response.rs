//! A response together with its request, and the expectations that a check can have of it.
//!
//! An unmet expectation is a [`Stop`] that holds the bytes sent, expected and received, so that a check is a
//! list of steps joined by `?`.

use std::time::Duration;

use crate::escape::escaped;
use crate::http::Response;
use crate::json::{self, Value};

pub(crate) type Verdict = Result<(), Stop>;

/// Why a check stopped early.
pub(crate) enum Stop {
    Skip(String),
    /// The name of a known difference of the reference.
    Differs(&'static str),
    Fail(Box<Failure>),
}

pub(crate) struct Failure {
    pub(crate) sent: Vec<u8>,
    pub(crate) expected: String,
    pub(crate) received: Vec<u8>,
}

/// A request and its response.
pub(crate) struct Exchange {
    pub(crate) sent: Vec<u8>,
    pub(crate) response: Response,
    pub(crate) elapsed: Duration,
}

impl Exchange {
    pub(crate) fn fail(&self, expected: &str) -> Stop {
        fail(&self.sent, expected, &self.response.show())
    }

    pub(crate) fn expect(&self, met: bool, expected: &str) -> Verdict {
        if met { Ok(()) } else { Err(self.fail(expected)) }
    }

    pub(crate) fn expect_status(&self, status: u16) -> Verdict {
        self.expect(self.response.status == status, &format!("status {status}"))
    }

    pub(crate) fn expect_header(&self, name: &str, value: &str) -> Verdict {
        self.expect(self.response.header(name) == Some(value), &format!("{name}: {value}"))
    }

    pub(crate) fn expect_body(&self, body: &[u8]) -> Verdict {
        self.expect(self.response.body == body, &format!("the body {}", escaped(body)))
    }

    pub(crate) fn json(&self) -> Result<Value, Stop> {
        json::parse(&self.response.body).map_err(|error| self.fail(&format!("a JSON body ({error})")))
    }

    /// This status, and a body equal to `json` in any key order and spacing.
    pub(crate) fn expect_json(&self, status: u16, json: &str) -> Verdict {
        let expected = json::parse(json.as_bytes());
        let content_type = self.response.header("content-type").unwrap_or_default();
        let met = self.response.status == status
            && json::parse(&self.response.body) == expected
            && expected.is_ok();
        self.expect(met, &format!("status {status} and {json}"))?;
        self.expect(content_type.starts_with("application/json"), "Content-Type: application/json")
    }

    pub(crate) fn ran(self) -> Result<Ran, Stop> {
        match Outcome::read(&self.response) {
            Ok(outcome) => Ok(Ran { exchange: self, outcome }),
            Err(reason) => {
                Err(self.fail(&format!("status 200 with stdout, stderr and exit_code ({reason})")))
            }
        }
    }
}

pub(crate) const PREFIX: &str = "Failed to execute command: ";

/// The result of `/execute`.
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit_code: i64,
    pub(crate) timed_out: bool,
    pub(crate) truncated: bool,
}

impl Outcome {
    /// The error describes the fault in the response.
    pub(crate) fn read(response: &Response) -> Result<Self, String> {
        if response.status != 200 {
            return Err(String::from_utf8_lossy(&response.body).into_owned());
        }
        let value = json::parse(&response.body)?;
        let text =
            |key| value.get(key).and_then(Value::text).map(str::to_owned).ok_or(format!("no string {key}"));
        let outcome = Outcome {
            stdout: text("stdout")?,
            stderr: text("stderr")?,
            exit_code: value.get("exit_code").and_then(Value::integer).ok_or("no integer exit_code")?,
            timed_out: flag(&value, "timed_out")?,
            truncated: flag(&value, "truncated")?,
        };
        let known = 3 + usize::from(outcome.timed_out) + usize::from(outcome.truncated);
        if value.keys().len() == known {
            Ok(outcome)
        } else {
            Err(format!("unexpected keys: {:?}", value.keys()))
        }
    }
}

/// `timed_out` and `truncated` are present only when true.
fn flag(value: &Value, key: &str) -> Result<bool, String> {
    match value.get(key) {
        None => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(_) => Err(format!("{key} is present but not true")),
    }
}

pub(crate) struct Ran {
    pub(crate) exchange: Exchange,
    pub(crate) outcome: Outcome,
}

impl Ran {
    /// Exactly this result, with neither `timed_out` nor `truncated`.
    pub(crate) fn expect_result(&self, stdout: &str, stderr: &str, exit_code: i64) -> Verdict {
        let actual = &self.outcome;
        let complete = !actual.timed_out && !actual.truncated;
        let met =
            actual.stdout == stdout && actual.stderr == stderr && actual.exit_code == exit_code && complete;
        let (stdout, stderr) = (json::string(stdout), json::string(stderr));
        self.exchange
            .expect(met, &format!("{{\"stdout\":{stdout},\"stderr\":{stderr},\"exit_code\":{exit_code}}}"))
    }

    /// A command that could not be started.
    pub(crate) fn expect_failure(&self, reason: &str) -> Verdict {
        self.expect_result("", &format!("{PREFIX}{reason}"), 1)
    }

    pub(crate) fn expect_within(&self, limit: Duration) -> Verdict {
        let met = self.exchange.elapsed < limit;
        let elapsed = self.exchange.elapsed.as_secs_f64();
        self.exchange
            .expect(met, &format!("a response within {:.1} s; it took {elapsed:.1} s", limit.as_secs_f64()))
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
    fn check(body: &str, is_valid: bool) {
        let response = Response { status: 200, headers: Vec::new(), body: body.as_bytes().to_owned() };
        assert_eq!(Outcome::read(&response).is_ok(), is_valid, "{body}");
    }

    #[test]
    fn outcome_has_three_keys_and_true_flags() {
        check(r#"{"stdout":"","stderr":"","exit_code":0}"#, true);
        check(r#"{"stdout":"","stderr":"","exit_code":-9,"timed_out":true,"truncated":true}"#, true);
        check(r#"{"stdout":"","stderr":"","exit_code":0,"timed_out":false}"#, false);
        check(r#"{"stdout":"","stderr":"","exit_code":0,"more":1}"#, false);
        check(r#"{"stdout":"","stderr":"","exit_code":0.0}"#, false);
        check(r#"{"stdout":"","stderr":null,"exit_code":0}"#, false);
        check(r#"{"stdout":"","exit_code":0}"#, false);
    }
}
