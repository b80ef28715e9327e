//! `/list` and `/exists`.

use super::{Check, check};
use crate::http::Method;
use crate::json::Value;
use crate::request::{Request, encoded};
use crate::response::{Exchange, Stop, Verdict};
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("a listing entry has name, size, type and mod_time", entries),
    check("a listing has exactly the existing entries", listing_is_exact),
    check("listing a path that is not a directory is 404", not_a_directory),
    check("/list without a slash lists the base directory", list_root),
    check("/exists reports true and false", exists),
    check("/exists without a slash is the base directory", exists_root),
    check("/exists shows the path decoded once, with invalid escapes unchanged", decoded_path),
    check("an impossible path does not exist, without an error", impossible_paths),
    check("encoded and doubled slashes are slashes", slashes),
    check("HEAD works on /list and /exists", head),
    check("a dangling symlink does not break a listing", dangling_link),
    check("a name that is not UTF-8 does not break a listing", invalid_utf8_name),
];

fn list(s: &Session, path: &str) -> Result<Exchange, Stop> {
    s.get(&format!("/list/{}", encoded(path)))
}

fn entry_named<'a>(listing: &'a Value, name: &str) -> Option<&'a Value> {
    listing.array()?.iter().find(|entry| entry.get("name").and_then(Value::text) == Some(name))
}

fn is_entry(entry: &Value, entry_type: &str) -> bool {
    let time = match entry.get("mod_time") {
        Some(Value::Number(text)) => text.parse().unwrap_or(0.0),
        _ => 0.0,
    };
    let size = entry.get("size").and_then(Value::integer);
    let keys = entry.keys() == ["mod_time", "name", "size", "type"];
    // After 2001 and in seconds: neither zero nor milliseconds.
    keys && size.is_some()
        && entry.get("type").and_then(Value::text) == Some(entry_type)
        && (1e9..1e11).contains(&time)
}

fn entries(s: &Session) -> Verdict {
    s.file("listed/five.txt", b"12345")?;
    s.file("listed/folder/f", b"")?;
    let exchange = list(s, &s.path("listed"))?;
    exchange.expect_status(200)?;
    let listing = exchange.json()?;
    let file = entry_named(&listing, "five.txt");
    let size = file.and_then(|entry| entry.get("size")).and_then(Value::integer);
    let met = file.is_some_and(|entry| is_entry(entry, "file")) && size == Some(5);
    exchange.expect(met, r#"{"name":"five.txt","size":5,"type":"file","mod_time":<seconds>}"#)?;
    let met = entry_named(&listing, "folder").is_some_and(|entry| is_entry(entry, "directory"));
    exchange.expect(met, r#"{"name":"folder","size":...,"type":"directory","mod_time":<seconds>}"#)
}

fn listing_is_exact(s: &Session) -> Verdict {
    let names = ["a b", "%41", "quo\"te", "é😀"];
    for name in names {
        s.file(&format!("counted/{name}"), b"x")?;
    }
    let exchange = list(s, &s.path("counted/"))?;
    exchange.expect_status(200)?;
    let listing = exchange.json()?;
    let all = names.iter().all(|name| entry_named(&listing, name).is_some());
    let count = listing.array().map(<[Value]>::len);
    exchange.expect(all && count == Some(names.len()), &format!("exactly the entries {names:?}"))
}

const NOT_A_DIRECTORY: &str = r#"{"message":"Path is not a directory"}"#;

fn not_a_directory(s: &Session) -> Verdict {
    let file = s.file("plain", b"")?;
    list(s, &file)?.expect_json(404, NOT_A_DIRECTORY)?;
    list(s, &s.path("nothing-here"))?.expect_json(404, NOT_A_DIRECTORY)
}

// HP-31
fn list_root(s: &Session) -> Verdict {
    s.file("plain", b"")?;
    let listed = |exchange: &Exchange| {
        exchange.expect_status(200)?;
        let is_listed =
            entry_named(&exchange.json()?, &s.directory).is_some_and(|entry| is_entry(entry, "directory"));
        exchange.expect(is_listed, &format!("an entry for the directory {}", s.directory))
    };
    for target in ["/list/", "/list/.", "/list/%2E", "/list/%2F", &format!("/list/{}/..", s.directory)] {
        listed(&s.get(target)?)?;
    }
    let exchange = s.get("/list")?;
    let observed = exchange.response.status == 307;
    s.allow(listed(&exchange), KnownDifference { name: "redirects", observed })
}

fn check_exists(s: &Session, target: &str, path: &str, exists: bool) -> Result<Exchange, Stop> {
    let exchange = s.get(target)?;
    exchange.expect_json(200, &format!("{{\"path\":{},\"exists\":{exists}}}", crate::json::string(path)))?;
    Ok(exchange)
}

fn exists(s: &Session) -> Verdict {
    let file = s.file("plain", b"")?;
    check_exists(s, &format!("/exists/{file}"), &file, true)?;
    check_exists(s, "/exists/nothing-here", "nothing-here", false)?;
    let directory = &s.directory;
    check_exists(s, &format!("/exists/{directory}"), directory, true)?;
    for slash in ["/", "%2F"] {
        check_exists(s, &format!("/exists/{directory}{slash}"), &format!("{directory}/"), true)?;
    }
    let spaced = s.file("a b", b"")?;
    check_exists(s, &format!("/exists/{directory}/a%20b"), &spaced, true)?;
    check_exists(s, &format!("/exists/{directory}/a+b"), &s.path("a+b"), false)?;
    Ok(())
}

// EXI-01, HP-31
fn exists_root(s: &Session) -> Verdict {
    check_exists(s, "/exists/", "", true)?;
    check_exists(s, "/exists/.", ".", true)?;
    check_exists(s, "/exists/%2e", ".", true)?;
    let exchange = s.get("/exists")?;
    let observed = exchange.response.status == 307;
    let result = exchange.expect_json(200, r#"{"path":"","exists":true}"#);
    s.allow(result, KnownDifference { name: "redirects", observed })
}

// CF-10, HP-33
fn decoded_path(s: &Session) -> Verdict {
    for (target, path) in [
        ("nothing%20here", "nothing here"),
        ("nothing%3Fhere", "nothing?here"),
        ("nothing+here", "nothing+here"),
        ("n%C3%A9", "né"),
        ("%22%5C", "\"\\"),
        ("n%zz", "n%zz"),
        ("n%2", "n%2"),
        ("n%", "n%"),
    ] {
        check_exists(s, &format!("/exists/{target}"), path, false)?;
    }
    let exchange = s.get("/exists/n%2541")?;
    let observed = exchange.response.body == br#"{"path":"nA","exists":false}"#;
    let result = exchange.expect_json(200, r#"{"path":"n%41","exists":false}"#);
    s.allow(result, KnownDifference { name: "difference 8", observed })?;
    let exchange = s.get("/exists/%22%5C%0A")?;
    let observed = exchange.response.body == br#"{"path":"\"\\","exists":false}"#;
    let result = exchange.expect_json(200, r#"{"path":"\"\\\n","exists":false}"#);
    s.allow(result, KnownDifference { name: "a final line feed is lost", observed })
}

// EXI-02
fn impossible_paths(s: &Session) -> Verdict {
    let file = s.file("plain", b"")?;
    for path in [format!("{file}/x"), "n".repeat(300), "n/".repeat(3000) + "n"] {
        check_exists(s, &format!("/exists/{path}"), &path, false)?;
    }
    Ok(())
}

// CF-09, CF-11
fn slashes(s: &Session) -> Verdict {
    let file = s.file("folder/f", b"in the folder")?;
    let directory = &s.directory;
    check_exists(s, &format!("/exists/{directory}%2ffolder%2Ff"), &file, true)?;
    check_exists(s, &format!("/exists/{directory}//folder//f"), &format!("{directory}//folder//f"), true)?;
    check_exists(
        s,
        &format!("/exists/{directory}/./folder/../folder/f"),
        &format!("{directory}/./folder/../folder/f"),
        true,
    )?;
    // An absolute path is relative to the base directory.
    check_exists(s, &format!("/exists//{file}"), &format!("/{file}"), true)?;
    check_exists(s, &format!("/exists/%2F{file}"), &format!("/{file}"), true)?;
    for path in [
        format!("{directory}%2ffolder%2ff"),
        format!("{directory}%2Ffolder%2Ff"),
        format!("%2f{directory}/folder%2ff"),
        format!("{directory}/%66older/f"),
        format!("./{directory}%2f./folder/f"),
    ] {
        let exchange = s.get(&format!("/download/{path}"))?;
        exchange.expect_status(200)?;
        exchange.expect_body(b"in the folder")?;
    }
    Ok(())
}

fn head(s: &Session) -> Verdict {
    for target in ["/list/", "/exists/"] {
        let mut client = s.client()?;
        client.send_request(Request::new("HEAD", target))?;
        let exchange = client.next_response(Method::Head)?;
        let observed = exchange.response.status == 405;
        s.allow(exchange.expect_status(200), KnownDifference { name: "difference 12", observed })?;
        client.send_request(Request::new("GET", "/"))?;
        client.response()?.expect_status(200)?;
    }
    Ok(())
}

// LI-01
fn dangling_link(s: &Session) -> Verdict {
    s.needs(&["ln"])?;
    s.file("dangling/ok", b"")?;
    s.execute(&format!("ln -s /nonexistent {}", s.path("dangling/link")))?.expect_result("", "", 0)?;
    let exchange = list(s, &s.path("dangling"))?;
    let observed = exchange.response.status == 500;
    s.allow(exchange.expect_status(200), KnownDifference { name: "difference 9", observed })?;
    exchange.expect(entry_named(&exchange.json()?, "ok").is_some(), "an entry for ok")
}

// LI-02
fn invalid_utf8_name(s: &Session) -> Verdict {
    s.needs(&["sh", "printf"])?;
    s.file("odd/ok", b"")?;
    let created = s.execute(&format!(r#"sh -c 'echo x > {}/"$(printf "caf\351")"'"#, s.path("odd")))?;
    created.expect_result("", "", 0)?;
    let exchange = list(s, &s.path("odd"))?;
    let observed = exchange.response.status == 500;
    s.allow(exchange.expect_status(200), KnownDifference { name: "difference 9", observed })?;
    let listing = exchange.json()?;
    let both = entry_named(&listing, "ok").is_some() && entry_named(&listing, "caf\u{fffd}").is_some();
    exchange.expect(both, "entries for ok and caf\u{fffd}")
}
