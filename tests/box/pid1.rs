//! The first process of a container: who reaps, who is signalled, how it ends.

use crate::container::{Container, joining_or_leaving};
use crate::harness::{eventually, eventually_some};
use serde_json::json;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs the command this often on eight connections at once; every answer must say 7 and nothing else.
#[track_caller]
fn check_statuses(container: &Container, times: u32, command: &str) {
    let left = AtomicU32::new(times);
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    let body = json!({ "command": command }).to_string();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = container.connect();
                while take() {
                    client.send_request(
                        "POST",
                        "/execute",
                        &[("Content-Type", "application/json")],
                        body.as_bytes(),
                    );
                    let json = client.answer().json();
                    assert_eq!((&json["exit_code"], &json["stderr"]), (&json!(7), &json!("")), "{json}");
                }
            });
        }
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn two_thousand_statuses_are_right_while_orphans_are_reaped() {
    // XC-10
    let container = Container::start();
    check_statuses(&container, 2000, "/probe orphans 1 0.01 7");
    container.check_no_zombies();
    assert!(eventually(|| container.processes().len() == 2));
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn many_orphans_that_end_together_are_all_reaped() {
    // P1-03
    let container = Container::with(&["--memory=512m", "--memory-swap=512m", "--pids-limit=2048"], &[]);
    for (number, time) in [(300, "0.5"), (1000, "2")] {
        container.probe(&format!("orphans {number} {time} 0"), 0);
        assert!(eventually(|| container.processes_with("exe sleep").is_empty()));
        container.check_no_zombies();
        assert_eq!(container.processes().len(), 2);
    }
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_command_killed_by_somebody_else_is_answered_at_once_and_reaped() {
    // P1-02
    let container = Container::start();
    thread::scope(|scope| {
        let ran = scope.spawn(|| container.execute("/probe sleep 15"));
        let pid = eventually_some(|| Some(container.processes_with("/probe sleep 15").first()?.inner_pid()))
            .unwrap();
        container.exec(&["/probe", "signal", "9", &format!("-{pid}")]);
        let ran = ran.join().unwrap();
        ran.check("", "", -9);
        assert!(ran.took < Duration::from_secs(10), "{ran:?}");
    });
    container.check_no_zombies();
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn when_told_to_stop_it_refuses_new_connections_and_lets_running_requests_end() {
    // P1-05
    let container = Container::with(&["--env=SANDBOX_SHUTDOWN_GRACE_SECONDS=10"], &[]);
    let _leaving = joining_or_leaving();
    thread::scope(|scope| {
        let ran = scope.spawn(|| container.execute("/probe sleep 2"));
        assert!(eventually(|| !container.processes_with("/probe sleep 2").is_empty()));
        container.signal("TERM");
        assert!(eventually(|| TcpStream::connect(container.address()).is_err()));
        assert!(!ran.is_finished());
        ran.join().unwrap().check("", "", 0);
    });
    assert_eq!(container.exit_code(), 0);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_command_longer_than_the_grace_is_killed_with_all_it_started_and_told_so() {
    // P1-05
    let container = Container::start();
    let _leaving = joining_or_leaving();
    thread::scope(|scope| {
        let ran = scope.spawn(|| container.execute("/probe escape 60"));
        assert!(eventually(|| container.processes_with("sleep 60").len() == 1));
        container.signal("TERM");
        let started = Instant::now();
        let ran = ran.join().unwrap();
        assert!(ran.stderr().ends_with("was killed: server shutting down"), "{ran:?}");
        assert_eq!(container.exit_code(), 0);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_second_signal_ends_the_wait() {
    let container = Container::with(&["--env=SANDBOX_SHUTDOWN_GRACE_SECONDS=60"], &[]);
    let _leaving = joining_or_leaving();
    thread::scope(|scope| {
        let ran = scope.spawn(|| container.execute("/probe sleep 60"));
        assert!(eventually(|| !container.processes_with("/probe sleep 60").is_empty()));
        container.signal("TERM");
        assert!(eventually(|| container.log().contains("stopping")));
        container.signal("TERM");
        assert!(ran.join().unwrap().stderr().ends_with("was killed: server shutting down"));
        assert_eq!(container.exit_code(), 0);
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn an_idle_one_stops_at_once_by_every_signal_that_asks_for_it() {
    thread::scope(|scope| {
        for signal in ["TERM", "INT", "HUP", "QUIT"] {
            scope.spawn(move || {
                let container = Container::start();
                let _leaving = joining_or_leaving();
                let started = Instant::now();
                container.signal(signal);
                assert_eq!(container.exit_code(), 0, "{signal}");
                // 0.2 s are promised; the Docker engine needs more to notice.
                assert!(started.elapsed() < Duration::from_secs(2), "{signal}: {:?}", started.elapsed());
            });
        }
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_server_that_dies_ends_the_container_with_its_status() {
    // P1-09: a panic is an abort.
    thread::scope(|scope| {
        for (signal, target, code) in [("ABRT", 1, 134), ("6", 2, 134), ("4", 2, 132), ("9", 2, 137)] {
            scope.spawn(move || {
                let container = Container::start();
                let _leaving = joining_or_leaving();
                if target == 1 {
                    container.signal(signal);
                } else {
                    let pid = container.server().inner_pid().to_string();
                    container.exec(&["/probe", "signal", signal, &pid]);
                }
                assert_eq!(container.exit_code(), code, "{signal} to {target}");
            });
        }
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_command_can_not_kill_or_stop_the_first_process_but_can_ask_it_to_end() {
    // P1-10
    let container = Container::start();
    // KILL, STOP, USR1, USR2, TSTP, SEGV, ALRM
    for signal in [9, 19, 10, 12, 20, 11, 14] {
        container.probe(&format!("signal {signal} 1"), 0);
        assert_eq!(container.get("/").status, 200);
        container.probe("exit 7", 7);
    }
    container.check_no_zombies();
    let _leaving = joining_or_leaving();
    let _may_be_answered = container.request(
        "POST",
        "/execute",
        &[("Content-Type", "application/json")],
        br#"{"command":"/probe signal 15 1"}"#,
    );
    assert_eq!(container.exit_code(), 0);
    assert!(container.log().contains("stopped"), "{}", container.log());
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_storm_of_signals_changes_no_answer() {
    // P1-11
    let container = Container::start();
    let server = container.server().inner_pid();
    thread::scope(|scope| {
        let storm = scope.spawn(|| container.probe(&format!("storm 3 1 {server}"), 0));
        while !storm.is_finished() {
            check_statuses(&container, 50, "/probe orphans 1 0.01 7");
        }
    });
    container.check_no_zombies();
}

/// In every layout statuses are right, orphans are reaped, and nothing else is touched.
#[track_caller]
fn check_layout(container: &Container) {
    let before = container.processes().len();
    check_statuses(container, 200, "/probe orphans 1 0.01 7");
    container.probe("leave 1 1 3", 3);
    container.probe_times_out("escape 30", Duration::from_millis(500));
    assert!(eventually(|| container.processes_with("exe sleep").is_empty()));
    container.check_no_zombies();
    assert_eq!(container.processes().len(), before, "{:?}", container.processes());
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn it_reaps_and_tells_statuses_wherever_it_is_in_the_tree() {
    // P1-08
    let ours = "--entrypoint=/probe";
    for (options, arguments, first) in [
        (&[][..], &[][..], 1),
        (&["--init"], &[], 2),
        (&[ours], &["under", "/sandbox-runtime"], 2),
        (&[ours], &["under", "/sandbox-runtime", "serve"], 1),
    ] {
        let container = Container::with(options, arguments);
        let server = container.server();
        assert!(server.inner_pid() > first, "{server:?}");
        check_layout(&container);
    }
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn in_a_process_namespace_of_others_it_reaps_its_own_and_leaves_them_alone() {
    // P1-08: shareProcessNamespace. The first process there reaps nobody.
    let pause = Container::unheard(&["--entrypoint=/probe"], &["sleep", "300"]);
    let shared = format!("--pid=container:{}", pause.name());
    let container = Container::with(&[&shared], &[]);
    check_layout(&container);
    assert_eq!(container.processes_with("/probe sleep 300").len(), 1);
    let _leaving = joining_or_leaving();
    container.signal("TERM");
    assert_eq!(container.exit_code(), 0);
    assert_eq!(pause.processes().len(), 1, "{:?}", pause.processes());
}
