//! Deadlines, what a command leaves behind, and clients that go away.
//!
//! Most of these wait, because that something does *not* happen shows only after the time at which it would have.

use std::thread;
use std::time::{Duration, Instant};

use super::{Check, check};
use crate::answer::{Outcome, PREFIX, Verdict};
use crate::http::Method;
use crate::request::Request;
use crate::session::{Reference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("a background process that holds the pipes does not delay the answer", held_pipes),
    check("what a command left behind lives on and does not die of SIGPIPE", left_behind),
    check("closing both pipes is not the end of the command", closed_pipes),
    check("at timeout_seconds the output so far comes back, timed_out is true", partial_output),
    check("the timeout sentence shows the command as Python prints a list", timeout_sentence),
    check("at the deadline nothing survives, not even in a new session", nothing_survives),
    check("a huge timeout_seconds works", huge_timeout),
    check("GET / answers while a command runs", health_meanwhile),
    check("a client that only stopped sending gets its answer", half_close),
    check("a client that is gone takes its command with it", client_gone),
];

const SOON: Duration = Duration::from_secs(3);

// BG-01, BG-05
fn held_pipes(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    let ran = s.execute("sh -c 'sleep 5 & echo started; exit 3'")?;
    ran.is("started\n", "", 3)?;
    let seen = ran.exchange.took >= Duration::from_secs(5);
    s.differs(ran.within(SOON), Reference { which: "difference 1", seen })
}

// BG-04
fn left_behind(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    s.file("plain", b"")?;
    let path = s.path("survived");
    let ran = s.execute(&format!("sh -c '(sleep 1; echo late; echo late2; echo x > {path}) & echo now'"))?;
    let seen = ran.outcome.stdout == "now\nlate\nlate2\n";
    s.differs(ran.is("now\n", "", 0), Reference { which: "difference 1", seen })?;
    ran.exchange
        .expect(s.appears(&path, Duration::from_secs(5))?, "the process left behind to write its file")
}

// EX-16
fn closed_pipes(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    s.execute("sh -c 'exec 1>&- 2>&-; sleep 1; exit 5'")?.is("", "", 5)
}

// TO-16. Half a second more than promised, for the way to the server and back.
fn partial_output(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    let ran = s.execute_for("sh -c 'echo before; echo warn >&2; sleep 4'", "1")?;
    let outcome = &ran.outcome;
    let sentence = format!(
        "{PREFIX}Command '['sh', '-c', 'echo before; echo warn >&2; sleep 4']' timed out after 1.0 seconds"
    );
    let stderr = format!("warn\n{sentence}");
    let met = outcome.stdout == "before\n"
        && outcome.stderr == stderr
        && outcome.exit_code == 1
        && outcome.timed_out;
    let expected = format!("stdout \"before\\n\", stderr {stderr:?}, exit_code 1, timed_out true");
    let reference =
        Reference { which: "difference 3", seen: ignored_the_timeout(outcome, 4, ran.exchange.took) };
    s.differs(
        ran.exchange.expect(met, &expected).and_then(|()| ran.within(Duration::from_millis(2300))),
        reference,
    )
}

// TO-15
fn timeout_sentence(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    for (command, list) in [
        ("sleep 2", "['sleep', '2']"),
        ("sh -c 'sleep 2' \"it's\" '\"' é\\\\ ''", r#"['sh', '-c', 'sleep 2', "it's", '"', 'é\\', '']"#),
    ] {
        let ran = s.execute_for(command, "0.5")?;
        let sentence = format!("{PREFIX}Command '{list}' timed out after 0.5 seconds");
        let met = ran.outcome.stderr == sentence && ran.outcome.exit_code == 1 && ran.outcome.timed_out;
        let seen = ignored_the_timeout(&ran.outcome, 2, ran.exchange.took);
        s.differs(ran.exchange.expect(met, &sentence), Reference { which: "difference 3", seen })?;
    }
    Ok(())
}

/// The reference does not know `timeout_seconds` and waits until the command ends.
fn ignored_the_timeout(outcome: &Outcome, seconds: u64, took: Duration) -> bool {
    !outcome.timed_out && outcome.exit_code == 0 && took.as_secs() >= seconds
}

// TO-07
fn nothing_survives(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep", "setsid"])?;
    s.file("plain", b"")?;
    let path = s.path("escaped");
    let start = Instant::now();
    let escapee = format!("setsid sh -c \"sleep 2; echo x > {path}\" >/dev/null 2>&1 &");
    let ran = s.execute_for(&format!("sh -c '({escapee}); sleep 4'"), "1")?;
    let seen = ignored_the_timeout(&ran.outcome, 4, ran.exchange.took);
    thread::sleep(Duration::from_secs(3).saturating_sub(start.elapsed()));
    let survived = s.exists(&path)?;
    let result =
        ran.exchange.expect(ran.outcome.timed_out && !survived, "timed_out, and no file written later");
    s.differs(result, Reference { which: "difference 2", seen })
}

// CG-02
fn huge_timeout(s: &Session) -> Verdict {
    s.needs(&["echo"])?;
    for seconds in ["3e9", "1e19", "1.7e308", "77777777777777777777"] {
        s.execute_for("echo x", seconds)?.is("x\n", "", 0)?;
    }
    Ok(())
}

// EX-02
fn health_meanwhile(s: &Session) -> Verdict {
    s.needs(&["sleep"])?;
    let mut busy = s.talk()?;
    busy.request(Request::json(r#"{"command":"sleep 2"}"#))?;
    let health = s.get("/")?;
    health.status(200)?;
    health.expect(health.took < Duration::from_secs(1), "an answer within 1 s")?;
    busy.answer()?.ran()?.is("", "", 0)
}

// CN-01
fn half_close(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    let mut talk = s.talk()?;
    talk.request(Request::json(r#"{"command":"sh -c 'sleep 1; echo done'"}"#))?;
    talk.finish_sending()?;
    let answer = talk.next_answer(Method::Other);
    let seen = answer.is_err();
    s.differs(answer, Reference { which: "difference 7", seen })?.ran()?.is("done\n", "", 0)
}

// CN-02
fn client_gone(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    s.file("plain", b"")?;
    let path = s.path("gone");
    let start = Instant::now();
    let mut talk = s.talk()?;
    talk.request(Request::json(&format!("{{\"command\":\"sh -c 'sleep 3; echo x > {path}'\"}}")))?;
    // Long enough for the command to start, so that what is seen is not a request that was never read.
    thread::sleep(Duration::from_millis(500));
    drop(talk);
    thread::sleep(Duration::from_millis(4500).saturating_sub(start.elapsed()));
    let probe = s.get(&format!("/exists/{path}"))?;
    let expected = format!("{{\"path\":{:?},\"exists\":false}}", path);
    let seen = probe.response.body.ends_with(b"\"exists\":true}");
    s.differs(probe.is(200, &expected), Reference { which: "difference 7", seen })
}
