//! Confinement: no path reads, writes or reveals anything outside the base directory, on any endpoint that
//! takes a path, with plain and with encoded slashes.

use kit::{Response, Server, StopOnDrop, TempDir, binary};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A base directory with symlinks that lead inside and outside, and a directory outside of it.
struct Fixture {
    server: Server,
    outside: TempDir,
}

/// What a path resolves to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Resolution {
    /// A file with this content.
    File(&'static str),
    Directory,
    /// Does not exist, but would be inside.
    Missing,
    /// Outside the base directory.
    Denied,
}
use Resolution::{Denied, Directory, File, Missing};

impl Fixture {
    fn new() -> Self {
        let outside = TempDir::new();
        fs::write(outside.path().join("f"), "outside").unwrap();
        fs::create_dir(outside.path().join("sub")).unwrap();
        let server = Server::start();
        let (base, out) = (server.base().to_owned(), outside.path());
        let file = |name: &str, content: &str| fs::write(base.join(name), content).unwrap();
        let link = |name: &str, to: &Path| symlink(to, base.join(name)).unwrap();
        fs::create_dir_all(base.join("d/e/f")).unwrap();
        file("f.txt", "0123456789");
        file("d/x", "d/x");
        file("d/e/x", "d/e/x");
        file("x", "x");
        // Absolute targets.
        link("link_out", &out.join("f"));
        link("dirlink_out", out);
        link("link_in", &base.join("f.txt"));
        link("dirlink_in", &base.join("d"));
        link("link_root", Path::new("/"));
        link("link_proc", Path::new("/proc/self/root"));
        link("link_fd", Path::new("/proc/self/cwd"));
        // Relative targets.
        let outside_name = out.file_name().unwrap().to_str().unwrap();
        link("link_out_relative", &PathBuf::from(format!("../{outside_name}/f")));
        link("link_up", Path::new(".."));
        link("d/link_up_up", Path::new("../.."));
        link("link_in_relative", Path::new("d/../f.txt"));
        link("dirlink_deep", Path::new("d/e/f"));
        link("d/back", Path::new("../d/e"));
        link("chain", Path::new("chain2"));
        link("chain2", Path::new("link_out"));
        // Leaves the base directory and re-enters it: lexically inside, but not step by step.
        let base_name = base.file_name().unwrap().to_str().unwrap();
        link("out_and_in", &PathBuf::from(format!("../{base_name}/f.txt")));
        link("loop", Path::new("loop"));
        link("dangling", Path::new("none"));
        link("dangling_out", &out.join("none"));
        Self { server, outside }
    }

    fn base_name(&self) -> &str {
        self.server.base().file_name().unwrap().to_str().unwrap()
    }

    fn outside_name(&self) -> &str {
        self.outside.path().file_name().unwrap().to_str().unwrap()
    }

    /// Checks the path on every endpoint, in every spelling.
    #[track_caller]
    fn check(&self, path: &str, expected: Resolution) {
        for path in spellings(path) {
            self.check_download(&path, expected);
            self.check_list(&path, expected);
            self.check_exists(&path, expected);
        }
        self.check_upload(path, expected);
        assert_eq!(fs::read_to_string(self.outside.path().join("f")).unwrap(), "outside", "{path}");
        let names: Vec<_> = fs::read_dir(self.outside.path()).unwrap().collect();
        assert_eq!(names.len(), 2, "{path}: {names:?}");
    }

    #[track_caller]
    fn check_download(&self, path: &str, expected: Resolution) {
        let response = self.server.get(&format!("/download/{path}"));
        match expected {
            File(content) => {
                assert_eq!((response.status, response.body.as_slice()), (200, content.as_bytes()), "{path}");
            }
            Directory | Missing => check(&response, path, 404, &json!({ "message": "File not found" })),
            Denied => check_denied(&response, path),
        }
    }

    #[track_caller]
    fn check_list(&self, path: &str, expected: Resolution) {
        let response = self.server.get(&format!("/list/{path}"));
        match expected {
            Directory => {
                assert!(response.status == 200 && response.json().is_array(), "{path}: {response:?}")
            }
            File(_) | Missing => {
                check(&response, path, 404, &json!({ "message": "Path is not a directory" }));
            }
            Denied => check_denied(&response, path),
        }
    }

    #[track_caller]
    fn check_exists(&self, path: &str, expected: Resolution) {
        let response = self.server.get(&format!("/exists/{path}"));
        if expected == Denied {
            check_denied(&response, path);
        } else {
            assert_eq!(
                (response.status, &response.json()["exists"]),
                (200, &json!(expected != Missing)),
                "{path}"
            );
        }
    }

    /// Checks the rejections only; successful uploads have their own tests.
    #[track_caller]
    fn check_upload(&self, path: &str, expected: Resolution) {
        if path.contains('\0') {
            // A form header must not contain NUL.
            return assert_eq!(self.server.upload(path, b"evil").status, 400, "{path:?}");
        }
        let upload = || self.server.upload(path, b"evil");
        match expected {
            Denied => check_denied(&upload(), path),
            Directory => assert_eq!(upload().status, 400, "{path}"),
            File(_) | Missing => {}
        }
    }
}

#[track_caller]
fn check(response: &Response, path: &str, status: u16, json: &Value) {
    assert_eq!((response.status, &response.json()), (status, json), "{path}");
}

#[track_caller]
fn check_denied(response: &Response, path: &str) {
    check(response, path, 403, &json!({ "message": "Access denied" }));
}

/// The encodings of the Go router (plain slashes) and of the SDK (encoded slashes), and two that only an
/// attacker would use.
fn spellings(path: &str) -> Vec<String> {
    let encode = |is_plain: fn(u8) -> bool| -> String {
        path.bytes()
            .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect()
    };
    vec![
        encode(|byte| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte)),
        encode(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
        encode(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte)),
        encode(|byte| byte.is_ascii_alphanumeric()).to_lowercase(),
    ]
}

#[test]
fn path_outside_the_base_directory_is_denied() {
    // CF-05, UP-02, UP-24
    let fixture = Fixture::new();
    let (base, outside) = (fixture.base_name().to_owned(), fixture.outside_name().to_owned());
    for path in [
        "..",
        "../",
        "../..",
        "../etc/passwd",
        "../../../../../../../../etc/passwd",
        "d/../..",
        "d/../../etc/passwd",
        "./../etc/passwd",
        "/../etc/passwd",
        "//../../etc/passwd",
        "d//..//../etc/passwd",
        "missing/../../x",
        "f.txt/../../x",
        &format!("../{outside}/f"),
        &format!("../{base}/../{outside}/f"),
        &format!("../{base}x/f"),
        "link_out",
        "dirlink_out",
        "dirlink_out/",
        "dirlink_out/f",
        "dirlink_out/sub",
        "dirlink_out/missing",
        "dirlink_out/sub/new",
        "link_out_relative",
        "link_root",
        "link_root/etc/passwd",
        "link_proc/etc/passwd",
        "link_fd",
        "link_up",
        "link_up/x",
        "d/link_up_up",
        "chain",
        "dangling_out",
        "dirlink_in/../../x",
        &format!("dirlink_in/../../{outside}/f"),
        "dirlink_deep/../../../../x",
        "d/back/../../../x",
        "f.txt\0.png",
        "\0",
        "d\0",
        "d/\0/x",
    ] {
        fixture.check(path, Denied);
    }
}

#[test]
fn path_inside_resolves_as_the_kernel_does() {
    // CF-05, CF-09, CF-11
    let fixture = Fixture::new();
    for (path, expected) in [
        ("f.txt", File("0123456789")),
        ("d/x", File("d/x")),
        ("d//x", File("d/x")),
        ("/d/x", File("d/x")),
        ("///d///x", File("d/x")),
        ("./d/./x", File("d/x")),
        ("d/../f.txt", File("0123456789")),
        ("d/e/../x", File("d/x")),
        ("link_in", File("0123456789")),
        ("link_in_relative", File("0123456789")),
        ("dirlink_in", Directory),
        ("dirlink_in/x", File("d/x")),
        ("dirlink_in/../x", File("x")),
        // The symlink is resolved before `..`.
        ("dirlink_deep/../x", File("d/e/x")),
        ("dirlink_deep/../../x", File("d/x")),
        ("d/back/x", File("d/e/x")),
        ("d/back/../x", File("d/x")),
        ("d", Directory),
        ("d/", Directory),
        ("d/.", Directory),
        ("d/..", Directory),
        ("d/e/../..", Directory),
        ("", Directory),
        (".", Directory),
        ("/", Directory),
        ("f.txt/", Missing),
        ("f.txt/x", Missing),
        ("etc/passwd", Missing),
        ("/etc/passwd", Missing),
        ("//etc/passwd", Missing),
        ("missing", Missing),
        ("missing/x", Missing),
        ("...", Missing),
        (".. ", Missing),
        ("..\\..\\etc\\passwd", Missing),
        ("..;/etc/passwd", Missing),
        ("C:\\f.txt", Missing),
        ("~", Missing),
        ("$HOME", Missing),
        ("loop", Missing),
        ("loop/x", Missing),
        ("dangling", Missing),
    ] {
        fixture.check(path, expected);
    }
}

#[test]
fn symlink_out_and_back_in_exposes_nothing_outside() {
    let fixture = Fixture::new();
    for path in spellings("out_and_in") {
        let response = fixture.server.get(&format!("/download/{path}"));
        match response.status {
            403 => check_denied(&response, &path),
            _ => assert_eq!((response.status, response.body.as_slice()), (200, &b"0123456789"[..])),
        }
    }
}

#[test]
fn path_is_percent_decoded_once() {
    // CF-02
    let fixture = Fixture::new();
    for path in [
        "%252e%252e%252f%252e%252e%252fetc%252fpasswd",
        "%252e%252e/f.txt",
        "..%252f..%252fetc%252fpasswd",
        "d%252fx",
        "%25252e%25252e%25252f",
        "..%c0%afetc%c0%afpasswd",
        "%c0%ae%c0%ae/etc/passwd",
        "%e0%80%ae%e0%80%ae/etc/passwd",
        "..%u2215etc",
        "d%252f..%252f..%252fx",
    ] {
        fixture.check_download(path, Missing);
        fixture.check_list(path, Missing);
        fixture.check_exists(path, Missing);
    }
    // File names in a form are not percent-encoded.
    let response = fixture.server.upload("..%2fevil", b"literal");
    response.check(200, &json!({ "message": "File '..%2fevil' uploaded successfully." }));
    assert_eq!(fs::read_to_string(fixture.server.base().join("..%2fevil")).unwrap(), "literal");
    fixture.check("..%2fevil", File("literal"));
}

#[test]
fn invalid_percent_escapes_are_literal() {
    // CF-10
    let server = Server::start();
    for (target, path) in [
        ("a%zzb", "a%zzb"),
        ("a%2", "a%2"),
        ("%", "%"),
        ("%%", "%%"),
        ("%4", "%4"),
        ("%+1", "%+1"),
        ("%-1", "%-1"),
        ("%%41", "%A"),
        ("%g0", "%g0"),
        ("100%", "100%"),
        ("a+b", "a+b"),
        ("%ff", "\u{fffd}"),
        ("%c3%28", "\u{fffd}("),
    ] {
        let exists = |exists| json!({ "path": path, "exists": exists });
        server.get(&format!("/exists/{target}")).check(200, &exists(false));
        if !path.contains('\u{fffd}') {
            fs::write(server.base().join(path), path).unwrap();
            server.get(&format!("/exists/{target}")).check(200, &exists(true));
            assert_eq!(server.get(&format!("/download/{target}")).body, path.as_bytes());
        }
    }
    use std::os::unix::ffi::OsStrExt;
    fs::write(server.base().join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "latin").unwrap();
    server.get("/exists/caf%E9").check(200, &json!({ "path": "caf\u{fffd}", "exists": true }));
    assert_eq!(server.get("/download/caf%E9").body, b"latin");
}

#[test]
fn absolute_path_resolves_below_the_base_directory() {
    // CF-11, UP-02
    let fixture = Fixture::new();
    for path in ["/etc/passwd", "%2fetc%2fpasswd", "/%2fetc/passwd"] {
        let given = path.replace("%2f", "/");
        fixture.server.get(&format!("/exists/{path}")).check(200, &json!({ "path": given, "exists": false }));
    }
    for name in ["/etc/evil", "//etc/evil"] {
        let response = fixture.server.upload(name, b"harmless");
        response.check(200, &json!({ "message": format!("File '{name}' uploaded successfully.") }));
        assert_eq!(fs::read_to_string(fixture.server.base().join("etc/evil")).unwrap(), "harmless");
        assert!(!Path::new("/etc/evil").exists());
    }
    let response = fixture.server.upload("..\\evil", b"harmless");
    assert!(response.status == 200 || response.status == 403, "{response:?}");
    assert!(!fixture.server.base().parent().unwrap().join("evil").exists());
}

#[test]
fn root_as_base_directory_has_no_outside() {
    // CF-12
    let scratch = TempDir::new();
    fs::write(scratch.path().join("f"), "content").unwrap();
    symlink("/etc/passwd", scratch.path().join("link")).unwrap();
    let path = scratch.path().display().to_string();
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", "/");
    let server = Server::from_command(command, TempDir::new());
    let exists = |given: &str, exists: bool| {
        let target = format!("/exists/{}", given.replace('/', "%2F"));
        server.get(&target).check(200, &json!({ "path": given, "exists": exists }));
    };
    exists("etc/passwd", true);
    exists("/etc/passwd", true);
    exists("../etc", true);
    exists("../../../../etc/passwd", true);
    exists("..", true);
    exists("no/such/../../etc", false);
    exists("nonexistent-name", false);
    assert_eq!(server.get(&format!("/download{path}/f")).body, b"content");
    assert_eq!(server.get(&format!("/download{path}/link")).body, fs::read("/etc/passwd").unwrap());
    assert_eq!(server.get(&format!("/download/..{path}/f")).body, b"content");
    server
        .upload(&format!("{path}/new"), b"new")
        .check(200, &json!({ "message": format!("File '{path}/new' uploaded successfully.") }));
    assert_eq!(fs::read(scratch.path().join("new")).unwrap(), b"new");
}

#[test]
fn base_directory_replaced_by_a_symlink_stays_pinned() {
    // CF-15
    let outside = TempDir::new();
    fs::write(outside.path().join("f"), "outside").unwrap();
    let parent = TempDir::new();
    let base = parent.path().join("base");
    fs::create_dir(&base).unwrap();
    fs::write(base.join("f"), "inside").unwrap();
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", &base);
    let server = Server::from_command(command, parent);
    assert_eq!(server.get("/download/f").body, b"inside");
    fs::rename(&base, base.with_file_name("old")).unwrap();
    symlink(outside.path(), &base).unwrap();
    assert_eq!(server.get("/download/f").body, b"inside");
    assert_eq!(server.upload("g", b"g").status, 200);
    assert!(!outside.path().join("g").exists() && base.with_file_name("old").join("g").exists());
    server.execute("cat f").check("inside", "", 0);
}

#[test]
fn base_directory_may_be_a_symlink() {
    let parent = TempDir::new();
    fs::create_dir(parent.path().join("real")).unwrap();
    fs::write(parent.path().join("real/f"), "inside").unwrap();
    symlink("real", parent.path().join("base")).unwrap();
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", parent.path().join("base"));
    let server = Server::from_command(command, parent);
    assert_eq!(server.get("/download/f").body, b"inside");
    check_denied(&server.get("/download/%2e%2e%2Freal%2Ff"), "../real/f");
}

#[test]
fn reads_racing_a_symlink_swap_never_escape() {
    // UP-24
    let outside = TempDir::new();
    fs::write(outside.path().join("secret"), "outside").unwrap();
    let server = Server::start();
    let base = server.base();
    fs::create_dir(base.join("real")).unwrap();
    fs::write(base.join("real/secret"), "inside").unwrap();
    symlink(outside.path(), base.join("link")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // `d` is the directory, then missing, then the symlink, then missing.
                fs::rename(base.join("real"), base.join("d")).unwrap();
                fs::rename(base.join("d"), base.join("real")).unwrap();
                fs::rename(base.join("link"), base.join("d")).unwrap();
                fs::rename(base.join("d"), base.join("link")).unwrap();
            }
        });
        let until = Instant::now() + Duration::from_secs(2);
        let (mut rounds, mut reads) = (0, 0);
        while Instant::now() < until {
            let response = server.get("/download/d/secret");
            assert!(matches!(response.status, 200 | 403 | 404), "{response:?}");
            if response.status == 200 {
                reads += 1;
                assert_eq!(response.body, b"inside");
            }
            let listing = server.get("/list/d");
            assert!(matches!(listing.status, 200 | 403 | 404), "{listing:?}");
            // The sizes differ: 6 bytes inside, 7 bytes outside.
            assert!(!String::from_utf8_lossy(&listing.body).contains("\"size\":7"), "{listing:?}");
            rounds += 1;
        }
        assert!(rounds > 50 && reads > 0, "{rounds} rounds, {reads} reads");
    });
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn uploads_racing_a_symlink_swap_never_escape() {
    // UP-24
    let outside = TempDir::new();
    let server = Server::start();
    let base = server.base();
    for name in ["real", "spare"] {
        fs::create_dir(base.join(name)).unwrap();
    }
    // `d` starts as a symlink: rename(2) replaces a symlink with another, but not a directory with a symlink.
    let swapped = base.join("d");
    symlink("real", &swapped).unwrap();
    let stop = AtomicBool::new(false);
    let swap = |target: &Path| {
        symlink(target, base.join("next")).unwrap();
        fs::rename(base.join("next"), &swapped).unwrap();
    };
    let (mut accepted, mut denied) = (0, 0);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap(outside.path());
                swap(Path::new("spare"));
            }
        });
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            for name in ["d/x", "d/new/x"] {
                match server.upload(name, b"content").status {
                    200 => accepted += 1,
                    403 => denied += 1,
                    other => assert!(other < 500, "{other}"),
                }
            }
        }
    });
    assert!(accepted > 0 && denied > 0, "{accepted} accepted, {denied} denied");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}
