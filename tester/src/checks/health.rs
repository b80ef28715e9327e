//! `GET /`, and requests that match no route.

use super::{Check, check};
use crate::http::Method;
use crate::request::Request;
use crate::response::Verdict;
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("GET / reports that the runtime is active", health_is_active),
    check("a query is not part of the path", query_is_ignored),
    check("HEAD / has the headers of GET / and no body", head_has_no_body),
    check("an unknown path is 404", unknown_path),
    check("a wrong method is 405 with Allow", wrong_method),
    check("a trailing slash after /execute is 404, not a redirect", no_redirect),
];

pub(super) const HEALTH: &str = r#"{"status":"ok","message":"Sandbox Runtime is active."}"#;

fn health_is_active(s: &Session) -> Verdict {
    s.get("/")?.expect_json(200, HEALTH)
}

// HP-33
fn query_is_ignored(s: &Session) -> Verdict {
    s.get("/?probe=1")?.expect_json(200, HEALTH)?;
    s.get("/exists/nothing-here?x=/../..")?.expect_json(200, r#"{"path":"nothing-here","exists":false}"#)
}

// HP-29: a body after HEAD would be parsed as the start of the next response.
fn head_has_no_body(s: &Session) -> Verdict {
    let mut client = s.client()?;
    client.send_request(Request::new("HEAD", "/"))?;
    let head = client.next_response(Method::Head)?;
    let observed = head.response.status == 405;
    s.allow(head.expect_status(200), KnownDifference { name: "difference 12", observed })?;
    client.send_request(Request::new("GET", "/").header("Connection", "close"))?;
    let get = client.response()?;
    get.expect_json(200, HEALTH)?;
    head.expect_header("Content-Length", &get.response.body.len().to_string())?;
    head.expect_header("Content-Type", get.response.header("content-type").unwrap_or_default())
}

fn unknown_path(s: &Session) -> Verdict {
    for target in ["/nosuch", "/healthz", "/executed", "/Execute"] {
        s.get(target)?.expect_json(404, r#"{"detail":"Not Found"}"#)?;
    }
    Ok(())
}

fn wrong_method(s: &Session) -> Verdict {
    for (method, target, allowed) in [
        ("DELETE", "/", "GET"),
        ("POST", "/", "GET"),
        ("GET", "/execute", "POST"),
        ("GET", "/upload", "POST"),
        ("POST", "/list/", "GET"),
        ("PUT", "/exists/a", "GET"),
        ("DELETE", "/download/a", "GET"),
    ] {
        let exchange = s.send(Request::new(method, target))?;
        exchange.expect_json(405, r#"{"detail":"Method Not Allowed"}"#)?;
        let allow = exchange.response.header("allow").unwrap_or_default();
        let is_allowed = allow.split(',').any(|method| method.trim() == allowed);
        exchange.expect(is_allowed, &format!("Allow: {allowed}"))?;
    }
    Ok(())
}

// HP-31
fn no_redirect(s: &Session) -> Verdict {
    let exchange = s.send(Request::new("POST", "/execute/"))?;
    let observed = exchange.response.status == 307;
    let result = exchange.expect_json(404, r#"{"detail":"Not Found"}"#);
    s.allow(result, KnownDifference { name: "redirects", observed })
}
