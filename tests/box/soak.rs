//! All kinds of commands and requests at the same time. Afterwards the server uses no more than before.

use crate::container::{Container, alone};
use kit::{Client, eventually};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The default of `SANDBOX_BOX_SOAK_SECONDS`.
const SOAK: Duration = Duration::from_secs(60);
const CLIENTS: u64 = 6;

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn soak_of_all_requests_leaks_nothing() {
    let _alone = alone();
    let seconds = std::env::var("SANDBOX_BOX_SOAK_SECONDS").ok().map(|text| text.parse().unwrap());
    let container = Container::start();
    container.probe("exit 7", 7);
    let core_threads = container.usage().threads;
    soak(&container, Duration::from_secs(5));
    // Temporary workers end when they have been idle for 10 s.
    assert!(eventually(|| container.usage().threads <= core_threads), "{:?}", container.usage());
    let before = container.usage();
    let rounds = soak(&container, seconds.map_or(SOAK, Duration::from_secs));
    container.check_no_zombies();
    println!("{rounds} rounds; peak {} KiB", container.peak_kib());
    container.check_usage(&before, 1 << 10);
    container.probe("exit 7", 7);
    assert!(!container.log().contains(": warn: "), "{}", container.log());
}

/// Returns the number of requests.
fn soak(container: &Container, time: Duration) -> u64 {
    let until = Instant::now() + time;
    let count = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let count = &count;
            scope.spawn(move || {
                let mut number = client;
                while Instant::now() < until {
                    step(container, client, number);
                    number += 1;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    count.into_inner()
}

/// Sends the request that this number selects.
fn step(container: &Container, client: u64, number: u64) {
    let own = format!("soak/{client}/{}", number % 3);
    match number % 16 {
        0 => drop(container.probe("orphans 5 0.05 3", 3)),
        1 => container.execute("/probe background 2 0.8 4").check("started\n", "", 4),
        2 => assert_eq!(container.execute("/probe flood 40000000").json["truncated"], true),
        3 => container.probe_times_out("escape 30", Duration::from_millis(200)),
        4 => container.probe_times_out("flood 1000000000000", Duration::from_millis(200)),
        5 => disconnected(container, "/probe escape 30"),
        6 => disconnected(container, "/probe flood 1000000000000"),
        7 => half_closed(container),
        8 => assert_eq!(container.upload(&own, &vec![b'x'; 300_000]).status, 200),
        9 => {
            let status = container.get(&format!("/download/{own}")).status;
            assert!([200, 404].contains(&status), "{status}");
        }
        10 => {
            assert_eq!(container.upload(&own, b"").status, 200);
            assert_eq!(container.get("/list/soak").status, 200);
        }
        11 => {
            container.execute("nosuchcmd").check_not_run("[Errno 2] No such file or directory: 'nosuchcmd'")
        }
        12 => assert_eq!(container.execute_text("{").status, 422),
        13 => unfinished_upload(container, &own),
        14 => assert_eq!(container.probe("flood 100000", 0).len(), 100_000),
        _ => {
            container.check_health();
            container.probe("exit 7", 7);
        }
    }
}

fn send(container: &Container, command: &str) -> Client {
    let mut client = container.connect();
    client.send_command(command);
    client
}

/// A client that disconnects before the response.
fn disconnected(container: &Container, command: &str) {
    let client = send(container, command);
    // Usually the command runs by then. No check depends on that.
    thread::sleep(Duration::from_millis(50));
    drop(client);
}

fn half_closed(container: &Container) {
    let mut client = send(container, "/probe sleep 0.1");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.response().json()["exit_code"], 0);
}

fn unfinished_upload(container: &Container, name: &str) {
    let mut client = container.connect();
    client.send(
        format!(
            "POST /upload HTTP/1.1\r\nHost: test\r\nContent-Type: multipart/form-data; boundary=BB\r\n\
             Content-Length: 1000000\r\n\r\n--BB\r\nContent-Disposition: form-data; name=\"file\"; \
             filename=\"{name}\"\r\n\r\n{}",
            "x".repeat(100_000)
        )
        .as_bytes(),
    );
}
