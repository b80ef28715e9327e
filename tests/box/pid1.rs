//! PID 1 of a container: reaping, signals, exit status.

use crate::container::{Container, network_change};
use crate::gvisor::{Property, lacks};
use kit::{eventually, eventually_some};
use serde_json::json;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs the command this many times, on eight connections at once. Each response must have the exit code 7
/// and an empty stderr.
#[track_caller]
fn check_exit_codes(container: &Container, times: u32, command: &str) {
    let remaining = AtomicU32::new(times);
    let take_one =
        || remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = container.connect();
                while take_one() {
                    client.send_command(command);
                    let json = client.response().json();
                    assert_eq!((&json["exit_code"], &json["stderr"]), (&json!(7), &json!("")), "{json}");
                }
            });
        }
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn exit_codes_are_right_while_orphans_are_reaped() {
    // XC-10
    let container = Container::start();
    check_exit_codes(&container, 2000, "/probe orphans 1 0.01 7");
    container.check_no_zombies();
    assert!(eventually(|| container.processes().len() == 2));
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn orphans_that_end_together_are_all_reaped() {
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
fn command_killed_from_outside_is_reported_at_once_and_reaped() {
    // P1-02
    let container = Container::start();
    thread::scope(|scope| {
        let ran = scope.spawn(|| container.execute("/probe sleep 15"));
        let pid = eventually_some(|| Some(container.processes_with("/probe sleep 15").first()?.pid)).unwrap();
        container.exec(&["/probe", "signal", "9", &format!("-{pid}")]);
        let ran = ran.join().unwrap();
        ran.check("", "", -9);
        assert!(ran.took < Duration::from_secs(10), "{ran:?}");
    });
    container.check_no_zombies();
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn sigterm_refuses_connections_and_finishes_requests() {
    // P1-05
    let container = Container::with(&["--env=SANDBOX_SHUTDOWN_GRACE_SECONDS=10"], &[]);
    let _change = network_change();
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
fn command_past_the_grace_period_is_killed_with_its_tree() {
    // P1-05
    let container = Container::start();
    let _change = network_change();
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
fn second_signal_ends_the_grace_period() {
    let container = Container::with(&["--env=SANDBOX_SHUTDOWN_GRACE_SECONDS=60"], &[]);
    let _change = network_change();
    thread::scope(|scope| {
        let ran = scope.spawn(|| container.execute("/probe sleep 60"));
        assert!(eventually(|| !container.processes_with("/probe sleep 60").is_empty()));
        container.signal("TERM");
        assert!(eventually(|| container.log().contains("shutting down")));
        container.signal("TERM");
        assert!(ran.join().unwrap().stderr().ends_with("was killed: server shutting down"));
        assert_eq!(container.exit_code(), 0);
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn idle_server_stops_at_once_on_every_stop_signal() {
    thread::scope(|scope| {
        for signal in ["TERM", "INT", "HUP", "QUIT"] {
            scope.spawn(move || {
                let container = Container::start();
                let _change = network_change();
                let started = Instant::now();
                container.signal(signal);
                assert_eq!(container.exit_code(), 0, "{signal}");
                // 0.2 s are promised. The Docker engine needs longer to notice.
                assert!(started.elapsed() < Duration::from_secs(2), "{signal}: {:?}", started.elapsed());
            });
        }
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn container_exits_with_the_status_of_a_crashed_server() {
    // P1-09. A panic aborts.
    thread::scope(|scope| {
        for (signal, target, code) in [("ABRT", 1, 134), ("6", 2, 134), ("4", 2, 132), ("9", 2, 137)] {
            scope.spawn(move || {
                let container = Container::start();
                let _change = network_change();
                if target == 1 {
                    container.signal(signal);
                } else {
                    let pid = container.server().pid.to_string();
                    container.exec(&["/probe", "signal", signal, &pid]);
                }
                assert_eq!(container.exit_code(), code, "{signal} to {target}");
            });
        }
    });
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn command_cannot_kill_or_stop_pid_1_but_can_terminate_it() {
    // P1-10
    let container = Container::start();
    // KILL, STOP, USR1, USR2, TSTP, SEGV, ALRM
    let refused = if lacks(Property::ProtectedInit) { &[][..] } else { &[9, 19, 10, 12, 20, 11, 14] };
    for signal in refused {
        container.probe(&format!("signal {signal} 1"), 0);
        assert_eq!(container.get("/").status, 200);
        container.probe("exit 7", 7);
    }
    container.check_no_zombies();
    let _change = network_change();
    let _response_is_optional = container.request(
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
fn signal_storm_changes_no_response() {
    // P1-11
    let container = Container::start();
    let server = container.server().pid;
    thread::scope(|scope| {
        let storm = scope.spawn(|| container.probe(&format!("storm 3 1 {server}"), 0));
        while !storm.is_finished() {
            check_exit_codes(&container, 50, "/probe orphans 1 0.01 7");
        }
    });
    container.check_no_zombies();
}

/// Exit codes are right, orphans are reaped, and no other process is reaped or killed.
#[track_caller]
fn check_layout(container: &Container) {
    let before = container.processes().len();
    check_exit_codes(container, 200, "/probe orphans 1 0.01 7");
    container.probe("background 1 1 3", 3);
    container.probe_times_out("escape 30", Duration::from_millis(500));
    assert!(eventually(|| container.processes_with("exe sleep").is_empty()));
    container.check_no_zombies();
    assert_eq!(container.processes().len(), before, "{:?}", container.processes());
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn reaps_and_reports_exit_codes_as_pid_1_or_not() {
    // P1-08
    let probe = "--entrypoint=/probe";
    for (options, arguments, init_pid) in [
        (&[][..], &[][..], 1),
        (&["--init"], &[], 2),
        (&[probe], &["init", "/sandbox-runtime"], 2),
        (&[probe], &["init", "/sandbox-runtime", "serve"], 1),
    ] {
        let container = Container::with(options, arguments);
        let server = container.server();
        assert!(server.pid > init_pid, "{server:?}");
        check_layout(&container);
    }
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn shared_pid_namespace_reaps_only_its_own_orphans() {
    if lacks(Property::SharedProcesses) {
        return;
    }
    // P1-08: shareProcessNamespace. PID 1 of the pod reaps no orphans.
    let pause = Container::without_server(&["--entrypoint=/probe"], &["sleep", "300"]);
    let shared = format!("--pid=container:{}", pause.name());
    let container = Container::with(&[&shared], &[]);
    check_layout(&container);
    assert_eq!(container.processes_with("/probe sleep 300").len(), 1);
    let _change = network_change();
    container.signal("TERM");
    assert_eq!(container.exit_code(), 0);
    assert_eq!(pause.processes().len(), 1, "{:?}", pause.processes());
}
