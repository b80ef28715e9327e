//! `POST /upload`.

use kit::{Client, Response, Server, TempDir, binary, eventually};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TYPE: &str = "multipart/form-data; boundary=BB";

/// A part with these Content-Disposition parameters.
fn part(parameters: &str, content: &str) -> String {
    format!("--BB\r\nContent-Disposition: form-data{parameters}\r\n\r\n{content}\r\n")
}

fn form(parts: &[String]) -> String {
    format!("{}--BB--\r\n", parts.concat())
}

/// Sends a form.
fn send(server: &Server, body: impl AsRef<[u8]>) -> Response {
    server.upload_body(TYPE, body.as_ref())
}

#[track_caller]
fn check_uploaded(response: &Response, name: &str) {
    response.check(200, &json!({ "message": format!("File '{name}' uploaded successfully.") }));
}

/// The upload was rejected with the compatible wording.
#[track_caller]
fn check_failed(response: &Response, status: u16, why: &str) {
    response.check(status, &json!({ "message": format!("File upload failed: {why}") }));
}

#[track_caller]
fn check_no_file(response: &Response) {
    let detail = json!([{ "type": "missing", "loc": ["body", "file"], "msg": "Field required" }]);
    response.check(422, &json!({ "detail": detail }));
}

/// Every path below the directory, including temporary files.
fn all_paths(directory: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        paths.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            paths.extend(all_paths(&entry.path()));
        }
    }
    paths.sort();
    paths
}

#[track_caller]
fn check_nothing_written(server: &Server) {
    assert_eq!(all_paths(server.base()), Vec::<PathBuf>::new());
}

#[test]
fn file_is_stored_unchanged_and_replaces_the_old_one() {
    let server = Server::start();
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for content in [&b"hello"[..], b"", b"\0", b"\r\n", b"\r", b"--", &all, b"a\r\n--B", b"\r\n\r\n--"] {
        check_uploaded(&server.upload("f.bin", content), "f.bin");
        assert_eq!(fs::read(server.base().join("f.bin")).unwrap(), content);
        assert_eq!(server.get("/download/f.bin").body, content);
    }
    for name in ["new/dir/f", "./a", "b//c", "分 é.txt", " ", "a b", "..x", "-rf", &"n".repeat(255)] {
        check_uploaded(&server.upload(name, b"x"), name);
        assert_eq!(fs::read(server.base().join(name)).unwrap(), b"x", "{name}");
    }
    assert_eq!(all_paths(server.base()).len(), 13);
}

#[test]
fn name_outside_the_base_directory_is_denied() {
    // UP-02
    let server = Server::start();
    for name in [
        "../evil",
        "a/../../evil",
        "..",
        "../",
        "a/../..",
        "/../evil",
        "//../evil",
        "./../evil",
        "../../../tmp/evil",
    ] {
        server.upload(name, b"evil").check(403, &json!({ "message": "Access denied" }));
    }
    check_nothing_written(&server);
    assert!(!server.base().parent().unwrap().join("evil").exists());
    // Quotes and line breaks are escaped as browsers do it.
    for (name, stored) in
        [("..%2fevil", "..%2fevil"), ("q%22q", "q\"q"), ("n%0D%0An", "n\r\nn"), ("%41", "%41")]
    {
        check_uploaded(&server.upload(name, b"x"), stored);
        assert!(server.base().join(stored).exists(), "{name}");
    }
    // A backslash before any other character is literal.
    let response = server.upload("..\\evil", b"x");
    assert!(matches!(response.status, 200 | 403), "{response:?}");
    assert!(!server.base().parent().unwrap().join("evil").exists());
}

#[test]
fn name_without_a_file_component_is_rejected() {
    // UP-04, UP-25
    let server = Server::start();
    let empty = "the name is empty or names the base directory";
    let slash = "the name ends in a slash";
    for (name, why) in [
        ("", empty),
        (".", empty),
        ("/", empty),
        ("./", empty),
        ("newd/", slash),
        ("newd/.", slash),
        ("newd//", slash),
        ("a/newd/", slash),
        ("newd/..", "the name ends in two dots"),
    ] {
        check_failed(&server.upload(name, b"x"), 400, why);
        check_nothing_written(&server);
    }
    let no_filename = form(&[part("; name=\"file\"", "x")]);
    check_no_file(&send(&server, no_filename));
    check_nothing_written(&server);
}

#[test]
fn existing_non_files_are_not_replaced() {
    // UP-04, UP-25
    let server = Server::start();
    let base = server.base();
    fs::create_dir(base.join("d")).unwrap();
    fs::write(base.join("f.txt"), "old").unwrap();
    assert!(Command::new("mkfifo").arg(base.join("fifo")).status().unwrap().success());
    let _socket = UnixListener::bind(base.join("socket")).unwrap();
    symlink("loop", base.join("loop")).unwrap();
    let before = all_paths(base);
    let long = "n".repeat(300);
    for (name, why) in [
        ("d", "[Errno 21] Is a directory: 'd'"),
        ("fifo", "[Errno 21] Is a directory: 'fifo'"),
        ("socket", "[Errno 21] Is a directory: 'socket'"),
        ("f.txt/x", "[Errno 20] Not a directory: 'f.txt/x'"),
        ("f.txt/x/y", "[Errno 20] Not a directory: 'f.txt/x/y'"),
        ("fifo/x", "[Errno 20] Not a directory: 'fifo/x'"),
        ("loop", "[Errno 40] Too many levels of symbolic links: 'loop'"),
        (&long, &format!("[Errno 36] File name too long: '{long}'")),
        (&format!("new/{long}"), &format!("[Errno 36] File name too long: 'new/{long}'")),
    ] {
        let started = Instant::now();
        let response = server.upload(name, b"x");
        assert_eq!(response.status, 400, "{name}");
        let message = response.json()["message"].as_str().unwrap().to_owned();
        // The reason for a FIFO or a socket may differ; it only has to be rejected.
        if !name.starts_with("fifo") && name != "socket" {
            assert_eq!(message, format!("File upload failed: {why}"), "{name}");
        }
        assert!(message.starts_with("File upload failed: "), "{message}");
        assert!(started.elapsed() < Duration::from_secs(2), "{name}");
        assert_eq!(all_paths(base), before, "{name}");
    }
    assert_eq!(fs::read_to_string(base.join("f.txt")).unwrap(), "old");
}

#[test]
fn filename_star_is_ignored() {
    // UP-06
    let server = Server::start();
    let both = form(&[part("; name=\"file\"; filename=\"ascii.txt\"; filename*=UTF-8''..%2Fevil", "x")]);
    check_uploaded(&send(&server, both), "ascii.txt");
    let other_order =
        form(&[part("; name=\"file\"; filename*=UTF-8''..%2Fevil; filename=\"ascii2.txt\"", "x")]);
    check_uploaded(&send(&server, other_order), "ascii2.txt");
    let alone = form(&[part("; name=\"file\"; filename*=UTF-8''evil", "x")]);
    check_no_file(&send(&server, alone));
    let names: Vec<_> = all_paths(server.base());
    assert_eq!(names, [server.base().join("ascii.txt"), server.base().join("ascii2.txt")]);
}

#[test]
fn boundary_lookalikes_are_content() {
    // UP-10
    let server = Server::start();
    for content in [
        "x--BBy\r\n--B\r\n-BB",
        "x\r\n--BBx\r\ny",
        "x\r\n--BBBB\r\ny",
        "\r\n--B\r\n--",
        "\n--BB\ny",
        "\r--BB\ry",
        "\r\r\n--bb\r\ny",
        "\r\n --BB\r\ny",
        "\r\n-- BB--\r\ny",
        "\r\n--BB-x",
        "\r\n--BB-\r\n",
        "--BB",
        "\r\n\r\n--B",
    ] {
        check_uploaded(&server.upload("f", content.as_bytes()), "f");
        assert_eq!(fs::read_to_string(server.base().join("f")).unwrap(), content);
    }
}

#[test]
fn missing_boundary_is_rejected_in_bounded_time_and_memory() {
    // UP-11
    let server = Server::start();
    // The second filler starts a partial boundary match over and over.
    for filler in ["x", "\r\n--B"] {
        let body = filler.repeat((32 << 20) / filler.len());
        let started = Instant::now();
        let response = send(&server, body);
        response.check(400, &json!({ "detail": "the form ends before its closing boundary" }));
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    }
    assert!(server.peak_memory_kib() < 16 << 10, "{} KiB", server.peak_memory_kib());
    check_nothing_written(&server);
}

#[test]
fn part_headers_and_part_count_are_bounded() {
    // UP-12
    let server = Server::start();
    let large = "the head of a part is too large";
    let many = "the form has too many parts";
    for (body, message) in [
        (form(&[format!("--BB\r\nX: {}\r\n\r\nx\r\n", "y".repeat(10 << 20))]), large),
        (form(&[format!("--BB\r\n{}\r\nx\r\n", "X: y\r\n".repeat(100_000))]), large),
        (format!("--BB\r\n{}", "y".repeat(1 << 20)), large),
        (form(&[part(&format!("; name=\"file\"; filename=\"{}\"", "a/".repeat(20_000)), "x")]), large),
        ("--BB\r\n\r\n\r\n".repeat(100_000), many),
    ] {
        send(&server, body).check(400, &json!({ "detail": message }));
    }
    assert!(server.peak_memory_kib() < 16 << 10, "{} KiB", server.peak_memory_kib());
    check_nothing_written(&server);
    let name = format!("{}f", "directory/".repeat(100));
    check_uploaded(&server.upload(&name, b"x"), &name);
    let parts: Vec<String> = (0..60).map(|number| part(&format!("; name=\"field{number}\""), "x")).collect();
    let file = part("; name=\"file\"; filename=\"g\"", "x");
    check_uploaded(&send(&server, form(&[parts.concat(), file])), "g");
}

#[test]
fn preamble_and_epilogue_are_skipped() {
    // UP-14
    let server = Server::start();
    let file = form(&[part("; name=\"file\"; filename=\"f\"", "content")]);
    for body in [
        format!("\r\n{file}"),
        format!("preamble\r\n{file}"),
        format!("--B\r\n--BBx\r\n{file}"),
        format!("{file}epilogue"),
        format!(
            "{file}--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"g\"\r\n\r\nx\r\n--BB--"
        ),
        file.trim_end().to_owned(),
        file.replace("--BB\r\n", "--BB \t\r\n"),
    ] {
        check_uploaded(&send(&server, &body), "f");
        assert_eq!(fs::read_to_string(server.base().join("f")).unwrap(), "content", "{body:?}");
        fs::remove_file(server.base().join("f")).unwrap();
        check_nothing_written(&server);
    }
}

#[test]
fn body_that_is_not_a_form_is_rejected() {
    // UP-19
    let server = Server::start();
    let file = form(&[part("; name=\"file\"; filename=\"f\"", "x")]);
    check_no_file(&send(&server, form(&[part("; name=\"other\"; filename=\"f\"", "x")])));
    check_no_file(&send(&server, form(&[part("; name=\"FILE\"; filename=\"f\"", "x")])));
    check_no_file(&send(&server, form(&[part("; filename=\"f\"", "x")])));
    check_no_file(&send(&server, form(&["--BB\r\n\r\nx\r\n".to_owned()])));
    check_no_file(&send(&server, ""));
    check_no_file(&send(&server, "--BB--"));
    check_no_file(&send(&server, "--BB--\r\n"));
    for content_type in
        ["application/json", "text/plain", "multipart/mixed; boundary=BB", "", "multipart", "x"]
    {
        check_no_file(&server.upload_body(content_type, file.as_bytes()));
    }
    check_no_file(&server.request("POST", "/upload", &[], file.as_bytes()));
    for content_type in
        ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"\""]
    {
        let response = server.upload_body(content_type, file.as_bytes());
        response.check(400, &json!({ "detail": "the content type names no multipart boundary" }));
    }
    for content_type in [
        format!("multipart/form-data; boundary={}", "B".repeat(71)),
        "multipart/form-data; boundary=B; boundary=BB".to_owned(),
        "multipart/form-data; boundary=\"BB".to_owned(),
        "multipart/form-data; boundary=\"B\u{1}B\"".replace('\u{1}', "\t"),
        "multipart/form-data; boundary=Bé".to_owned(),
        "multipart/form-data boundary=BB".to_owned(),
    ] {
        let response = server.upload_body(&content_type, file.as_bytes());
        assert!(matches!(response.status, 400 | 422), "{content_type}: {response:?}");
    }
    check_nothing_written(&server);
}

#[test]
fn ambiguous_part_is_rejected() {
    let server = Server::start();
    for (body, message) in [
        (
            form(&[part("; name=\"file\"; filename=\"f\"; filename=\"g\"", "x")]),
            "a part has two names of one kind",
        ),
        (
            form(&[part("; name=\"file\"; name=\"x\"; filename=\"f\"", "x")]),
            "a part has two names of one kind",
        ),
        (
            part("; name=\"file\"; filename=\"f\"", "x").replace(
                "\r\n\r\n",
                "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"g\"\r\n\r\n",
            ),
            "a part has two Content-Disposition headers",
        ),
        (
            form(&[part("; name=\"file\"; filename=\"f", "x")]),
            "a quoted header parameter has no closing quote",
        ),
        (form(&[part("; name=\"file\"; filename=\"f\"g", "x")]), "text follows a quoted header parameter"),
        (form(&["--BB\r\nno colon\r\n\r\nx\r\n".to_owned()]), "a part's header has no colon"),
        (
            form(&["--BB\r\nContent-Disposition : form-data\r\n\r\nx\r\n".to_owned()]),
            "a part's header has no valid name",
        ),
        (
            form(&["--BB\r\nContent-Disposition: attachment; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n"
                .to_owned()]),
            "a part is not form data",
        ),
        (
            form(&["--BB\r\nX: a\nContent-Disposition: form-data\r\n\r\nx\r\n".to_owned()]),
            "a part's header ends in a bare line feed",
        ),
        (form(&["--BB\r\nX: a\r\n folded: b\r\n\r\nx\r\n".to_owned()]), "a part's header has no valid name"),
    ] {
        send(&server, &body).check(400, &json!({ "detail": message }));
    }
    check_nothing_written(&server);
}

#[test]
fn truncated_body_keeps_the_old_file() {
    // UP-20
    let server = Server::start();
    fs::write(server.base().join("f"), "old").unwrap();
    let complete = part("; name=\"file\"; filename=\"f\"", "new content");
    let ends = ["", "--BB", "--BB-", "--B", "--", "\r\n"];
    for end in ends {
        let response = send(&server, format!("{complete}{end}"));
        response.check(400, &json!({ "detail": "the form ends before its closing boundary" }));
        let response = send(&server, format!("{}{end}", complete.trim_end()));
        assert_eq!(response.status, 400, "{end:?}");
    }
    // The client announces more than it sends, then disconnects or half-closes.
    for disconnects in [true, false] {
        let mut client = server.connect();
        begin_upload(&mut client, "f", 1 << 20);
        client.send(&[b'x'; 100_000]);
        assert!(eventually(|| all_paths(server.base()).len() == 2), "the upload has not started");
        if disconnects {
            drop(client);
        } else {
            client.stream.shutdown(std::net::Shutdown::Write).unwrap();
            client
                .response()
                .check(400, &json!({ "detail": "connection closed while reading the request body" }));
            assert!(client.is_closed());
        }
        assert!(eventually(|| all_paths(server.base()).len() == 1), "{:?}", all_paths(server.base()));
    }
    assert_eq!(fs::read_to_string(server.base().join("f")).unwrap(), "old");
}

/// Sends the request head and the part head of an upload whose body has `length` bytes.
fn begin_upload(client: &mut Client, name: &str, length: usize) {
    let start = format!("--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
    let head = format!(
        "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: {TYPE}\r\nContent-Length: {length}\r\n\r\n"
    );
    client.send(format!("{head}{start}").as_bytes());
}

#[test]
fn upload_becomes_visible_only_when_complete() {
    let server = Server::start();
    fs::write(server.base().join("f"), "old").unwrap();
    let end = "\r\n--BB--\r\n";
    let start = part("; name=\"file\"; filename=\"f\"", "").len() - 2;
    let content = vec![b'n'; 200_000];
    let mut client = server.connect();
    begin_upload(&mut client, "f", start + content.len() + end.len());
    client.send(&content);
    assert!(eventually(|| all_paths(server.base()).len() == 2), "the upload has not started");
    // Neither a listing nor a download shows the new content.
    let listing = server.get("/list/").json();
    assert_eq!((listing.as_array().unwrap().len(), &listing[0]["size"]), (1, &json!(3)));
    assert_eq!(server.get("/download/f").body, b"old");
    client.send(end.as_bytes());
    check_uploaded(&client.response(), "f");
    assert_eq!(server.get("/download/f").body, content);
    assert_eq!(all_paths(server.base()).len(), 1);
}

#[test]
fn concurrent_uploads_of_one_name_do_not_mix() {
    let server = Server::start();
    let contents: Vec<Vec<u8>> = (b'a'..=b'h').map(|letter| vec![letter; 100_000]).collect();
    std::thread::scope(|scope| {
        for content in &contents {
            scope.spawn(|| {
                for _ in 0..10 {
                    check_uploaded(&server.upload("d/f", content), "d/f");
                }
            });
        }
        for _ in 0..50 {
            let response = server.get("/download/d/f");
            assert!(response.status == 404 || contents.contains(&response.body), "{}", response.status);
        }
    });
    assert_eq!(all_paths(server.base()).len(), 2);
}

#[test]
fn last_file_part_wins() {
    // UP-21
    let server = Server::start();
    let file = |name: &str, content: &str| part(&format!("; name=\"file\"; filename=\"{name}\""), content);
    check_uploaded(&send(&server, form(&[file("t1", "one"), file("t2", "two")])), "t2");
    assert_eq!(all_paths(server.base()), [server.base().join("t2")]);
    let meta = part("; name=\"meta\"", "{}");
    let other = part("; name=\"other\"; filename=\"o\"", "other");
    let text = part("; name=\"file\"", "text");
    check_uploaded(&send(&server, form(&[meta.clone(), other.clone(), file("t3", "three")])), "t3");
    check_uploaded(&send(&server, form(&[file("t4", "four"), meta, other, text])), "t4");
    assert_eq!(fs::read_to_string(server.base().join("t4")).unwrap(), "four");
    // If the second file is rejected, the first is discarded too.
    let response = send(&server, form(&[file("t5", "five"), file("../t6", "six")]));
    response.check(403, &json!({ "message": "Access denied" }));
    assert_eq!(all_paths(server.base()).len(), 3);
}

#[test]
fn client_form_variants_are_accepted() {
    // UP-22
    let server = Server::start();
    let boundary = "'()+_,-./:=?0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW";
    let boundary = &boundary[..70];
    let file = form(&[part("; name=\"file\"; filename=\"f\"", "Zm9v")]);
    let with_head = |head: &str| form(&[format!("--BB\r\n{head}\r\n\r\nZm9v\r\n")]);
    for (content_type, body) in [
        ("multipart/form-data; boundary=\"BB\"".to_owned(), file.clone()),
        ("multipart/form-data; charset=utf-8; boundary=BB".to_owned(), file.clone()),
        ("multipart/form-data;boundary=BB".to_owned(), file.clone()),
        ("MULTIPART/FORM-DATA; BOUNDARY=BB".to_owned(), file.clone()),
        ("multipart/form-data; boundary=BB; charset=utf-8".to_owned(), file.clone()),
        (format!("multipart/form-data; boundary=\"{boundary}\""), file.replace("BB", boundary)),
        (TYPE.to_owned(), with_head("content-disposition: form-data; name=\"file\"; filename=\"f\"")),
        (TYPE.to_owned(), with_head("CONTENT-DISPOSITION: FORM-DATA; NAME=\"file\"; FILENAME=\"f\"")),
        (TYPE.to_owned(), with_head("Content-Disposition: form-data; name=file; filename=f")),
        (TYPE.to_owned(), with_head("Content-Disposition:form-data;filename=\"f\";name=\"file\"")),
        (
            TYPE.to_owned(),
            with_head(
                "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\
                 Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\nX-Other: y",
            ),
        ),
    ] {
        let response = server.upload_body(&content_type, body.as_bytes());
        check_uploaded(&response, "f");
        // The content is stored raw, regardless of Content-Transfer-Encoding.
        assert_eq!(fs::read_to_string(server.base().join("f")).unwrap(), "Zm9v", "{content_type}");
        fs::remove_file(server.base().join("f")).unwrap();
    }
}

#[test]
fn large_upload_is_streamed_and_blocks_no_client() {
    // UP-15, with a smaller file: 256 MiB need no more memory than none.
    let server = Server::start();
    let size = 256 << 20;
    let end = "\r\n--BB--\r\n";
    let start = part("; name=\"file\"; filename=\"big\"", "").len() - 2;
    let mut client = server.connect();
    begin_upload(&mut client, "big", start + size + end.len());
    let piece = vec![b'x'; 1 << 20];
    for round in 0..size / piece.len() {
        client.send(&piece);
        if round % 64 == 32 {
            let started = Instant::now();
            assert_eq!(server.get("/").status, 200);
            assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        }
    }
    client.send(end.as_bytes());
    check_uploaded(&client.response(), "big");
    assert_eq!(fs::metadata(server.base().join("big")).unwrap().len(), size as u64);
    assert!(server.peak_memory_kib() < 16 << 10, "{} KiB", server.peak_memory_kib());
}

#[test]
fn upload_past_the_limit_is_413_and_leaves_nothing() {
    let server = Server::with(&[("SANDBOX_MAX_UPLOAD_BYTES", "1000")]);
    let rejection = json!({ "detail": "the body is larger than 1000 bytes" });
    let capacity = 1000 - form(&[part("; name=\"file\"; filename=\"f\"", "")]).len();
    check_uploaded(&server.upload("f", &vec![b'x'; capacity]), "f");
    server.upload("f", &vec![b'y'; capacity + 1]).check(413, &rejection);
    assert_eq!(fs::read(server.base().join("f")).unwrap(), vec![b'x'; capacity]);
    let body = form(&[part("; name=\"file\"; filename=\"g\"", &"y".repeat(2000))]);
    let mut client = server.connect();
    client.send(
        format!(
            "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: {TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        .as_bytes(),
    );
    for piece in body.as_bytes().chunks(500) {
        client.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    }
    client.response().check(413, &rejection);
    assert!(eventually(|| all_paths(server.base()).len() == 1));
}

/// A 10 MiB tmpfs, unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, with a message, if mounting is not permitted.
    fn mount(mount_point: &Path) -> Option<Self> {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=10m", "tmpfs"]).arg(mount_point).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Self(mount_point.to_owned()));
        }
        eprintln!("skipped: mounting a tmpfs is not permitted");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn full_disk_is_507_and_keeps_the_old_file() {
    // UP-17
    let scratch = TempDir::new();
    let Some(disk) = SmallDisk::mount(scratch.path()) else { return };
    let mut command = binary();
    command.env("SANDBOX_BASE_DIR", &disk.0);
    let server = Server::from_command(command, TempDir::new());
    check_uploaded(&server.upload("f", b"old"), "f");
    let large = vec![b'x'; 20 << 20];
    for name in ["f", "new", "d/new"] {
        check_failed(
            &server.upload(name, &large),
            507,
            &format!("[Errno 28] No space left on device: '{name}'"),
        );
    }
    assert_eq!(fs::read_to_string(disk.0.join("f")).unwrap(), "old");
    assert_eq!(all_paths(&disk.0), [disk.0.join("d"), disk.0.join("f")]);
    // The space is free again immediately.
    check_uploaded(&server.upload("g", &large[..8 << 20]), "g");
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn symlink_is_followed_inside_and_denied_outside() {
    // UP-24
    let outside = TempDir::new();
    fs::write(outside.path().join("f"), "outside").unwrap();
    let server = Server::start();
    let base = server.base();
    fs::write(base.join("f.txt"), "0123456789").unwrap();
    symlink(outside.path().join("f"), base.join("link_out")).unwrap();
    symlink(outside.path().join("new"), base.join("link_out_new")).unwrap();
    symlink(outside.path(), base.join("dirlink_out")).unwrap();
    symlink("f.txt", base.join("link_in")).unwrap();
    for name in
        ["link_out", "link_out_new", "dirlink_out/x", "dirlink_out/f", "dirlink_out/new/x", "dirlink_out"]
    {
        server.upload(name, b"evil").check(403, &json!({ "message": "Access denied" }));
    }
    assert_eq!(fs::read_to_string(outside.path().join("f")).unwrap(), "outside");
    assert_eq!(all_paths(outside.path()).len(), 1);
    check_uploaded(&server.upload("link_in", b"new"), "link_in");
    assert_eq!(fs::read_to_string(base.join("link_in")).unwrap(), "new");
    assert_eq!(all_paths(base).len(), 5);
}

#[test]
fn hard_link_elsewhere_keeps_its_content() {
    let server = Server::start();
    let elsewhere = TempDir::new();
    fs::write(server.base().join("f"), "shared").unwrap();
    fs::hard_link(server.base().join("f"), elsewhere.path().join("f")).unwrap();
    check_uploaded(&server.upload("f", b"new"), "f");
    assert_eq!(fs::read_to_string(elsewhere.path().join("f")).unwrap(), "shared");
}

#[test]
fn uploaded_file_has_default_mode_and_owner() {
    // UP-27
    let base = TempDir::new();
    let mut command = Command::new("/bin/sh");
    // The server's umask applies. A shell sets it, since umask(2) would need unsafe code here.
    command.args(["-c", "umask 022; exec \"$0\"", env!("CARGO_BIN_EXE_sandbox-runtime")]);
    command.env("SANDBOX_BASE_DIR", base.path());
    let server = Server::from_command(command, base);
    let path = server.base().join("run.sh");
    check_uploaded(&server.upload("run.sh", b"echo hello\n"), "run.sh");
    let own_uid = fs::metadata("/proc/self").unwrap().uid();
    let check_new = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o7777, metadata.uid()), (0o644, own_uid), "{path:?}");
    };
    check_new(&path);
    server.execute("cat run.sh").check("echo hello\n", "", 0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4700)).unwrap();
    check_uploaded(&server.upload("run.sh", b"echo again\n"), "run.sh");
    check_new(&path);
    server.execute("sh run.sh").check("again\n", "", 0);
    check_uploaded(&server.upload("new/dir/f", b""), "new/dir/f");
    assert_eq!(fs::metadata(server.base().join("new")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn response_is_valid_json_for_any_name() {
    let server = Server::start();
    for name in ["a'b", "a{b}", "分", "a\\\\b", "<script>"] {
        let response = server.upload(name, b"x");
        assert_eq!(response.status, 200, "{name}: {response:?}");
        assert!(matches!(response.json()["message"], Value::String(_)), "{name}");
    }
    let body = b"--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"caf\xe9\"\r\n\r\n\
                 x\r\n--BB--\r\n";
    check_uploaded(&send(&server, body), "caf\u{fffd}");
    assert_eq!(server.get("/download/caf%E9").body, b"x");
}
