//! Deadlines, background processes, and clients that disconnect.
//!
//! Most of these checks wait: only after its due time is it certain that an event has not happened.

use std::thread;
use std::time::{Duration, Instant};

use super::{Check, check};
use crate::http::Method;
use crate::request::Request;
use crate::response::{Outcome, PREFIX, Verdict};
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("a background process that holds a pipe does not delay the response", held_pipes),
    check("a background process keeps running and does not get SIGPIPE", background_process_survives),
    check("closing both pipes does not end the command", closed_pipes),
    check("at timeout_seconds the output so far is returned, with timed_out true", partial_output),
    check("the timeout message shows the command as a Python list", timeout_sentence),
    check("at the deadline all descendants are killed, in new sessions too", deadline_kills_descendants),
    check("a huge timeout_seconds works", huge_timeout),
    check("GET / responds while a command runs", health_during_command),
    check("a half-closed client gets its response", half_close),
    check("the command is killed when its client disconnects", client_disconnect),
];

const SOON: Duration = Duration::from_secs(3);

// BG-01, BG-05
fn held_pipes(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    let ran = s.execute("sh -c 'sleep 5 & echo started; exit 3'")?;
    ran.expect_result("started\n", "", 3)?;
    let observed = ran.exchange.elapsed >= Duration::from_secs(5);
    s.allow(ran.expect_within(SOON), KnownDifference { name: "difference 1", observed })
}

// BG-04
fn background_process_survives(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    s.file("plain", b"")?;
    let path = s.path("survived");
    let ran = s.execute(&format!("sh -c '(sleep 1; echo late; echo late2; echo x > {path}) & echo now'"))?;
    let observed = ran.outcome.stdout == "now\nlate\nlate2\n";
    s.allow(ran.expect_result("now\n", "", 0), KnownDifference { name: "difference 1", observed })?;
    ran.exchange.expect(s.appears(&path, Duration::from_secs(5))?, "a file written by the background process")
}

// EX-16
fn closed_pipes(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    s.execute("sh -c 'exec 1>&- 2>&-; sleep 1; exit 5'")?.expect_result("", "", 5)
}

// TO-16. The limit is the promised 0.8 s after the deadline plus half a second for the network.
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
    let reference = KnownDifference {
        name: "difference 3",
        observed: ignored_the_timeout(outcome, 4, ran.exchange.elapsed),
    };
    s.allow(
        ran.exchange.expect(met, &expected).and_then(|()| ran.expect_within(Duration::from_millis(2300))),
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
        let observed = ignored_the_timeout(&ran.outcome, 2, ran.exchange.elapsed);
        s.allow(ran.exchange.expect(met, &sentence), KnownDifference { name: "difference 3", observed })?;
    }
    Ok(())
}

/// The reference ignores `timeout_seconds` and waits until the command ends.
fn ignored_the_timeout(outcome: &Outcome, seconds: u64, took: Duration) -> bool {
    !outcome.timed_out && outcome.exit_code == 0 && took.as_secs() >= seconds
}

// TO-07
fn deadline_kills_descendants(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep", "setsid"])?;
    s.file("plain", b"")?;
    let path = s.path("escaped");
    let start = Instant::now();
    let escapee = format!("setsid sh -c \"sleep 2; echo x > {path}\" >/dev/null 2>&1 &");
    let ran = s.execute_for(&format!("sh -c '({escapee}); sleep 4'"), "1")?;
    let observed = ignored_the_timeout(&ran.outcome, 4, ran.exchange.elapsed);
    thread::sleep(Duration::from_secs(3).saturating_sub(start.elapsed()));
    let survived = s.exists(&path)?;
    let result = ran
        .exchange
        .expect(ran.outcome.timed_out && !survived, "timed_out true, and no file written after the deadline");
    s.allow(result, KnownDifference { name: "difference 2", observed })
}

// CG-02
fn huge_timeout(s: &Session) -> Verdict {
    s.needs(&["echo"])?;
    for seconds in ["3e9", "1e19", "1.7e308", "77777777777777777777"] {
        s.execute_for("echo x", seconds)?.expect_result("x\n", "", 0)?;
    }
    Ok(())
}

// EX-02
fn health_during_command(s: &Session) -> Verdict {
    s.needs(&["sleep"])?;
    let mut busy = s.client()?;
    busy.send_request(Request::json(r#"{"command":"sleep 2"}"#))?;
    let health = s.get("/")?;
    health.expect_status(200)?;
    health.expect(health.elapsed < Duration::from_secs(1), "a response within 1 s")?;
    busy.response()?.ran()?.expect_result("", "", 0)
}

// CN-01. Short, so that the check passes through `kubectl port-forward` too: the kubelet's side of it closes
// the connection one second after one direction has ended.
fn half_close(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    let mut client = s.client()?;
    client.send_request(Request::json(r#"{"command":"sh -c 'sleep 0.3; echo done'"}"#))?;
    client.half_close()?;
    let response = client.next_response(Method::Other);
    let observed = response.is_err();
    s.allow(response, KnownDifference { name: "difference 7", observed })?
        .ran()?
        .expect_result("done\n", "", 0)
}

// CN-02
fn client_disconnect(s: &Session) -> Verdict {
    s.needs(&["sh", "sleep"])?;
    s.file("plain", b"")?;
    let path = s.path("disconnected");
    let start = Instant::now();
    let mut client = s.client()?;
    client.send_request(Request::json(&format!("{{\"command\":\"sh -c 'sleep 3; echo x > {path}'\"}}")))?;
    // Long enough for the command to start: an unread request would pass this check too.
    thread::sleep(Duration::from_millis(500));
    drop(client);
    thread::sleep(Duration::from_millis(4500).saturating_sub(start.elapsed()));
    let probe = s.get(&format!("/exists/{path}"))?;
    let expected = format!("{{\"path\":{:?},\"exists\":false}}", path);
    let observed = probe.response.body.ends_with(b"\"exists\":true}");
    s.allow(probe.expect_json(200, &expected), KnownDifference { name: "difference 7", observed })
}
