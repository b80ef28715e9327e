//! No path leaves the base directory, in any encoding, on any endpoint.

use super::{Check, check};
use crate::response::Verdict;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check(".. is 403 on /download, /list and /exists, in any encoding", parent_in_a_target),
    check(".. is 403 on /upload", parent_in_a_name),
    check("a NUL in a path is 403", nul),
    check("an absolute upload name is relative to the base directory", absolute_name),
    check("a symlink out of the base directory is 403 on every endpoint", link_out),
    check("a symlink within the base directory is followed", link_inside),
];

const DENIED: &str = r#"{"message":"Access denied"}"#;
const ENDPOINTS: [&str; 3] = ["download", "list", "exists"];

fn parent_in_a_target(s: &Session) -> Verdict {
    s.file("plain", b"")?;
    let ours = &s.directory;
    for endpoint in ENDPOINTS {
        for path in [
            "..",
            "../",
            "../etc/passwd",
            "%2e%2e",
            "%2E%2E/etc",
            "..%2Fetc%2Fpasswd",
            "%2e%2e%2fetc%2fpasswd",
            "/../etc",
            "%2F..%2Fetc",
            &format!("{ours}/../../etc/passwd"),
            &format!("{ours}%2F..%2F..%2Fetc"),
        ] {
            s.get(&format!("/{endpoint}/{path}"))?.expect_json(403, DENIED)?;
        }
    }
    Ok(())
}

// UP-02
fn parent_in_a_name(s: &Session) -> Verdict {
    let name = format!("{}-escaped", s.directory);
    for name in [format!("../{name}"), format!("a/../../{name}"), format!("/../{name}"), "..".to_owned()] {
        s.upload(&name, b"x")?.expect_json(403, DENIED)?;
    }
    Ok(())
}

// CF-08
fn nul(s: &Session) -> Verdict {
    let file = s.file("folder/f", b"")?;
    let folder = s.path("folder");
    for endpoint in ENDPOINTS {
        for path in [
            "%00",
            &format!("{file}%00.png"),
            &format!("{file}%00"),
            &format!("{folder}%00"),
            &format!("{folder}%2ff%00"),
            &format!("{folder}%00/f"),
        ] {
            s.get(&format!("/{endpoint}/{path}"))?.expect_json(403, DENIED)?;
        }
    }
    Ok(())
}

// UP-02
fn absolute_name(s: &Session) -> Verdict {
    for slashes in ["/", "//"] {
        let path = s.path(&format!("absolute-{}", slashes.len()));
        s.upload(&format!("{slashes}{path}"), b"x")?.expect_status(200)?;
        s.get(&format!("/download/{path}"))?.expect_body(b"x")?;
    }
    Ok(())
}

// UP-24
fn link_out(s: &Session) -> Verdict {
    s.needs(&["ln"])?;
    s.file("links/f", b"")?;
    for (target, name) in
        [("/", "links/absolute"), ("../../..", "links/relative"), ("/proc/self/root", "links/magic")]
    {
        let link = s.path(name);
        s.execute(&format!("ln -s {target} {link}"))?.expect_result("", "", 0)?;
        for endpoint in ENDPOINTS {
            s.get(&format!("/{endpoint}/{link}/dev"))?.expect_json(403, DENIED)?;
        }
        s.upload(&format!("{link}/tmp/{}-escaped", s.directory), b"x")?.expect_json(403, DENIED)?;
    }
    Ok(())
}

fn link_inside(s: &Session) -> Verdict {
    s.needs(&["ln"])?;
    s.file("inside/folder/f", b"followed")?;
    let link = s.path("inside/link");
    s.execute(&format!("ln -s folder {link}"))?.expect_result("", "", 0)?;
    let exchange = s.get(&format!("/download/{link}/f"))?;
    exchange.expect_status(200)?;
    exchange.expect_body(b"followed")?;
    s.get(&format!("/list/{link}"))?.expect_status(200)
}
