//! Every case runs with both resolvers.

use super::root::Resolver;
use super::*;
use crate::sys::fs::{exchange, make_fifo};
use std::ffi::CString;
use std::fs as std_fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A temporary directory that contains a `base` and an `outside`.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("files-test-{}-{number}", std::process::id()));
        std_fs::create_dir_all(path.join("base")).unwrap();
        std_fs::create_dir_all(path.join("outside")).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(super) fn base(&self) -> PathBuf {
        self.0.join("base")
    }

    fn outside(&self) -> PathBuf {
        self.0.join("outside")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std_fs::remove_dir_all(&self.0);
    }
}

/// A new tree for each resolver: the files and symlinks of `tests/CASES.md`, and more of them.
fn on_both_resolvers(case: impl Fn(&Scratch, Resolver)) {
    for resolver in [Resolver::Openat2, Resolver::Walk] {
        let scratch = Scratch::new();
        let (base, outside) = (scratch.base(), scratch.outside());
        std_fs::create_dir_all(base.join("d/e/f")).unwrap();
        for (file, content) in [
            ("f.txt", "0123456789"),
            ("d/x", "x in d"),
            ("d/e/x", "x in e"),
            ("d/e/f/x", "x in f"),
            ("..dots", "dots"),
            ("pct%41", "y"),
        ] {
            std_fs::write(base.join(file), content).unwrap();
        }
        std_fs::write(outside.join("f"), "outside").unwrap();
        std_fs::create_dir(outside.join("dir")).unwrap();
        for (link, target) in [
            ("link_in", PathBuf::from("f.txt")),
            ("link_in_slash", PathBuf::from("f.txt/")),
            ("link_in_abs", base.join("d/x")),
            ("link_in_by_detour", outside.join("dir/../../base/f.txt")),
            ("link_to_base", base.clone()),
            ("d/link_up", PathBuf::from("../f.txt")),
            ("dirlink_in", PathBuf::from("d")),
            ("dirlink_deep", PathBuf::from("d/e/f")),
            ("dirlink_deep_abs", base.join("d/e/f/")),
            ("link_to_link", PathBuf::from("dirlink_deep/../../link_up")),
            ("link_out", outside.join("f")),
            ("link_out_missing", outside.join("missing")),
            ("link_out_rel", PathBuf::from("../outside/f")),
            ("link_out_and_back", PathBuf::from("../base/f.txt")),
            ("link_abs_out_of_base", base.join("../outside/f")),
            ("dirlink_out", outside.clone()),
            ("link_root", PathBuf::from("/")),
            ("dangling", PathBuf::from("nothing")),
            ("dangling_abs", base.join("nothing")),
            ("dangling_deep", PathBuf::from("no/thing")),
            ("loop", PathBuf::from("loop")),
            ("loop_a", PathBuf::from("loop_b")),
            ("loop_b", base.join("loop_a")),
        ] {
            symlink(target, base.join(link)).unwrap();
        }
        // The way back inside also goes through a symlink.
        symlink(&base, outside.join("base_again")).unwrap();
        symlink(outside.join("base_again/f.txt"), base.join("link_in_by_link")).unwrap();
        make_fifo(&c_path(&base.join("fifo"))).unwrap();
        case(&scratch, resolver);
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

fn root_of(path: &Path, resolver: Resolver) -> Root {
    let root = Root::with_resolver(path.to_path_buf(), resolver);
    if root.is_open() && resolver == Resolver::Walk {
        assert_eq!(root.base().unwrap().resolver, Resolver::Walk);
    }
    root
}

fn outcome<T>(result: Result<T, Error>, show: impl Fn(T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(Error::Denied) => "denied".to_owned(),
        Err(Error::NotFound) => "not found".to_owned(),
        Err(Error::NotADirectory) => "not a directory".to_owned(),
        Err(Error::IsADirectory | Error::NotAFile) => "not a file".to_owned(),
        Err(Error::InvalidName(_)) => "invalid name".to_owned(),
        Err(Error::BadPath(_)) => "bad path".to_owned(),
        Err(error) => panic!("{error:?}"),
    }
}

fn content(opened: OpenFile) -> String {
    let OpenFile { mut file, size, .. } = opened;
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content.len() as u64, size);
    format!("= {content}")
}

fn names(entries: Vec<Entry>) -> String {
    let names: Vec<_> =
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    format!("[{}]", names.join(" "))
}

fn upload(root: &Root, path: &str, content: &str) -> Result<(), Error> {
    let mut replacement = Replacement::begin(root, &rel(path))?;
    replacement.write_all(content.as_bytes())?;
    replacement.commit()
}

/// Every file of a tree: path, kind, content or target.
fn snapshot(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(path) = pending.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let detail = if metadata.is_dir() {
            pending.extend(std_fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else if metadata.is_file() {
            std_fs::read_to_string(&path).unwrap()
        } else {
            format!("{:?}", std_fs::read_link(&path))
        };
        found.push(format!("{path:?} {:?} {detail}", metadata.file_type()));
    }
    found.sort();
    found
}

struct Expected {
    open: &'static str,
    list: &'static str,
    exists: &'static str,
}

const DENIED: Expected = Expected { open: "denied", list: "denied", exists: "denied" };
const MISSING: Expected = Expected { open: "not found", list: "not found", exists: "false" };
const NO_DIRECTORY: Expected = Expected { open: "not a directory", list: "not a directory", exists: "false" };
const BAD: Expected = Expected { open: "bad path", list: "bad path", exists: "false" };

const fn file(content: &'static str) -> Expected {
    Expected { open: content, list: "not a directory", exists: "true" }
}

const fn directory(names: &'static str) -> Expected {
    Expected { open: "not a file", list: names, exists: "true" }
}

#[track_caller]
fn check(root: &Root, path: &str, expected: &Expected) {
    let shown: String = path.chars().take(80).collect();
    let parsed = rel(path);
    assert_eq!(outcome(open(root, &parsed), content), expected.open, "open {shown:?}");
    assert_eq!(outcome(list(root, &parsed), names), expected.list, "list {shown:?}");
    assert_eq!(
        outcome(exists(root, &parsed), |exists| exists.to_string()),
        expected.exists,
        "exists {shown:?}"
    );
    if expected.open == "denied" {
        assert_eq!(
            outcome(upload(root, path, "evil"), |()| "uploaded".to_owned()),
            "denied",
            "upload {shown:?}"
        );
    }
}

const IN_D: &str = "[e link_up x]";

#[test]
fn no_path_leaves_the_base_directory() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let check = |path: &str, expected: &Expected| check(&root, path, expected);
        let before = snapshot(&scratch.0);

        check("f.txt", &file("= 0123456789"));
        check("d/x", &file("= x in d"));
        check("/d//./x", &file("= x in d")); // CF-11
        check("d/../f.txt", &file("= 0123456789")); // EXI-02
        check("..dots", &file("= dots"));
        check("pct%41", &file("= y")); // DL-10
        check("d", &directory(IN_D));
        check("d/", &directory(IN_D));
        check("d/e/..", &directory(IN_D));
        check("d/e/../.", &directory(IN_D));

        check("missing", &MISSING);
        check("missing/", &MISSING);
        check("missing/x", &MISSING);
        check("missing/../f.txt", &MISSING);
        check("etc/passwd", &MISSING); // CF-11
        check("%2e%2e%2fetc%2fpasswd", &MISSING); // CF-02
        check("f.txt/", &NO_DIRECTORY); // DL-16
        check("f.txt/.", &NO_DIRECTORY);
        check("f.txt/x", &NO_DIRECTORY); // EXI-02
        check("f.txt/..", &NO_DIRECTORY);
        check("fifo/x", &NO_DIRECTORY);
        check("fifo", &Expected { open: "not a file", list: "not a directory", exists: "true" }); // DL-01

        check("link_in", &file("= 0123456789"));
        check("link_in/", &NO_DIRECTORY);
        check("link_in_slash", &NO_DIRECTORY);
        check("link_in_abs", &file("= x in d"));
        check("link_in_by_detour", &file("= 0123456789"));
        check("link_in_by_link", &file("= 0123456789"));
        check("link_to_base/f.txt", &file("= 0123456789"));
        check("link_to_base/link_to_base/d", &directory(IN_D));
        check("d/link_up", &file("= 0123456789"));
        check("dirlink_in", &directory(IN_D));
        check("dirlink_in/x", &file("= x in d"));
        check("dirlink_deep/../x", &file("= x in e")); // CF-05
        check("dirlink_deep/../../x", &file("= x in d")); // CF-05
        check("dirlink_deep_abs/../x", &file("= x in e"));
        check("link_to_link", &file("= 0123456789"));

        check("..", &DENIED);
        check("../", &DENIED);
        check("../outside/f", &DENIED);
        check("/../outside/f", &DENIED);
        check("../base/f.txt", &DENIED);
        check("d/../../outside/f", &DENIED);
        check("d/../..", &DENIED);
        check("dirlink_in/../../outside/f", &DENIED); // CF-05
        check("dirlink_deep/../../../../outside/f", &DENIED);
        check("link_to_base/../outside/f", &DENIED);
        check("link_out", &DENIED); // UP-24
        check("link_out/", &DENIED);
        check("link_out/x", &DENIED);
        check("link_out_missing", &DENIED);
        check("link_out_rel", &DENIED);
        check("link_out_and_back", &DENIED);
        check("link_abs_out_of_base", &DENIED);
        check("dirlink_out", &DENIED);
        check("dirlink_out/f", &DENIED);
        check("dirlink_out/missing/x", &DENIED);
        check("dirlink_out/dir", &DENIED);
        check("dirlink_out/../outside", &DENIED);
        check("link_root", &DENIED);
        check("link_root/etc/passwd", &DENIED);
        check("link_root/../../..", &DENIED);
        // The missing part of a path is resolved by its text.
        check("missing/../../outside/f", &DENIED);
        check("missing/../..", &DENIED);
        check("f.txt/../../outside/f", &DENIED);
        check("loop/../../outside/f", &DENIED);
        check("dirlink_deep/../../missing", &DENIED);

        check("dangling", &MISSING);
        check("dangling_abs", &MISSING);
        check("dangling_deep", &MISSING);
        check("dangling/x", &MISSING);
        check("loop", &BAD);
        check("loop/x", &BAD);
        check("loop_a", &BAD);
        check(&"n".repeat(300), &BAD); // EXI-02
        check(&"n".repeat(6000), &BAD);
        check(&"n/".repeat(3000), &MISSING);
        check(&format!("{}f.txt", "d/../".repeat(3000)), &file("= 0123456789"));
        check(&format!("{}f.txt", "link_to_base/".repeat(41)), &BAD);

        assert_eq!(snapshot(&scratch.0), before);
    });
}

#[test]
fn the_empty_path_is_the_base_directory() {
    on_both_resolvers(|scratch, resolver| {
        std_fs::create_dir(scratch.0.join("small")).unwrap();
        std_fs::write(scratch.0.join("small/f"), "").unwrap();
        let root = root_of(&scratch.0.join("small"), resolver);
        for path in ["", "/", ".", "./", "//."] {
            check(&root, path, &directory("[f]")); // EXI-01
        }
    });
}

#[test]
fn the_base_directory_may_be_a_symlink() {
    on_both_resolvers(|scratch, resolver| {
        let link = scratch.0.join("base_link");
        symlink(scratch.base(), &link).unwrap();
        symlink(link.join("f.txt"), scratch.base().join("link_by_base_link")).unwrap();
        let root = root_of(&link, resolver);
        check(&root, "f.txt", &file("= 0123456789"));
        check(&root, "link_in_abs", &file("= x in d"));
        check(&root, "link_by_base_link", &file("= 0123456789"));
        check(&root, "../f.txt", &DENIED);
    });
}

#[test]
fn no_path_leaves_the_root_directory() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(Path::new("/"), resolver);
        let outside = scratch.outside();
        let path = |path: &str| format!("{}/{path}", outside.to_str().unwrap());
        check(&root, &path("f"), &file("= outside"));
        check(&root, &format!("../..{}", path("f")), &file("= outside")); // CF-12
        check(&root, &path("../base/link_out"), &file("= outside"));
        check(&root, &path("../base/link_root/../..").replace("//", "/"), &directory(leak(&root)));
        check(&root, "missing/../../etc", &MISSING);
        check(&root, "dev/null", &Expected { open: "not a file", list: "not a directory", exists: "true" });
        for magic in ["proc/self/root", "proc/self/root/etc/passwd", "proc/self/exe", "proc/self/cwd/x"] {
            check(&root, magic, &DENIED);
        }
        assert_eq!(outcome(exists(&root, &rel("proc/self/status")), |exists| exists.to_string()), "true");
        let (pipe, _writer) = io::pipe().unwrap();
        let magic = format!("proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        check(&root, &magic, &DENIED);
    });
}

/// The names in a directory, with the lifetime of the test program.
fn leak(root: &Root) -> &'static str {
    Box::leak(names(list(root, &rel("")).unwrap()).into_boxed_str())
}

#[test]
fn magic_links_are_denied() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        symlink("/proc/self/cwd", scratch.base().join("magic")).unwrap();
        check(&root, "magic", &DENIED);
        // Even if it would lead back inside.
        let descriptor = std_fs::File::open(scratch.base()).unwrap();
        let magic = format!("/proc/self/fd/{}/f.txt", std::os::fd::AsRawFd::as_raw_fd(&descriptor));
        symlink(magic, scratch.base().join("magic_in")).unwrap();
        check(&root, "magic_in", &DENIED);
    });
}

#[test]
fn a_replaced_base_directory_is_still_served() {
    // CF-15
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        std_fs::rename(scratch.base(), scratch.0.join("base.old")).unwrap();
        symlink(scratch.outside(), scratch.base()).unwrap();
        check(&root, "f.txt", &file("= 0123456789"));
        check(&root, "f", &MISSING);
        check(&root, "link_in_abs", &DENIED);
        upload(&root, "new", "new").unwrap();
        assert_eq!(std_fs::read_to_string(scratch.0.join("base.old/new")).unwrap(), "new");
    });
}

#[test]
fn nothing_is_found_in_a_deleted_base_directory() {
    // EC-07
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        assert!(root.directory().is_ok());
        std_fs::remove_dir_all(scratch.base()).unwrap();
        std_fs::create_dir(scratch.base()).unwrap();
        check(&root, "", &MISSING);
        check(&root, "f.txt", &MISSING);
        assert_eq!(outcome(upload(&root, "f.txt", ""), |()| String::new()), "not found");
        assert!(matches!(root.directory(), Err(Error::NotFound)));
    });
}

#[test]
fn a_missing_base_directory_is_opened_once_created() {
    on_both_resolvers(|scratch, resolver| {
        let path = scratch.0.join("late");
        let root = root_of(&path, resolver);
        assert!(!root.is_open());
        check(&root, "", &MISSING);
        std_fs::write(&path, "not a directory").unwrap();
        check(&root, "", &NO_DIRECTORY);
        assert!(!root.is_open());
        std_fs::remove_file(&path).unwrap();
        std_fs::create_dir(&path).unwrap();
        check(&root, "", &directory("[]"));
        assert!(root.is_open());
    });
}

#[test]
fn the_walk_bounds_the_depth_of_a_path() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let deep = |depth: usize| "n/".repeat(depth);
        std_fs::create_dir_all(scratch.base().join(deep(300))).unwrap();
        check(&root, &deep(256), &directory("[n]"));
        if root.base().unwrap().resolver == Resolver::Walk {
            check(&root, &deep(257), &BAD);
        } else {
            check(&root, &deep(257), &directory("[n]"));
        }
    });
}

#[test]
fn an_open_file_has_size_time_and_identity() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let metadata = std_fs::metadata(scratch.base().join("f.txt")).unwrap();
        let opened = open(&root, &rel("link_in")).unwrap();
        assert_eq!(opened.size, 10);
        assert_eq!(opened.identity, Identity { device: metadata.dev(), inode: metadata.ino() });
        assert_eq!(opened.modified.seconds, metadata.mtime());
        assert_eq!(i64::from(opened.modified.nanoseconds), metadata.mtime_nsec());
    });
}

#[test]
fn a_time_is_a_number_of_seconds() {
    assert!(
        (Modified { seconds: 1_700_000_000, nanoseconds: 500_000_000 }.epoch_seconds() - 1_700_000_000.5)
            .abs()
            < 1e-6
    );
    assert!((Modified { seconds: -1, nanoseconds: 750_000_000 }.epoch_seconds() + 0.25).abs() < 1e-9);
}

#[test]
fn an_upload_creates_or_replaces_a_file() {
    on_both_resolvers(|scratch, resolver| {
        let (root, base) = (root_of(&scratch.base(), resolver), scratch.base());
        let check = |path: &str, lands: &str| {
            upload(&root, path, path).unwrap_or_else(|error| panic!("{path:?}: {error:?}"));
            let landed = base.join(lands);
            assert!(landed.symlink_metadata().unwrap().is_file(), "{path:?}");
            assert_eq!(std_fs::read_to_string(&landed).unwrap(), path);
            assert!(!snapshot(&scratch.0).iter().any(|line| line.contains(".upload-")));
        };
        check("new", "new");
        check("new", "new");
        check("f.txt", "f.txt");
        check("/etc/evil", "etc/evil"); // UP-02
        check("..%2fevil", "..%2fevil"); // UP-02
        check("a/b/c", "a/b/c");
        check("d/../a/d", "a/d");
        check("link_in", "f.txt"); // UP-24
        check("link_in_abs", "d/x");
        check("d/link_up", "f.txt");
        check("dirlink_deep/new/x", "d/e/f/new/x");
        check("dangling", "nothing");
        check(&"n".repeat(255), &"n".repeat(255));
        assert!(base.join("link_in").is_symlink());
        std_fs::remove_file(base.join("nothing")).unwrap();
        check("dangling_abs/x", "nothing/x");
        assert_eq!(std_fs::read_to_string(scratch.outside().join("f")).unwrap(), "outside");
    });
}

#[test]
fn a_refused_upload_changes_nothing() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let before = snapshot(&scratch.0);
        let check = |path: &str, expected: &str| {
            assert_eq!(outcome(upload(&root, path, "x"), |()| "uploaded".to_owned()), expected, "{path:?}");
            assert_eq!(snapshot(&scratch.0), before, "{path:?}");
        };
        // UP-04
        check("", "invalid name");
        check(".", "invalid name");
        check("/", "invalid name");
        check("d", "not a file");
        // UP-25
        check("newd/", "invalid name");
        check("newd/.", "invalid name");
        check("f.txt/", "invalid name");
        check("f.txt/x", "not a directory");
        check(&"n".repeat(256), "bad path");
        check(&format!("newd/{}", "n".repeat(256)), "bad path");
        check("newd/..", "invalid name");
        check("d/..", "invalid name");
        check("dirlink_in", "not a file");
        check("fifo", "not a file");
        check("loop", "bad path");
        check("loop/x", "bad path");
        check("dangling_deep", "not found");
        check("newd/../../x", "denied");
        check("../newd/x", "denied"); // UP-02
        check("link_out_missing", "denied");
        check("dirlink_out/newd/x", "denied");
    });
}

#[test]
fn an_upload_is_visible_only_when_complete() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let mut replacement = Replacement::begin(&root, &rel("d/x")).unwrap();
        replacement.write_all(b"new").unwrap();
        check(&root, "d", &directory(IN_D));
        check(&root, "d/x", &file("= x in d"));
        replacement.commit().unwrap();
        check(&root, "d", &directory(IN_D));
        check(&root, "d/x", &file("= new"));
    });
}

#[test]
fn a_dropped_upload_leaves_the_old_file_only() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let before = snapshot(&scratch.0);
        let mut replacement = Replacement::begin(&root, &rel("d/x")).unwrap();
        replacement.write_all(b"new").unwrap();
        assert_ne!(snapshot(&scratch.0), before);
        drop(replacement);
        assert_eq!(snapshot(&scratch.0), before);
    });
}

#[test]
fn an_upload_does_not_replace_a_directory() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let replacement = Replacement::begin(&root, &rel("new")).unwrap();
        std_fs::create_dir(scratch.base().join("new")).unwrap();
        let before = snapshot(&scratch.base().join("new"));
        assert_eq!(outcome(replacement.commit(), |()| "committed".to_owned()), "not a file");
        assert_eq!(snapshot(&scratch.base().join("new")), before);
        assert!(!snapshot(&scratch.base()).iter().any(|line| line.contains(".upload-")));
    });
}

#[test]
fn a_replaced_file_has_the_mode_of_a_new_one() {
    // UP-27
    use std::os::unix::fs::PermissionsExt;
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let mode = |name: &str| std_fs::metadata(scratch.base().join(name)).unwrap().mode() & 0o7777;
        std_fs::set_permissions(scratch.base().join("f.txt"), std_fs::Permissions::from_mode(0o600)).unwrap();
        upload(&root, "f.txt", "").unwrap();
        std_fs::write(scratch.base().join("by_std"), "").unwrap();
        assert_eq!(mode("f.txt"), mode("by_std"));
    });
}

#[test]
fn a_listing_follows_symlinks_inside_only() {
    // LI-01, LI-02, LI-07, LI-08
    on_both_resolvers(|scratch, resolver| {
        let (root, base, outside) = (root_of(&scratch.base(), resolver), scratch.base(), scratch.outside());
        let directory = base.join("listed");
        std_fs::create_dir(&directory).unwrap();
        let name = |bytes: &[u8]| directory.join(std::ffi::OsStr::from_bytes(bytes));
        std_fs::write(name(b"caf\xe9"), "abc").unwrap();
        std_fs::write(name(b"new\nline\"\\\x1b"), "").unwrap();
        std_fs::write(name(b".upload-notes.tmp"), "").unwrap();
        std_fs::write(name(b".upload-0123456789abcdef.tmp"), "hidden").unwrap();
        std_fs::create_dir(name(b"sub")).unwrap();
        symlink("../f.txt", name(b"to_file")).unwrap();
        symlink(base.join("d"), name(b"to_directory")).unwrap();
        symlink("/nonexist", name(b"dangling")).unwrap();
        symlink("loop", name(b"loop")).unwrap();
        symlink(outside.join("f"), name(b"link_out")).unwrap();
        symlink(&outside, name(b"dirlink_out")).unwrap();
        make_fifo(&c_path(&name(b"fifo"))).unwrap();

        let entries = list(&root, &rel("dirlink_in/../listed/")).unwrap();
        let own = |path: &Path| path.symlink_metadata().unwrap();
        let expected: [(&[u8], EntryKind, std_fs::Metadata); 11] = [
            (b".upload-notes.tmp", EntryKind::File, own(&name(b".upload-notes.tmp"))),
            (b"caf\xe9", EntryKind::File, own(&name(b"caf\xe9"))),
            (b"dangling", EntryKind::File, own(&name(b"dangling"))),
            (b"dirlink_out", EntryKind::File, own(&name(b"dirlink_out"))),
            (b"fifo", EntryKind::File, own(&name(b"fifo"))),
            (b"link_out", EntryKind::File, own(&name(b"link_out"))),
            (b"loop", EntryKind::File, own(&name(b"loop"))),
            (b"new\nline\"\\\x1b", EntryKind::File, own(&name(b"new\nline\"\\\x1b"))),
            (b"sub", EntryKind::Directory, own(&name(b"sub"))),
            (b"to_directory", EntryKind::Directory, own(&base.join("d"))),
            (b"to_file", EntryKind::File, own(&base.join("f.txt"))),
        ];
        for (entry, (name, kind, metadata)) in entries.iter().zip(&expected) {
            assert_eq!(entry.name, *name);
            assert_eq!(entry.kind, *kind, "{name:?}");
            assert_eq!(entry.size, metadata.size(), "{name:?}");
            assert_eq!(entry.modified.seconds, metadata.mtime(), "{name:?}");
            assert_eq!(i64::from(entry.modified.nanoseconds), metadata.mtime_nsec(), "{name:?}");
        }
        assert_eq!(entries.len(), expected.len());
    });
}

#[test]
fn a_large_listing_is_complete() {
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        let expected: Vec<String> =
            (0..5000).map(|number| format!("a rather long name for a file {number:04}")).collect();
        std_fs::create_dir(scratch.base().join("many")).unwrap();
        for name in &expected {
            std_fs::write(scratch.base().join("many").join(name), "").unwrap();
        }
        let entries = list(&root, &rel("many")).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| String::from_utf8_lossy(&entry.name)).collect();
        assert_eq!(names, expected);
    });
}

#[test]
fn a_listing_survives_concurrent_changes() {
    // LI-06
    on_both_resolvers(|scratch, resolver| {
        let root = root_of(&scratch.base(), resolver);
        for number in 0..20 {
            std_fs::write(scratch.base().join(format!("d/{number}")), "").unwrap();
        }
        let path = scratch.base().join("d/churn");
        while_repeating(
            || {
                std_fs::write(&path, "").unwrap();
                std_fs::remove_file(&path).unwrap();
            },
            |_| {
                let entries = list(&root, &rel("d")).unwrap();
                assert!(entries.len() == 23 || entries.len() == 24, "{entries:?}");
                assert!(entries.iter().all(|entry| entry.modified.seconds > 0), "{entries:?}");
            },
        );
    });
}

#[test]
fn exchanging_a_directory_with_a_symlink_is_safe() {
    // UP-24
    on_both_resolvers(|scratch, resolver| {
        let (root, base, outside) = (root_of(&scratch.base(), resolver), scratch.base(), scratch.outside());
        std_fs::write(base.join("d/f"), "inside").unwrap();
        let (directory, link) = (c_path(&base.join("d")), c_path(&base.join("dirlink_out")));
        let before = snapshot(&outside);
        let (mut opened, mut denied) = (0, 0);
        while_repeating(
            || exchange(&directory, &link).unwrap(),
            |round| {
                match open(&root, &rel("d/f")) {
                    Ok(found) => {
                        opened += 1;
                        assert_eq!(content(found), "= inside");
                    }
                    Err(Error::Denied) => denied += 1,
                    // The directory became a symlink after it had been resolved.
                    Err(Error::NotADirectory | Error::BadPath(_) | Error::NotFound) => {}
                    Err(error) => panic!("{error:?}"),
                }
                if let Ok(entries) = list(&root, &rel("d")) {
                    assert!(entries.iter().all(|entry| entry.name != b"dir"), "{entries:?}");
                }
                let _ = upload(&root, "d/x", "new");
                let _ = upload(&root, &format!("d/new{}/x", round % 10), "new");
            },
        );
        assert_eq!(snapshot(&outside), before);
        assert!(opened > 0 && denied > 0, "{opened} opened, {denied} denied: no race happened");
    });
}

#[test]
fn exchanging_a_file_with_a_fifo_or_symlink_is_safe() {
    on_both_resolvers(|scratch, resolver| {
        let (root, base) = (root_of(&scratch.base(), resolver), scratch.base());
        let [file, fifo, link] = ["f.txt", "fifo", "link_out"].map(|name| c_path(&base.join(name)));
        while_repeating(
            || {
                exchange(&file, &fifo).unwrap();
                exchange(&file, &link).unwrap();
            },
            |_| {
                if let Ok(found) = open(&root, &rel("f.txt")) {
                    assert_eq!(content(found), "= 0123456789");
                }
            },
        );
    });
}

/// Repeats `disturb` in a thread while some thousand rounds run.
fn while_repeating(disturb: impl Fn() + Sync, mut round: impl FnMut(usize)) {
    const ROUNDS: usize = 2000;
    let (done, disturbances) = (AtomicBool::new(false), AtomicUsize::new(0));
    let limit = Instant::now() + Duration::from_secs(60);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                disturb();
                disturbances.fetch_add(1, Ordering::Relaxed);
            }
        });
        // A panic in a round must also end the thread.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut number = 0;
            while number < ROUNDS || (disturbances.load(Ordering::Relaxed) < ROUNDS && Instant::now() < limit)
            {
                round(number);
                number += 1;
            }
        }));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn errors_keep_their_errno() {
    let sorted = |errno: i32| Error::doing("testing")(io::Error::from_raw_os_error(errno));
    assert!(matches!(sorted(28), Error::NoSpace(_))); // UP-17
    assert!(matches!(sorted(122), Error::NoSpace(_)));
    assert!(matches!(sorted(13), Error::NotPermitted(_)));
    assert!(matches!(sorted(30), Error::NotPermitted(_)));
    assert!(matches!(sorted(24), Error::Io { .. }));
    for errno in [2, 20, 21, 36, 40, 28, 122, 13, 1, 30, 24, 5] {
        assert_eq!(sorted(errno).raw_os_error(), Some(errno));
    }
    assert_eq!(Error::Denied.raw_os_error(), None);
    assert!(sorted(5).to_string().starts_with("testing: "));
}
