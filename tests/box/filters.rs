//! Kernels without some system calls, and filters that refuse them: the same results through fallbacks.

use crate::container::Container;
use crate::gvisor::{MISSING_CALLS, Property, lacks};
use kit::{TempDir, eventually};
use serde_json::json;
use std::fs;
use std::thread;
use std::time::Duration;

const ENOSYS: i32 = 38;
const EPERM: i32 = 1;
const EINVAL: i32 = 22;

/// Name and number on x86-64.
const OPTIONAL: [(&str, i64); 6] = [
    ("openat2", 437),
    ("pidfd_open", 434),
    ("pidfd_send_signal", 424),
    ("close_range", 436),
    ("statx", 332),
    ("clone3", 435),
];

/// A container in which these calls, and no others, fail with this error.
fn filtered(profiles: &TempDir, calls: &[(&str, i64)], errno: i32) -> Container {
    let names: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
    let profile = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": &names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno }],
    });
    let path = profiles.path().join(format!("{}-{errno}.json", names.concat()));
    fs::write(&path, profile.to_string()).unwrap();
    let container = Container::with(&[&format!("--security-opt=seccomp={}", path.display())], &[]);
    check_fails(&container, calls, errno);
    container
}

#[track_caller]
fn check_fails(container: &Container, calls: &[(&str, i64)], errno: i32) {
    for (name, number) in calls {
        let observed = container.probe(&format!("errno {number}"), 0);
        assert_eq!(observed, errno.to_string(), "{name}");
    }
}

/// Exercises everything that has a fallback.
#[track_caller]
fn check_round(container: &Container) {
    check_commands(container);
    check_confinement(container);
}

#[track_caller]
fn check_commands(container: &Container) {
    for _ in 0..20 {
        container.probe("exit 7", 7);
    }
    container.probe("signal 15 0", -15);
    container.probe("background 1 0.5 3", 3);
    container.execute("nosuchcmd").check_not_run("[Errno 2] No such file or directory: 'nosuchcmd'");
    container.probe_times_out("sleep 30", Duration::from_millis(300));
    container.probe_times_out("escape 30", Duration::from_millis(700));
    assert!(eventually(|| container.processes_with("exe sleep").is_empty()), "{:?}", container.processes());
    container.check_no_zombies();
    assert_eq!(container.processes().len(), 2);
    // A command inherits no descriptors except 0, 1 and 2.
    container.probe("show /proc/self/fdinfo/2", 0);
    let ran = container.execute("/probe show /proc/self/fdinfo/3");
    assert!(ran.stderr().contains("NotFound"), "{ran:?}");
}

#[track_caller]
fn check_confinement(container: &Container) {
    // CF-07
    assert_eq!(container.upload("a/b/file", b"inside").status, 200);
    for (target, name) in [
        ("a/b", "relative"),
        ("/app/a/b/file", "absolute"),
        ("..", "a/b/back"),
        ("/etc", "out"),
        ("../etc", "out-relative"),
        ("/proc/self/root", "magic"),
        ("/proc/1/cwd", "magic-cwd"),
        ("loop", "loop"),
        ("nowhere", "dangling"),
    ] {
        container.probe(&format!("link {target} {name}"), 0);
    }
    for (path, status) in [
        ("a/b/file", 200),
        ("a%2Fb%2Ffile", 200),
        ("relative/file", 200),
        ("absolute", 200),
        ("relative/back/b/file", 200),
        ("a/../a/b/file", 200),
        ("../etc/hosts", 403),
        ("..%2Fetc%2Fhosts", 403),
        ("a/b/../../../etc/hosts", 403),
        ("out/hosts", 403),
        ("out-relative/hosts", 403),
        ("magic/etc/hosts", 403),
        ("magic/app/a/b/file", 403),
        ("magic-cwd/a/b/file", 403),
        ("loop", 404),
        ("dangling", 404),
        ("a/b", 404),
        ("a/b/file/x", 404),
        ("missing", 404),
    ] {
        let response = container.get(&format!("/download/{path}"));
        assert_eq!(response.status, status, "{path}: {response:?}");
        if status == 200 {
            assert_eq!(response.body, b"inside", "{path}");
        }
    }
    for (name, status) in [("relative/new", 200), ("out/new", 403), ("../new", 403), ("magic/app/new", 403)] {
        assert_eq!(container.upload(name, b"new").status, status, "{name}");
    }
    assert_eq!(container.get("/download/a/b/new").body, b"new");
    assert_eq!(container.get("/list/out").status, 403);
    assert_eq!(container.get("/list/relative").json().as_array().unwrap().len(), 3);
    assert_eq!(container.get("/exists/relative/file").json()["exists"], true);
    assert_eq!(container.get("/exists/out/hosts").status, 403);
}

#[ignore = "needs Docker; .ci/run runs it"]
#[test]
fn missing_or_refused_system_calls_change_no_result() {
    // RT-05
    if lacks(Property::Seccomp) {
        let container = Container::start();
        check_fails(&container, &MISSING_CALLS, ENOSYS);
        return check_round(&container);
    }
    let profiles = TempDir::new();
    let mut rows: Vec<(&[(&str, i64)], i32)> = vec![(&[], ENOSYS), (&OPTIONAL[..1], EINVAL)];
    for errno in [ENOSYS, EPERM] {
        rows.extend(OPTIONAL.iter().map(|call| (std::slice::from_ref(call), errno)));
        rows.push((&OPTIONAL, errno));
    }
    // Four containers at a time.
    for rows in rows.chunks(4) {
        thread::scope(|scope| {
            for (calls, errno) in rows {
                let profiles = &profiles;
                scope.spawn(move || {
                    println!("{calls:?} {errno}");
                    check_round(&filtered(profiles, calls, *errno));
                });
            }
        });
    }
}
