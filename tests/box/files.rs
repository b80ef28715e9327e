//! Files when memory or disk is scarce, and when only the base directory is writable.

use crate::container::{Container, alone};
use std::io::Read;
use std::thread;
use std::time::Duration;

const GIB: u64 = 1 << 30;
const PIECE: usize = 1 << 20;

/// A new volume. The engine gives it the owner of `/app` in the image.
const VOLUME: [&str; 2] = ["--mount", "type=volume,dst=/app"];
const SMALL: [&str; 2] = ["--memory=64m", "--memory-swap=64m"];

/// The server's peak memory is a fraction of the size of the files.
#[track_caller]
fn check_peak(container: &Container) {
    let peak = container.peak_kib();
    println!("peak {peak} KiB");
    assert!(peak < 16 << 10, "{peak} KiB");
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn one_gib_upload_fits_in_64_mib_of_memory() {
    // UP-15
    let _alone = alone();
    let container = Container::with_app(&VOLUME, &SMALL, &[]);
    let head = "--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"deep/er/big\"\r\n\r\n";
    let end = "\r\n--BB--\r\n";
    let length = head.len() as u64 + GIB + end.len() as u64;
    let upload = || {
        let mut client = container.connect();
        client.stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.send(
            format!(
                "POST /upload HTTP/1.1\r\nHost: test\r\nContent-Type: multipart/form-data; boundary=BB\r\n\
                 Content-Length: {length}\r\n\r\n{head}"
            )
            .as_bytes(),
        );
        let piece = vec![b'\r'; PIECE];
        for _ in 0..GIB / PIECE as u64 {
            client.send(&piece);
        }
        client.send(end.as_bytes());
        assert_eq!(client.response().status, 200);
    };
    container.healthy_during(&[&upload as &(dyn Fn() + Sync)]);
    let listing = container.get("/list/deep%2Fer").json();
    assert_eq!((&listing[0]["name"], &listing[0]["size"]), (&"big".into(), &GIB.into()), "{listing}");
    assert_eq!(listing.as_array().unwrap().len(), 1);
    check_peak(&container);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn two_gib_download_fits_in_64_mib_of_memory() {
    // DL-05
    let _alone = alone();
    let container = Container::with_app(&VOLUME, &SMALL, &[]);
    container.probe(&format!("sparse big {}", 2 * GIB), 0);
    let download = || {
        let mut client = container.connect();
        client.send(b"GET /download/big HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let mut piece = vec![0; PIECE];
        let mut received = 0;
        loop {
            let count = client.stream.read(&mut piece).unwrap();
            if count == 0 {
                return received;
            }
            received += count as u64;
        }
    };
    let received = container.healthy_during(&[&download as &(dyn Fn() -> u64 + Sync)])[0];
    assert!((2 * GIB..2 * GIB + 1024).contains(&received), "{received}");
    check_peak(&container);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn full_disk_gets_507_and_keeps_the_old_file() {
    // UP-17
    let tmpfs = ["--tmpfs", "/app:rw,exec,size=8m,uid=1000,gid=1000,mode=0755"];
    let container = Container::with_app(&tmpfs, &[], &[]);
    assert_eq!(container.upload("kept", b"old").status, 200);
    let too_large = vec![b'x'; 20 << 20];
    for name in ["kept", "new", "deep/er/new"] {
        let response = container.upload(name, &too_large);
        assert_eq!(response.status, 507, "{response:?}");
        let message = response.json()["message"].as_str().unwrap().to_owned();
        let expected = "File upload failed: [Errno 28] No space left on device";
        assert!(message.starts_with(expected), "{message}");
    }
    assert_eq!(container.get("/download/kept").body, b"old");
    let listing = container.get("/list").json();
    let names: Vec<_> = listing.as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert!(names.iter().all(|name| ["kept", "deep"].contains(&name.as_str().unwrap())), "{names:?}");
    // The space of the failed uploads is free again.
    assert_eq!(container.upload("large", &vec![b'x'; 6 << 20]).status, 200);
    container.probe("exit 7", 7);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn uploads_write_only_below_the_base_dir() {
    // UP-18
    let container = Container::start();
    let ran = container.execute("/probe sparse /tmp 0");
    assert_eq!(ran.exit_code(), 1, "the root is writable: {ran:?}");
    thread::scope(|scope| {
        for number in 0..8 {
            let container = &container;
            scope.spawn(move || {
                let content = vec![b'x'; 2 << 20];
                assert_eq!(container.upload(&format!("a/{number}"), &content).status, 200);
                assert_eq!(container.get(&format!("/download/a/{number}")).body, content);
            });
        }
    });
}
