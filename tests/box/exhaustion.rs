//! Commands that exhaust memory, processes, processors or output. The server survives, health checks respond
//! meanwhile, and afterwards the server uses no more than before.

use crate::container::{Container, alone};
use crate::gvisor::{Property, lacks};
use kit::eventually;
use serde_json::json;
use std::thread;
use std::time::Duration;

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn out_of_memory_kills_the_command_and_not_the_server() {
    // XC-09, RT-08
    if lacks(Property::MemoryLimit) {
        return;
    }
    let _alone = alone();
    let container = Container::start();
    let server = container.server().pid;
    let score = container.oom_score();
    let commands: i32 = container.probe("show /proc/self/oom_score_adj", 0).trim().parse().unwrap();
    assert!(commands > score, "{commands} {score}");
    for _ in 0..3 {
        container.probe("hog 1000", -9);
        container.check_health();
        container.probe("exit 7", 7);
    }
    // Small ones exhaust it too, once enough of them run at the same time.
    let hog = || container.execute("/probe hog 60").exit_code();
    let exhaust = || {
        let codes = container.healthy_during(&[&hog as &(dyn Fn() -> i64 + Sync); 8]);
        assert!(codes.iter().all(|code| [0, -9].contains(code)), "{codes:?}");
        codes.contains(&-9)
    };
    assert!((0..10).any(|_| exhaust()));
    assert_eq!(container.server().pid, server);
    container.check_no_zombies();
}

/// The response is not parsed: 8 MiB of NULs are 48 MiB of JSON.
#[track_caller]
fn check_truncated(container: &Container, arguments: &str) {
    let mut client = container.connect();
    client.stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    client.send_command(&format!("/probe {arguments}"));
    let response = client.response();
    let end = &response.body[response.body.len() - 60..];
    let end = String::from_utf8_lossy(end);
    assert!(end.contains(r#""exit_code":0"#) && end.contains(r#""truncated":true"#), "{arguments}: {end}");
    assert!(response.body.len() > 8 << 20, "{arguments}: {}", response.body.len());
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn eight_floods_of_2_gb_fit_in_the_memory_limit() {
    // OU-01
    let _alone = alone();
    let container = Container::start();
    container.probe("exit 0", 0);
    let before = container.usage();
    let server = container.server().pid;
    let flood = || check_truncated(&container, "flood 2000000000");
    container.healthy_during(&[&flood as &(dyn Fn() + Sync); 8]);
    assert_eq!(container.server().pid, server);
    println!("peak {} KiB", container.peak_kib());
    container.check_usage(&before, 4 << 10);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn memory_is_freed_after_large_responses() {
    // OU-15, RT-03
    let container = Container::start();
    container.probe("exit 0", 0);
    let before = container.usage();
    let mut after_five = None;
    for round in 1..=20 {
        check_truncated(&container, "nul 30000000");
        if round == 5 {
            after_five = Some(container.usage());
        }
    }
    container.check_usage(&after_five.unwrap(), 1 << 10);
    container.check_usage(&before, 4 << 10);
    let peak = container.peak_kib();
    assert!(peak < 32 << 10, "{peak} KiB");
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn endless_flood_times_out() {
    // TO-17
    let _alone = alone();
    let container = Container::start();
    let flood = || container.probe_times_out("flood 1000000000000", Duration::from_secs(2));
    container.healthy_during(&[&flood as &(dyn Fn() + Sync); 2]);
    let peak = container.peak_kib();
    assert!(peak < 64 << 10, "{peak} KiB");
    container.check_no_zombies();
}

#[track_caller]
fn check_bomb(arguments: &str) {
    const PIDS: usize = 128;
    if lacks(Property::ProcessLimit) {
        return;
    }
    let _alone = alone();
    let container = Container::with(&[&format!("--pids-limit={PIDS}")], &[]);
    container.probe("exit 7", 7);
    let before = container.usage();
    let timeout = Duration::from_secs(4);
    thread::scope(|scope| {
        let container = &container;
        let bomb = scope.spawn(move || container.probe_times_out(arguments, timeout));
        // Threads count towards the limit, so the number of processes stays below it.
        assert!(eventually(|| container.processes_with("bomb").len() > PIDS - 20));
        let mut refused = 0;
        while !bomb.is_finished() {
            container.check_health();
            let response = container.execute_text(r#"{"command":"/probe exit 7"}"#);
            // The last remaining worker may still be closing the previous connection.
            if response.status == 503 {
                assert_eq!(response.header("retry-after"), Some("1"));
                continue;
            }
            assert_eq!(response.status, 200);
            let json = response.json();
            if json["exit_code"] != 7 {
                let refusal = "Failed to execute command: [Errno 11] Resource temporarily unavailable";
                assert_eq!(json, json!({ "stdout": "", "stderr": refusal, "exit_code": 1 }));
                refused += 1;
            }
        }
        bomb.join().unwrap();
        assert!(refused > 0);
    });
    // All are killed before the response is sent, so there is nothing to wait for.
    let remaining =
        container.processes_with("bomb").into_iter().filter(|process| !process.is_zombie()).count();
    assert_eq!(remaining, 0, "{arguments}");
    container.check_no_zombies();
    for _ in 0..50 {
        container.probe("exit 7", 7);
    }
    container.check_usage(&before, 2 << 10);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn fork_bomb_is_killed_and_health_responds() {
    check_bomb("bomb");
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn escaping_fork_bomb_is_killed_and_health_responds() {
    check_bomb("bomb escape");
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn health_responds_while_all_cpus_are_busy() {
    let _alone = alone();
    let container = Container::start();
    let burn = || drop(container.probe("burn 16 3", 0));
    container.healthy_during(&[&burn as &(dyn Fn() + Sync); 4]);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn five_thousand_connections_and_commands_leak_nothing() {
    // CN-17, shortened
    let container = Container::start();
    let run = |times: usize| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..times / 4 {
                        container.execute("/probe exit 7").check("", "", 7);
                    }
                });
            }
        });
    };
    run(500);
    let before = container.usage();
    run(4500);
    container.check_no_zombies();
    container.check_usage(&before, 512);
}
