//! Shutdown of the init process and the server process, reaping, and signals.

use kit::{Client, Server, StopOnDrop, eventually, own_sleep, processes_with, signal, zombies_of};
use serde_json::json;
use std::fs;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server with the default shutdown grace period.
fn with_default_grace() -> Server {
    Server::with(&[("SANDBOX_SHUTDOWN_GRACE_SECONDS", "10")])
}

/// Starts a command of at least 30 s with two escaped processes; returns the client and the text by which
/// [`processes_with`] finds its processes.
fn start_long_command(server: &Server) -> (Client, String) {
    let sleep = own_sleep(30);
    let mut client = server.connect();
    client
        .send_command(&format!("sh -c 'setsid {sleep} & env -i setsid -f {sleep}; {sleep}; echo survived'"));
    assert!(eventually(|| processes_with(&sleep).len() >= 4));
    (client, sleep)
}

#[test]
fn running_commands_finish_before_shutdown() {
    // P1-05
    for name in ["TERM", "INT", "HUP", "QUIT"] {
        let mut server = with_default_grace();
        let mut client = server.connect();
        let mut idle = server.connect();
        idle.send_request("GET", "/", &[], b"");
        assert_eq!(idle.response().status, 200);
        client.send_command("sh -c 'touch begun; sleep 1; echo done'");
        assert!(eventually(|| server.base().join("begun").exists()));
        server.signal(name);
        assert!(eventually(|| TcpStream::connect(server.address()).is_err()));
        assert!(idle.is_closed());
        let response = client.response();
        response.check(200, &json!({ "stdout": "done\n", "stderr": "", "exit_code": 0 }));
        assert!(client.is_closed());
        assert_eq!(server.wait().code(), Some(0), "{name}");
    }
}

#[test]
fn idle_server_shuts_down_immediately() {
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let mut server = with_default_grace();
            server.execute("true").check("", "", 0);
            let _idle = server.connect();
            let signalled = Instant::now();
            server.signal("TERM");
            assert_eq!(server.wait().code(), Some(0));
            signalled.elapsed()
        })
        .collect();
    times.sort();
    eprintln!("idle shutdown took {times:?}");
    // The median; a busy machine gets more time than the promise.
    assert!(times[2] < Duration::from_millis(500), "{times:?}");
}

#[test]
fn command_outlasting_the_grace_is_killed_with_its_tree() {
    // P1-05
    let mut server = Server::with(&[("SANDBOX_SHUTDOWN_GRACE_SECONDS", "1")]);
    let (mut client, sleep) = start_long_command(&server);
    let signalled = Instant::now();
    server.signal("TERM");
    let json = client.response().json();
    assert_eq!(json["exit_code"], 1, "{json}");
    assert!(json["stderr"].as_str().unwrap().ends_with("was killed: server shutting down"), "{json}");
    assert_eq!(server.wait().code(), Some(0));
    let took = signalled.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(4), "{took:?}");
    assert!(processes_with(&sleep).is_empty());
}

#[test]
fn second_signal_ends_the_grace() {
    let mut server = with_default_grace();
    let (mut client, sleep) = start_long_command(&server);
    server.signal("TERM");
    assert!(eventually(|| TcpStream::connect(server.address()).is_err()));
    let signalled = Instant::now();
    server.signal("TERM");
    assert_eq!(client.response().json()["exit_code"], 1);
    assert_eq!(server.wait().code(), Some(0));
    assert!(signalled.elapsed() < Duration::from_secs(4), "{:?}", signalled.elapsed());
    assert!(processes_with(&sleep).is_empty());
}

#[test]
fn unrelated_signals_are_ignored() {
    let server = with_default_grace();
    let log = server.log();
    for name in ["USR1", "USR2", "WINCH", "CHLD", "CONT", "URG", "PIPE"] {
        signal(name, server.init_pid());
        signal(name, server.pid());
        server.execute("echo well").check("well\n", "", 0);
    }
    assert_eq!(server.log(), log);
}

#[test]
fn both_processes_have_the_program_name() {
    let server = Server::start();
    for pid in [server.init_pid(), server.pid()] {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        assert_eq!(name, "sandbox-runtime\n");
    }
}

#[test]
fn init_and_server_processes_end_together() {
    // When the init process is killed, the server shuts down as on SIGTERM, and kills its commands.
    let server = Server::start();
    let (mut client, sleep) = start_long_command(&server);
    signal("KILL", server.init_pid());
    assert_eq!(client.response().json()["exit_code"], 1);
    assert!(eventually(|| TcpStream::connect(server.address()).is_err()));
    assert!(eventually(|| processes_with(&sleep).is_empty()), "{:?}", processes_with(&sleep));
    // When the server process is killed, the init process exits with 128 plus the signal number.
    let mut server = Server::start();
    signal("KILL", server.pid());
    assert_eq!(server.wait().code(), Some(137));
}

#[test]
fn shutdown_leaves_background_processes_running() {
    let mut server = Server::start();
    let sleep = own_sleep(30);
    server.execute(&format!("sh -c '{sleep} & setsid {sleep} & echo left'")).check("left\n", "", 0);
    assert!(eventually(|| processes_with(&sleep).len() == 2));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let background = processes_with(&sleep);
    assert_eq!(background.len(), 2);
    background.into_iter().for_each(|pid| signal("KILL", pid));
}

#[test]
fn orphans_are_reaped_and_exit_codes_stay_correct() {
    // XC-10, P1-03: many orphans exit at the same time.
    let server = Server::start();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..125 {
                    server.execute("sh -c '(sleep 0.01 &) ; exit 7'").check("", "", 7);
                }
            });
        }
        scope.spawn(|| {
            let many =
                "sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (sleep 0.5 &); done'";
            (0..15).for_each(|_| server.execute(many).check("", "", 0));
        });
    });
    assert!(eventually(|| zombies_of(server.init_pid()) + zombies_of(server.pid()) == 0));
    assert!(eventually(|| {
        let children = format!("/proc/{0}/task/{0}/children", server.init_pid());
        std::fs::read_to_string(children).unwrap().split_whitespace().count() == 1
    }));
}

#[test]
fn externally_killed_command_is_reported_and_reaped() {
    // P1-02
    let server = Server::start();
    let sleep = own_sleep(30);
    thread::scope(|scope| {
        let command = format!("sh -c '{sleep}; true'");
        let server = &server;
        let ran = scope.spawn(move || server.execute(&command));
        assert!(eventually(|| processes_with(&sleep).len() == 2));
        let killed = Instant::now();
        let pids: Vec<String> = processes_with(&sleep).iter().map(u32::to_string).collect();
        server.execute(&format!("kill -KILL {}", pids.join(" "))).check("", "", 0);
        ran.join().unwrap().check("", "", -9);
        assert!(killed.elapsed() < Duration::from_secs(3), "{:?}", killed.elapsed());
    });
    assert!(eventually(|| zombies_of(server.init_pid()) + zombies_of(server.pid()) == 0));
}

#[test]
fn signal_storm_changes_no_response() {
    // P1-11
    let server = Server::start();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnDrop(stop);
        let pids = format!("{} {}", server.init_pid(), server.pid());
        let storm = format!(
            "i=0; while [ $i -lt 500 ]; do \
             kill -CHLD {pids}; kill -WINCH {pids}; kill -USR1 {pids}; i=$((i+1)); done"
        );
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                assert!(std::process::Command::new("sh").args(["-c", &storm]).status().unwrap().success());
            }
        });
        let runs: Vec<_> = (0..8)
            .map(|code| {
                let server = &server;
                scope.spawn(move || {
                    let command = format!("sh -c 'sleep 0.02; echo {code}; exit {code}'");
                    (0..25).for_each(|_| server.execute(&command).check(&format!("{code}\n"), "", code));
                })
            })
            .collect();
        runs.into_iter().for_each(|run| run.join().unwrap());
    });
}
