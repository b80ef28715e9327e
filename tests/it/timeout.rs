//! Command timeouts: configuration, the response, and the wording of the timeout sentence.

use crate::python::{Numbers, evaluate};
use kit::{Execution, Server, eventually, is_missing, own_sleep, processes_with};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

const ONE_SECOND: &[(&str, &str)] = &[("SANDBOX_EXEC_TIMEOUT_SECONDS", "1")];

/// The promise is 0.8 s; a test machine may be busy.
const LATE: Duration = Duration::from_secs(3);

/// The command ran for one second, hardly more, and is reported as timed out.
#[track_caller]
fn check_timed_out(ran: &Execution) {
    assert!(ran.took >= Duration::from_secs(1) && ran.took < Duration::from_secs(1) + LATE, "{ran:?}");
    assert_eq!((ran.exit_code(), &ran.json["timed_out"]), (1, &json!(true)), "{ran:?}");
    assert!(ran.stderr().contains("Failed to execute command: Command '["), "{ran:?}");
    assert!(ran.stderr().ends_with("]' timed out after 1.0 seconds"), "{ran:?}");
}

#[test]
fn deadline_sends_the_response_and_kills_the_group() {
    let server = Server::with(ONE_SECOND);
    thread::scope(|scope| {
        for command in [
            "sh -c 'SLEEP | cat'", // TO-04
            "sh -c 'mkfifo p.$$; (while true; do echo child; SLEEP; done) > p.$$ & cat p.$$'", // TO-05
            "sh -c 'trap \"\" TERM INT HUP; while :; do SLEEP; done'", // TO-09
            "sh -c 'kill -STOP $$; SLEEP'", // TO-10
            "sh -c '(kill -STOP $$) & SLEEP & wait; SLEEP'", // TO-10
            "sh -c 'SLEEP; echo hello'", // TO-14
            "sh -c 'exec >&- 2>&-; SLEEP'",
            "sh -c 'SLEEP & SLEEP & (SLEEP; SLEEP) & wait'",
            "sh -c 'trap \"SLEEP\" EXIT; SLEEP'",
            "SLEEP",
        ] {
            let server = &server;
            scope.spawn(move || {
                let sleep = own_sleep(20);
                check_timed_out(&server.execute(&command.replace("SLEEP", &sleep)));
                assert!(eventually(|| processes_with(&sleep).is_empty()), "{command}");
            });
        }
    });
}

#[test]
fn concurrent_commands_time_out_on_time() {
    // TO-20
    let server = Server::with(ONE_SECOND);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| check_timed_out(&server.execute("sleep 20")));
        }
    });
}

#[test]
fn output_before_the_deadline_is_kept() {
    let server = Server::with(ONE_SECOND);
    // TO-16
    let ran = server.execute("sh -c 'echo CRITICAL-PROGRESS; echo warn >&2; sleep 20'");
    let sentence = "Failed to execute command: \
                    Command '['sh', '-c', 'echo CRITICAL-PROGRESS; echo warn >&2; sleep 20']' \
                    timed out after 1.0 seconds";
    let expected = json!({
        "stdout": "CRITICAL-PROGRESS\n",
        "stderr": format!("warn\n{sentence}"),
        "exit_code": 1,
        "timed_out": true,
    });
    assert_eq!(ran.json, expected);
    // TO-22
    let ran = server.execute("sh -c 'while true; do echo .; sleep 0.3; done'");
    check_timed_out(&ran);
    assert!(ran.stdout().starts_with(".\n.\n"), "{ran:?}");
    // The output ends within a character and without a line feed.
    let ran = server.execute(r#"sh -c 'printf "a\303" >&2; sleep 20'"#);
    assert!(ran.stderr().starts_with("a\u{fffd}Failed to execute"), "{ran:?}");
}

#[test]
fn output_flood_does_not_delay_the_deadline() {
    // TO-17. The output limit is low, so that reading the response does not dominate the time.
    let server =
        Server::with(&[("SANDBOX_EXEC_TIMEOUT_SECONDS", "1"), ("SANDBOX_MAX_OUTPUT_BYTES", "65536")]);
    thread::scope(|scope| {
        let flood = scope.spawn(|| server.execute("yes"));
        while !flood.is_finished() {
            assert_eq!(server.get("/").status, 200);
            thread::sleep(Duration::from_millis(20));
        }
        let ran = flood.join().unwrap();
        check_timed_out(&ran);
        assert!(ran.stdout().starts_with("y\ny\n") && ran.json["truncated"] == true);
    });
    let peak = server.peak_memory_kib();
    assert!(peak < 128 << 10, "{peak} kB");
}

#[test]
fn request_timeout_only_lowers_the_limit() {
    let server = Server::with(ONE_SECOND);
    for (requested, reported) in [
        ("0.3", "0.3"),
        ("3e-1", "0.3"),
        ("0.25", "0.25"),
        ("1e-3", "0.001"),
        ("1e-7", "1e-07"),
        ("1e-310", "1e-310"),
        ("1", "1.0"),
        ("1.0", "1.0"),
        ("1.5", "1.0"),
        ("5", "1.0"),
        ("1e308", "1.0"),
        ("18446744073709551616", "1.0"),
        ("null", "1.0"),
    ] {
        let response =
            server.execute_text(&format!(r#"{{"command":"sleep 20","timeout_seconds":{requested}}}"#));
        let sentence = format!(
            "Failed to execute command: Command '['sleep', '20']' timed out after {reported} seconds"
        );
        response.check(200, &json!({ "stdout": "", "stderr": sentence, "exit_code": 1, "timed_out": true }));
    }
    let ran = server.execute_json(&json!({ "command": "sleep 0.05", "timeout_seconds": 0.9 }));
    ran.check("", "", 0);
}

#[test]
fn invalid_timeout_is_422_and_nothing_runs() {
    let server = Server::start();
    for invalid in [
        "0",
        "0.0",
        "-0.0",
        "-1",
        "-1e-300",
        "-1e308",
        "1e-400",
        "1e999",
        "\"1\"",
        "\"\"",
        "true",
        "false",
        "[]",
        "[1]",
        "{}",
        "NaN",
        "Infinity",
        "-Infinity",
        "+1",
        "01",
        ".5",
        "1.",
        "0x1",
        "1_0",
    ] {
        let response =
            server.execute_text(&format!(r#"{{"command":"touch marker","timeout_seconds":{invalid}}}"#));
        assert_eq!(response.status, 422, "{invalid}: {response:?}");
    }
    assert!(!server.base().join("marker").exists());
}

#[test]
fn configured_timeout_parses_like_a_python_float() {
    // CG-04
    for (value, reported) in [
        (" 0.3 ", "0.3"),
        ("0.3\n", "0.3"),
        ("+.3", "0.3"),
        ("3e-1", "0.3"),
        ("1.", "1.0"),
        ("0_1", "1.0"),
        ("0.000_1", "0.0001"),
    ] {
        let server = Server::with(&[("SANDBOX_EXEC_TIMEOUT_SECONDS", value)]);
        let ran = server.execute("sleep 20");
        assert!(
            ran.stderr().ends_with(&format!(" timed out after {reported} seconds")),
            "{value:?}: {ran:?}"
        );
        assert_eq!(server.log().lines().count(), 1, "{}", server.log());
    }
}

/// Runs the requests on eight threads; returns the standard error of each.
fn sentences(server: &Server, requests: &[Value]) -> Vec<String> {
    thread::scope(|scope| {
        let share = requests.len().div_ceil(8);
        let threads: Vec<_> = requests
            .chunks(share)
            .map(|requests| {
                scope.spawn(move || {
                    let run = |request: &Value| server.execute_json(request).stderr().to_owned();
                    requests.iter().map(run).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn arguments_and_timeouts_print_as_in_python() {
    let server = Server::start();
    let alphabet: Vec<char> = "'\"\\ab \n\r\t\u{1}\u{7f}\u{80}\u{a0}\u{ad}é\u{301}\u{200b}\u{2028}\u{3000}\
                               \u{e000}\u{feff}\u{1f600}\u{10ffff}"
        .chars()
        .collect();
    let mut numbers = Numbers::new();
    let seed = numbers.0;
    let quoted = |argument: &str| format!(" '{}'", argument.replace('\'', r"'\''"));
    let requests: Vec<Value> = (0..400)
        .map(|_| {
            let arguments: String = (0..3).map(|_| quoted(&numbers.text(&alphabet, 6))).collect();
            let digits = numbers.below(1_000_000_000);
            let timeout: f64 = format!("{digits}1e-{}", 11 + numbers.below(12)).parse().unwrap();
            json!({ "command": format!("sh -c 'sleep 20'{arguments}"), "timeout_seconds": timeout })
        })
        .collect();
    let expression = "f\"Failed to execute command: Command '{shlex.split(x['command'])}' \
                      timed out after {x['timeout_seconds']} seconds\"";
    let Some(expected) = evaluate(expression, &requests) else { return };
    for (ours, expected) in sentences(&server, &requests).iter().zip(&expected) {
        assert_eq!(json!(ours), *expected, "seed {seed}");
    }
}

#[test]
fn program_names_print_every_character_as_in_python() {
    if is_missing("python3") {
        return;
    }
    // Names of 5000 characters and more, too long to exist (ENAMETOOLONG). Characters unassigned in Python's
    // version of Unicode are excluded.
    let starts: Vec<Value> = (0..0x11_0000).step_by(5000).map(Value::from).collect();
    let names = "'/' + 'x' * 5000 + ''.join(c for c in map(chr, range(x, min(x + 5000, 0x110000))) \
                 if c != '\\0' and unicodedata.category(c) not in ('Cn', 'Cs'))";
    let names = evaluate(names, &starts).unwrap();
    let sentence = "'Failed to execute command: ' + str(OSError(36, os.strerror(36), x))";
    let sentences = evaluate(sentence, &names).unwrap();
    let server = Server::start();
    for (name, expected) in names.iter().zip(&sentences) {
        let name = name.as_str().unwrap().replace('\'', r"'\''");
        let ran = server.execute(&format!("'{name}'"));
        let expected = expected.as_str().unwrap();
        let difference = ran.stderr().chars().zip(expected.chars()).find(|(ours, theirs)| ours != theirs);
        assert!(ran.stderr() == expected, "{difference:?}");
    }
}
