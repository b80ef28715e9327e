//! Commands that take all there is: memory, processes, processors, output. The server lives, answers health meanwhile, and
//! is afterwards as it was.

use crate::container::{Container, alone};
use crate::harness::eventually;
use serde_json::json;
use std::thread;
use std::time::Duration;

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_command_that_takes_all_memory_dies_and_the_server_does_not() {
    // XC-09, RT-08
    let _alone = alone();
    let container = Container::start();
    let server = container.server();
    let score: i32 = server.read("oom_score_adj").trim().parse().unwrap();
    let commands: i32 = container.probe("show /proc/self/oom_score_adj", 0).trim().parse().unwrap();
    assert!(commands > score, "{commands} {score}");
    for _ in 0..3 {
        container.probe("hog 1000", -9);
        container.check_health();
        container.probe("exit 7", 7);
    }
    // Many small ones do the same, as soon as enough of them are there at the same moment.
    let hog = || container.execute("/probe hog 60").exit_code();
    let is_short = || {
        let codes = container.healthy_during(&[&hog as &(dyn Fn() -> i64 + Sync); 8]);
        assert!(codes.iter().all(|code| [0, -9].contains(code)), "{codes:?}");
        codes.contains(&-9)
    };
    assert!((0..10).any(|_| is_short()));
    assert_eq!(container.server().inner_pid(), server.inner_pid());
    container.check_no_zombies();
}

/// `POST /execute` whose answer is not parsed: 8 MiB of NULs are 48 MiB of JSON.
#[track_caller]
fn check_truncated(container: &Container, words: &str) {
    let mut client = container.connect();
    client.stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let body = json!({ "command": format!("/probe {words}") }).to_string();
    client.send_request("POST", "/execute", &[("Content-Type", "application/json")], body.as_bytes());
    let answer = client.answer();
    let end = &answer.body[answer.body.len() - 60..];
    let end = String::from_utf8_lossy(end);
    assert!(end.contains(r#""exit_code":0"#) && end.contains(r#""truncated":true"#), "{words}: {end}");
    assert!(answer.body.len() > 8 << 20, "{words}: {}", answer.body.len());
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn eight_floods_of_two_gigabytes_at_once_fit_into_the_memory_limit() {
    // OU-01
    let _alone = alone();
    let container = Container::start();
    container.probe("exit 0", 0);
    let before = container.cost();
    let server = container.server().inner_pid();
    let flood = || check_truncated(&container, "flood 2000000000");
    container.healthy_during(&[&flood as &(dyn Fn() + Sync); 8]);
    assert_eq!(container.server().inner_pid(), server);
    println!("peak {} KiB", container.server().kib("VmHWM:"));
    container.check_cost(&before, 4 << 10);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn memory_comes_back_after_large_answers_that_grow_when_they_are_written() {
    // OU-15, RT-03
    let container = Container::start();
    container.probe("exit 0", 0);
    let before = container.cost();
    let mut after_five = None;
    for round in 1..=20 {
        check_truncated(&container, "nul 30000000");
        if round == 5 {
            after_five = Some(container.cost());
        }
    }
    container.check_cost(&after_five.unwrap(), 1 << 10);
    container.check_cost(&before, 4 << 10);
    let peak = container.server().kib("VmHWM:");
    assert!(peak < 32 << 10, "{peak} KiB");
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_flood_without_end_meets_its_deadline() {
    // TO-17
    let _alone = alone();
    let container = Container::start();
    let flood = || container.probe_times_out("flood 1000000000000", Duration::from_secs(2));
    container.healthy_during(&[&flood as &(dyn Fn() + Sync); 2]);
    let peak = container.server().kib("VmHWM:");
    assert!(peak < 64 << 10, "{peak} KiB");
    container.check_no_zombies();
}

#[track_caller]
fn check_bomb(words: &str) {
    const PIDS: usize = 128;
    let _alone = alone();
    let container = Container::with(&[&format!("--pids-limit={PIDS}")], &[]);
    container.probe("exit 7", 7);
    let before = container.cost();
    let timeout = Duration::from_secs(4);
    thread::scope(|scope| {
        let container = &container;
        let bomb = scope.spawn(move || container.probe_times_out(words, timeout));
        // Threads count too, so there are never as many processes.
        assert!(eventually(|| container.processes_with("bomb").len() > PIDS - 20));
        let mut refused = 0;
        while !bomb.is_finished() {
            container.check_health();
            let answer = container.execute_text(r#"{"command":"/probe exit 7"}"#);
            // The only worker that is left may still be closing the connection before.
            if answer.status == 503 {
                assert_eq!(answer.header("retry-after"), Some("1"));
                continue;
            }
            assert_eq!(answer.status, 200);
            let json = answer.json();
            if json["exit_code"] != 7 {
                let refusal = "Failed to execute command: [Errno 11] Resource temporarily unavailable";
                assert_eq!(json, json!({ "stdout": "", "stderr": refusal, "exit_code": 1 }));
                refused += 1;
            }
        }
        bomb.join().unwrap();
        assert!(refused > 0);
    });
    // At once, not in a while.
    let left = container.processes_with("bomb").into_iter().filter(|process| !process.is_dead()).count();
    assert_eq!(left, 0, "{words}");
    container.check_no_zombies();
    for _ in 0..50 {
        container.probe("exit 7", 7);
    }
    container.check_cost(&before, 2 << 10);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_fork_bomb_leaves_health_and_nothing_behind() {
    check_bomb("bomb");
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn a_fork_bomb_of_which_each_part_escapes_leaves_health_and_nothing_behind() {
    check_bomb("bomb escape");
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn health_is_answered_while_all_processors_are_busy() {
    let _alone = alone();
    let container = Container::start();
    let burn = || drop(container.probe("burn 16 3", 0));
    container.healthy_during(&[&burn as &(dyn Fn() + Sync); 4]);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn five_thousand_connections_with_a_command_each_leave_nothing() {
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
    let before = container.cost();
    run(4500);
    container.check_no_zombies();
    container.check_cost(&before, 512);
}
