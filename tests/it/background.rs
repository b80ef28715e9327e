//! Background processes: those that a finished command leaves running.

use kit::{Server, eventually, eventually_some, own_sleep, processes_with};
use std::fs;
use std::time::Duration;

/// Far below the run time of a background process, far above that of a response.
const SOON: Duration = Duration::from_secs(8);

#[track_caller]
fn check_background_lives(command: impl Fn(&str) -> String, stdout: &str, exit_code: i64) {
    let server = Server::start();
    let sleep = own_sleep(30);
    let ran = server.execute(&command(&sleep));
    ran.check(stdout, "", exit_code);
    assert!(ran.took < SOON, "{ran:?}");
    // A process inside execve(2) may not match for a moment.
    let single = || if let [pid] = processes_with(&sleep)[..] { Some(pid) } else { None };
    let background = eventually_some(single).unwrap_or_else(|| panic!("{}", command(&sleep)));
    server.execute(&format!("kill -9 {background}")).check("", "", 0);
}

#[test]
fn response_is_sent_at_exit_and_background_processes_live_on() {
    // BG-01
    check_background_lives(|sleep| format!("sh -c '{sleep} & echo started'"), "started\n", 0);
    // BG-02
    check_background_lives(|sleep| format!("sh -c 'nohup {sleep} >/dev/null 2>&1 & echo bg'"), "bg\n", 0);
    // TO-21
    check_background_lives(|sleep| format!("sh -c '{sleep} & exit 0'"), "", 0);
    // BG-05
    check_background_lives(|sleep| format!("sh -c '{sleep} & exit 3'"), "", 3);
    check_background_lives(|sleep| format!("sh -c 'echo x; {sleep} >&2 & kill -9 $$'"), "x\n", -9);
    check_background_lives(|sleep| format!("sh -c 'setsid {sleep} & echo away'"), "away\n", 0);
    check_background_lives(|sleep| format!("sh -c '({sleep} 2>&1 >/dev/null &) ; echo half'"), "half\n", 0);
}

#[test]
fn output_of_short_background_processes_is_kept() {
    // BG-05
    let server = Server::start();
    server.execute("sh -c 'sleep 0.2 & exit 3'").check("", "", 3);
    server.execute("sh -c '(sleep 0.05; echo tail) & echo head'").check("head\ntail\n", "", 0);
    let ran = server.execute("sh -c 'head -c 3000000 /dev/zero & exit 2'");
    assert_eq!((ran.stdout().len(), ran.exit_code()), (3_000_000, 2));
}

#[test]
fn late_background_output_neither_kills_nor_blocks() {
    // BG-04
    let server = Server::start();
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    server.execute("true").check("", "", 0);
    let before = descriptors();
    let ran = server.execute("sh -c '(sleep 1; echo late; echo late2 >&2; touch survived) & echo now'");
    ran.check("now\n", "", 0);
    server
        .execute("sh -c '(sleep 1; head -c 5000000 /dev/zero; touch written) & echo now'")
        .check("now\n", "", 0);
    for name in ["survived", "written"] {
        assert!(eventually(|| server.base().join(name).exists()), "{name}");
    }
    // The connection of the previous response may still be open.
    assert!(eventually(|| descriptors() <= before + 2), "{before} descriptors, then {}", descriptors());
}

#[test]
fn endless_background_output_does_not_delay_the_response() {
    let server = Server::start();
    let marker = own_sleep(0).replace("sleep ", "");
    let ran = server.execute(&format!("sh -c 'yes {marker} & echo begun >&2'"));
    assert!(ran.took < SOON && ran.exit_code() == 0 && ran.stderr() == "begun\n");
    let background = processes_with(&format!("yes {marker}"));
    assert_eq!(background.len(), 1);
    assert_eq!(server.get("/").status, 200);
    server.execute(&format!("kill -9 {}", background[0])).check("", "", 0);
}
