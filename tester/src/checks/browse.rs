//! `/list` and `/exists`.

use super::{Check, check};
use crate::answer::{Exchange, Stop, Verdict};
use crate::http::Method;
use crate::json::Value;
use crate::request::{Request, encoded};
use crate::session::{Reference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("a listing has name, size, type and mod_time", entries),
    check("a listing has nothing but what is there", nothing_else),
    check("listing what is not a directory is 404", not_a_directory),
    check("/list without a slash lists the base directory", list_root),
    check("exists says true and false", exists),
    check("/exists without a slash is the base directory", exists_root),
    check("exists shows the path decoded once, bad escapes as they are", decoded_path),
    check("paths that cannot be are false, not an error", odd_paths),
    check("an encoded slash is a slash, a doubled one too", slashes),
    check("HEAD works on /list and /exists", head),
    check("a dangling link does not spoil a listing", dangling_link),
    check("a name that is not UTF-8 does not spoil a listing", odd_name),
];

fn list(s: &Session, path: &str) -> Result<Exchange, Stop> {
    s.get(&format!("/list/{}", encoded(path)))
}

fn named<'a>(listing: &'a Value, name: &str) -> Option<&'a Value> {
    listing.array()?.iter().find(|entry| entry.get("name").and_then(Value::text) == Some(name))
}

fn is_entry(entry: &Value, kind: &str) -> bool {
    let time = match entry.get("mod_time") {
        Some(Value::Number(text)) => text.parse().unwrap_or(0.0),
        _ => 0.0,
    };
    let size = entry.get("size").and_then(Value::integer);
    let keys = entry.keys() == ["mod_time", "name", "size", "type"];
    // After 2001, so that neither milliseconds nor a zero pass for seconds.
    keys && size.is_some()
        && entry.get("type").and_then(Value::text) == Some(kind)
        && (1e9..1e11).contains(&time)
}

fn entries(s: &Session) -> Verdict {
    s.file("listed/five.txt", b"12345")?;
    s.file("listed/folder/f", b"")?;
    let exchange = list(s, &s.path("listed"))?;
    exchange.status(200)?;
    let listing = exchange.json()?;
    let file = named(&listing, "five.txt");
    let size = file.and_then(|entry| entry.get("size")).and_then(Value::integer);
    let met = file.is_some_and(|entry| is_entry(entry, "file")) && size == Some(5);
    exchange.expect(met, r#"{"name":"five.txt","size":5,"type":"file","mod_time":<seconds>}"#)?;
    let met = named(&listing, "folder").is_some_and(|entry| is_entry(entry, "directory"));
    exchange.expect(met, r#"{"name":"folder","size":...,"type":"directory","mod_time":<seconds>}"#)
}

fn nothing_else(s: &Session) -> Verdict {
    let names = ["a b", "%41", "quo\"te", "é😀"];
    for name in names {
        s.file(&format!("counted/{name}"), b"x")?;
    }
    let exchange = list(s, &s.path("counted/"))?;
    exchange.status(200)?;
    let listing = exchange.json()?;
    let all = names.iter().all(|name| named(&listing, name).is_some());
    let count = listing.array().map(<[Value]>::len);
    exchange.expect(all && count == Some(names.len()), &format!("exactly {names:?}"))
}

const NOT_A_DIRECTORY: &str = r#"{"message":"Path is not a directory"}"#;

fn not_a_directory(s: &Session) -> Verdict {
    let file = s.file("plain", b"")?;
    list(s, &file)?.is(404, NOT_A_DIRECTORY)?;
    list(s, &s.path("nothing-here"))?.is(404, NOT_A_DIRECTORY)
}

// HP-31
fn list_root(s: &Session) -> Verdict {
    s.file("plain", b"")?;
    let listed = |exchange: &Exchange| {
        exchange.status(200)?;
        let ours = named(&exchange.json()?, &s.directory).is_some_and(|entry| is_entry(entry, "directory"));
        exchange.expect(ours, &format!("an entry for the directory {}", s.directory))
    };
    listed(&s.get("/list/")?)?;
    let exchange = s.get("/list")?;
    let seen = exchange.response.status == 307;
    s.differs(listed(&exchange), Reference { which: "no redirect is ever sent", seen })
}

fn answers(s: &Session, target: &str, path: &str, exists: bool) -> Result<Exchange, Stop> {
    let exchange = s.get(target)?;
    exchange.is(200, &format!("{{\"path\":{},\"exists\":{exists}}}", crate::json::string(path)))?;
    Ok(exchange)
}

fn exists(s: &Session) -> Verdict {
    let file = s.file("plain", b"")?;
    answers(s, &format!("/exists/{file}"), &file, true)?;
    answers(s, &format!("/exists/{}", s.directory), &s.directory, true)?;
    answers(s, "/exists/nothing-here", "nothing-here", false)?;
    Ok(())
}

// EXI-01, HP-31
fn exists_root(s: &Session) -> Verdict {
    answers(s, "/exists/", "", true)?;
    answers(s, "/exists/.", ".", true)?;
    let exchange = s.get("/exists")?;
    let seen = exchange.response.status == 307;
    let result = exchange.is(200, r#"{"path":"","exists":true}"#);
    s.differs(result, Reference { which: "no redirect is ever sent", seen })
}

// CF-10, HP-33
fn decoded_path(s: &Session) -> Verdict {
    for (target, path) in [
        ("nothing%20here", "nothing here"),
        ("nothing%3Fhere", "nothing?here"),
        ("nothing+here", "nothing+here"),
        ("n%C3%A9", "né"),
        ("n%zz", "n%zz"),
        ("n%2", "n%2"),
        ("n%", "n%"),
    ] {
        answers(s, &format!("/exists/{target}"), path, false)?;
    }
    let exchange = s.get("/exists/n%2541")?;
    let seen = exchange.response.body == br#"{"path":"nA","exists":false}"#;
    let result = exchange.is(200, r#"{"path":"n%41","exists":false}"#);
    s.differs(result, Reference { which: "difference 8", seen })
}

// EXI-02
fn odd_paths(s: &Session) -> Verdict {
    let file = s.file("plain", b"")?;
    for path in [format!("{file}/x"), "n".repeat(300), "n/".repeat(3000) + "n"] {
        answers(s, &format!("/exists/{path}"), &path, false)?;
    }
    Ok(())
}

// CF-09, CF-11
fn slashes(s: &Session) -> Verdict {
    let file = s.file("folder/f", b"")?;
    let directory = &s.directory;
    answers(s, &format!("/exists/{directory}%2ffolder%2Ff"), &file, true)?;
    answers(s, &format!("/exists/{directory}//folder//f"), &format!("{directory}//folder//f"), true)?;
    answers(
        s,
        &format!("/exists/{directory}/./folder/../folder/f"),
        &format!("{directory}/./folder/../folder/f"),
        true,
    )?;
    // An absolute path is one below the base directory.
    answers(s, &format!("/exists//{file}"), &format!("/{file}"), true)?;
    answers(s, &format!("/exists/%2F{file}"), &format!("/{file}"), true)?;
    Ok(())
}

fn head(s: &Session) -> Verdict {
    for target in ["/list/", "/exists/"] {
        let mut talk = s.talk()?;
        talk.request(Request::new("HEAD", target))?;
        let exchange = talk.next_answer(Method::Head)?;
        let seen = exchange.response.status == 405;
        s.differs(exchange.status(200), Reference { which: "difference 12", seen })?;
        talk.request(Request::new("GET", "/"))?;
        talk.answer()?.status(200)?;
    }
    Ok(())
}

// LI-01
fn dangling_link(s: &Session) -> Verdict {
    s.needs(&["ln"])?;
    s.file("dangling/ok", b"")?;
    s.execute(&format!("ln -s /nonexistent {}", s.path("dangling/link")))?.is("", "", 0)?;
    let exchange = list(s, &s.path("dangling"))?;
    let seen = exchange.response.status == 500;
    s.differs(exchange.status(200), Reference { which: "difference 9", seen })?;
    exchange.expect(named(&exchange.json()?, "ok").is_some(), "an entry for ok")
}

// LI-02
fn odd_name(s: &Session) -> Verdict {
    s.needs(&["sh", "printf"])?;
    s.file("odd/ok", b"")?;
    let made = s.execute(&format!(r#"sh -c 'echo x > {}/"$(printf "caf\351")"'"#, s.path("odd")))?;
    made.is("", "", 0)?;
    let exchange = list(s, &s.path("odd"))?;
    let seen = exchange.response.status == 500;
    s.differs(exchange.status(200), Reference { which: "difference 9", seen })?;
    let listing = exchange.json()?;
    let both = named(&listing, "ok").is_some() && named(&listing, "caf\u{fffd}").is_some();
    exchange.expect(both, "entries for ok and caf\u{fffd}")
}
