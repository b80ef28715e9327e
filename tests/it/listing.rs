//! `GET /list/{path}` and `GET /exists/{path}`.

use kit::{Server, StopOnDrop, TempDir};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn server_with_directory() -> Server {
    let server = Server::start();
    fs::create_dir(server.base().join("d")).unwrap();
    server
}

/// Returns the entries of `/list/d`.
#[track_caller]
fn entries(server: &Server) -> Vec<Value> {
    let response = server.get("/list/d");
    assert_eq!(response.status, 200, "{response:?}");
    response.json().as_array().unwrap().clone()
}

fn names(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[track_caller]
fn entry<'a>(entries: &'a [Value], name: &str) -> &'a Value {
    entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("{name}: {entries:?}"))
}

#[test]
fn entry_has_name_size_type_and_mod_time() {
    let server = server_with_directory();
    fs::write(server.base().join("d/f"), "0123456789").unwrap();
    fs::write(server.base().join("d/.hidden"), "").unwrap();
    fs::create_dir(server.base().join("d/sub")).unwrap();
    let time = UNIX_EPOCH + Duration::from_millis(1_234_567_890_500);
    fs::File::options().write(true).open(server.base().join("d/f")).unwrap().set_modified(time).unwrap();
    let listed = entries(&server);
    assert_eq!(names(&listed), [".hidden", "f", "sub"]);
    assert_eq!(listed[1], json!({ "name": "f", "size": 10, "type": "file", "mod_time": 1_234_567_890.5 }));
    assert_eq!((&listed[0]["size"], &listed[2]["type"]), (&json!(0), &json!("directory")));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - listed[2]["mod_time"].as_f64().unwrap()).abs() < 60.0, "{listed:?}");
    for entry in &listed {
        assert!(entry["mod_time"].is_f64() && entry["size"].is_u64(), "{entry}");
        assert_eq!(entry.as_object().unwrap().len(), 4, "{entry}");
    }
    let response = server.get("/list/d");
    assert_eq!(response.header("content-type"), Some("application/json"));
    for target in ["/list/d/", "/list//d", "/list/%2Fd", "/list/d/.", "/list/d%2Fsub%2F.."] {
        assert_eq!(server.get(target).json(), response.json(), "{target}");
    }
}

#[test]
fn listing_a_non_directory_is_404() {
    let server = server_with_directory();
    let base = server.base();
    fs::write(base.join("f"), "").unwrap();
    symlink("none", base.join("dangling")).unwrap();
    symlink("loop", base.join("loop")).unwrap();
    assert!(Command::new("mkfifo").arg(base.join("fifo")).status().unwrap().success());
    for path in
        ["f", "f/", "f/x", "none", "none/x", "dangling", "loop", "fifo", &"n".repeat(300), &"d/".repeat(3000)]
    {
        let response = server.get(&format!("/list/{path}"));
        response.check(404, &json!({ "message": "Path is not a directory" }));
    }
}

#[test]
fn dangling_symlinks_do_not_fail_the_listing() {
    // LI-01
    let server = server_with_directory();
    let d = server.base().join("d");
    fs::write(d.join("ok"), "12345").unwrap();
    fs::create_dir(d.join("sub")).unwrap();
    for (target, name) in [
        ("/nonexist", "dangling"),
        ("loop", "loop"),
        ("two", "one"),
        ("one", "two"),
        ("ok", "to_file"),
        ("sub", "to_directory"),
        ("ok/x", "through_file"),
        ("../..", "up"),
    ] {
        symlink(target, d.join(name)).unwrap();
    }
    let listed = entries(&server);
    assert_eq!(
        names(&listed),
        ["dangling", "loop", "ok", "one", "sub", "through_file", "to_directory", "to_file", "two", "up"]
    );
    let kind = |name: &str| entry(&listed, name)["type"].as_str().unwrap().to_owned();
    for name in ["dangling", "loop", "one", "two", "through_file", "to_file", "ok", "up"] {
        assert_eq!(kind(name), "file", "{name}");
    }
    assert_eq!((kind("to_directory").as_str(), kind("sub").as_str()), ("directory", "directory"));
    assert_eq!(entry(&listed, "to_file")["size"], 5);
    assert_eq!(entry(&listed, "dangling")["size"], "/nonexist".len());
}

#[test]
fn non_utf8_names_do_not_fail_the_listing() {
    // LI-02
    let server = server_with_directory();
    let d = server.base().join("d");
    for name in [&b"caf\xe9"[..], b"ok", b"\xff\xfe", "é分😀".as_bytes(), b"\xed\xa0\x80"] {
        fs::write(d.join(OsStr::from_bytes(name)), "").unwrap();
    }
    let listed = entries(&server);
    let names = names(&listed);
    for name in ["ok", "caf\u{fffd}", "é分😀"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(names.len(), 5);
}

#[test]
fn names_are_returned_unchanged() {
    // LI-08
    let server = server_with_directory();
    let all = [
        "new\nline",
        "q\"q",
        "b\\b",
        "e\u{1b}[2J",
        "tab\t",
        "cr\r",
        "\u{7f}",
        "\u{1}",
        "<script>",
        "a&b",
        "\u{2028}",
        "..a",
        "-rf",
        " ",
        "\u{85}",
        "'",
        "${x}",
        "%41",
        "\u{feff}x",
        "\\u0041",
    ];
    for name in all {
        fs::write(server.base().join("d").join(name), "").unwrap();
    }
    let listed = entries(&server);
    let mut expected = all.to_vec();
    expected.sort_unstable();
    assert_eq!(names(&listed), expected);
}

#[test]
fn symlink_out_reveals_nothing_about_its_target() {
    // LI-07
    let outside = TempDir::new();
    let secret = outside.path().join("f");
    fs::write(&secret, vec![b'x'; 123_456]).unwrap();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000);
    fs::File::options().write(true).open(&secret).unwrap().set_modified(long_ago).unwrap();
    let server = server_with_directory();
    let d = server.base().join("d");
    symlink(&secret, d.join("link_out")).unwrap();
    symlink(outside.path(), d.join("dirlink_out")).unwrap();
    symlink("link_out", d.join("chain")).unwrap();
    symlink("/proc/self/exe", d.join("magic")).unwrap();
    symlink("/proc/self/cwd", d.join("magic_directory")).unwrap();
    let listed = entries(&server);
    assert_eq!(listed.len(), 5);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for name in ["link_out", "dirlink_out", "chain", "magic", "magic_directory"] {
        let shown = entry(&listed, name);
        let target = fs::read_link(d.join(name)).unwrap();
        assert_eq!(shown["type"], "file", "{shown}");
        assert_eq!(shown["size"], target.as_os_str().len(), "{shown}");
        assert!((now - shown["mod_time"].as_f64().unwrap()).abs() < 60.0, "{shown}");
    }
}

#[test]
fn special_files_are_listed_as_files() {
    let server = server_with_directory();
    let d = server.base().join("d");
    assert!(Command::new("mkfifo").arg(d.join("fifo")).status().unwrap().success());
    let _socket = UnixListener::bind(d.join("socket")).unwrap();
    let listed = entries(&server);
    assert_eq!(names(&listed), ["fifo", "socket"]);
    assert!(listed.iter().all(|entry| entry["type"] == "file"), "{listed:?}");
}

#[test]
fn concurrent_changes_do_not_fail_the_listing() {
    // LI-06
    let server = server_with_directory();
    let d = server.base().join("d");
    fs::write(d.join("stays"), "").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                (0..20).for_each(|number| fs::write(d.join(number.to_string()), "").unwrap());
                (0..20).for_each(|number| fs::remove_file(d.join(number.to_string())).unwrap());
            }
        });
        let mut client = server.connect();
        for _ in 0..1000 {
            client.send_request("GET", "/list/d", &[], b"");
            let response = client.response();
            assert_eq!(response.status, 200, "{response:?}");
            let listed = response.json();
            entry(listed.as_array().unwrap(), "stays");
        }
    });
}

#[test]
fn large_directory_is_listed_completely() {
    let server = server_with_directory();
    for number in 0..5000 {
        fs::write(server.base().join(format!("d/{number:04}-{}", "n".repeat(60))), "").unwrap();
    }
    let listed = entries(&server);
    assert_eq!(listed.len(), 5000);
    assert!(names(&listed).is_sorted());
}

#[test]
fn exists_handles_unusual_paths() {
    // EXI-02
    let server = server_with_directory();
    let base = server.base();
    fs::write(base.join("f.txt"), "").unwrap();
    symlink("none", base.join("dangling")).unwrap();
    symlink("loop", base.join("loop")).unwrap();
    symlink("f.txt", base.join("link")).unwrap();
    assert!(Command::new("mkfifo").arg(base.join("fifo")).status().unwrap().success());
    let long = "n".repeat(300);
    let longest = "n".repeat(255);
    let deep = "a/".repeat(3000);
    for (path, exists) in [
        ("f.txt/x", false),
        ("f.txt/", false),
        (long.as_str(), false),
        (longest.as_str(), false),
        (deep.as_str(), false),
        ("d/../f.txt", true),
        ("none/../f.txt", false),
        ("dangling", false),
        ("loop", false),
        ("link", true),
        ("fifo", true),
    ] {
        let expected = json!({ "path": path, "exists": exists });
        server.get(&format!("/exists/{path}")).check(200, &expected);
        server.get(&format!("/exists/{}", path.replace('/', "%2F"))).check(200, &expected);
    }
}
