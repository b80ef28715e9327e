//! `GET /`, and what is answered where there is nothing.

use super::{Check, check};
use crate::answer::Verdict;
use crate::http::Method;
use crate::request::Request;
use crate::session::{Reference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("GET / says the runtime is active", health_is_active),
    check("a query is not part of the path", query_is_ignored),
    check("HEAD / has the head of GET / and no body", head_has_no_body),
    check("an unknown path is 404", unknown_path),
    check("a wrong method is 405 and names the right one", wrong_method),
    check("a trailing slash after /execute is 404, not a redirect", no_redirect),
];

const HEALTH: &str = r#"{"status":"ok","message":"Sandbox Runtime is active."}"#;

fn health_is_active(s: &Session) -> Verdict {
    s.get("/")?.is(200, HEALTH)
}

// HP-33
fn query_is_ignored(s: &Session) -> Verdict {
    s.get("/?probe=1")?.is(200, HEALTH)?;
    s.get("/exists/nothing-here?x=/../..")?.is(200, r#"{"path":"nothing-here","exists":false}"#)
}

// HP-29: a body after HEAD would be taken for the start of the next answer.
fn head_has_no_body(s: &Session) -> Verdict {
    let mut talk = s.talk()?;
    talk.request(Request::new("HEAD", "/"))?;
    let head = talk.next_answer(Method::Head)?;
    let seen = head.response.status == 405;
    s.differs(head.status(200), Reference { which: "difference 12", seen })?;
    talk.request(Request::new("GET", "/").header("Connection", "close"))?;
    let whole = talk.answer()?;
    whole.is(200, HEALTH)?;
    head.header_is("Content-Length", &whole.response.body.len().to_string())?;
    head.header_is("Content-Type", whole.response.header("content-type").unwrap_or_default())
}

fn unknown_path(s: &Session) -> Verdict {
    for target in ["/nosuch", "/healthz", "/executed", "/Execute"] {
        s.get(target)?.is(404, r#"{"detail":"Not Found"}"#)?;
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
        exchange.is(405, r#"{"detail":"Method Not Allowed"}"#)?;
        let allow = exchange.response.header("allow").unwrap_or_default();
        let named = allow.split(',').any(|method| method.trim() == allowed);
        exchange.expect(named, &format!("Allow: {allowed}"))?;
    }
    Ok(())
}

// HP-31
fn no_redirect(s: &Session) -> Verdict {
    let exchange = s.send(Request::new("POST", "/execute/"))?;
    let seen = exchange.response.status == 307;
    let result = exchange.is(404, r#"{"detail":"Not Found"}"#);
    s.differs(result, Reference { which: "no redirect is ever sent", seen })
}
