//! Which route a request is for. Paths are compared after percent-decoding.

use super::{Handler, Limits};
use crate::http::Method;

/// One row of a protocol's table.
#[derive(Debug)]
pub struct Route {
    pub method: Method,
    /// A final `{path}` stands for the rest of the path, with or without the slash before it.
    pub pattern: &'static str,
    pub access: Access,
    pub body: Body,
    pub handler: Handler,
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Clients with the token, if the server has one.
    Token,
    /// Every client, even if no worker thread is available: the handler must neither block nor be expensive.
    Public,
}

/// The treatment of request bodies by a route.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// The request needs none. A small one is read and discarded before the handler is called: some routers
    /// send every GET with an empty chunked body.
    Ignored,
    /// The handler opens it; it may have this many bytes.
    Limit(fn(&Limits) -> u64),
}

/// Why no route was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    UnknownPath,
    /// The path exists with these methods, as the `Allow` header lists them.
    WrongMethod {
        allow: String,
    },
}

impl Route {
    /// The part of the path that stands for `{path}`; empty for a pattern without it.
    fn rest<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let Some(prefix) = self.pattern.strip_suffix("/{path}") else {
            return (path == self.pattern.as_bytes()).then_some(&[]);
        };
        let rest = path.strip_prefix(prefix.as_bytes())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
    }

    /// HEAD is GET without the body (RFC 9110 section 9.3.2).
    fn allows(&self, method: Method) -> bool {
        self.method == method || (self.method == Method::Get && method == Method::Head)
    }
}

/// Finds the route among all rows of the path, and the part of the path that stands for `{path}`. If several
/// patterns match, the longest wins.
///
/// # Errors
/// Unknown path, or wrong method.
pub fn find(
    routes: impl Iterator<Item = &'static Route> + Clone,
    method: Method,
    path: &[u8],
) -> Result<(&'static Route, &[u8]), NoRoute> {
    let matching = routes.clone().filter(|route| route.rest(path).is_some());
    let best = matching.max_by_key(|route| route.pattern.len()).ok_or(NoRoute::UnknownPath)?;
    let rest = best.rest(path).unwrap_or_default();
    let mut same_path = routes.filter(|route| route.pattern == best.pattern);
    match same_path.clone().find(|route| route.allows(method)) {
        Some(route) => Ok((route, rest)),
        None => Err(NoRoute::WrongMethod { allow: allow(&mut same_path) }),
    }
}

fn allow(routes: &mut dyn Iterator<Item = &'static Route>) -> String {
    let with_head = |route: &Route| match route.method {
        Method::Get => vec![Method::Get.name(), Method::Head.name()],
        method => vec![method.name()],
    };
    routes.flat_map(with_head).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::{Request, RequestBody, Responder, Sandbox, Sent};
    use super::*;

    fn handler(_: &Sandbox, _: &Request<'_>, _: RequestBody<'_>, _: Responder<'_>) -> Sent {
        unreachable!("routes are only looked up")
    }

    const fn route(method: Method, pattern: &'static str) -> Route {
        Route { method, pattern, access: Access::Token, body: Body::Ignored, handler }
    }

    static ROUTES: [Route; 6] = [
        route(Method::Get, "/"),
        route(Method::Post, "/execute"),
        route(Method::Get, "/list/{path}"),
        route(Method::Get, "/files/{path}"),
        route(Method::Put, "/files/{path}"),
        route(Method::Get, "/files/health"),
    ];

    #[track_caller]
    fn check(method: Method, path: &str, expected: Result<(usize, &str), &str>) {
        let found = find(ROUTES.iter(), method, path.as_bytes());
        let found =
            found.map(|(route, rest)| (ROUTES.iter().position(|it| std::ptr::eq(it, route)).unwrap(), rest));
        let expected = expected.map(|(row, rest)| (row, rest.as_bytes())).map_err(|allow| match allow {
            "" => NoRoute::UnknownPath,
            allow => NoRoute::WrongMethod { allow: allow.into() },
        });
        assert_eq!(found, expected, "{method:?} {path}");
    }

    #[test]
    fn routes_are_found_by_path_and_method() {
        check(Method::Get, "/", Ok((0, "")));
        check(Method::Head, "/", Ok((0, "")));
        check(Method::Post, "/execute", Ok((1, "")));
        check(Method::Get, "/list/a/b", Ok((2, "a/b")));
        check(Method::Get, "/list//etc", Ok((2, "/etc")));
        check(Method::Get, "/files/a", Ok((3, "a")));
        check(Method::Put, "/files/a", Ok((4, "a")));
        check(Method::Get, "/files/health", Ok((5, "")));
    }

    #[test]
    fn a_path_pattern_matches_without_its_slash() {
        // HP-31
        check(Method::Get, "/list", Ok((2, "")));
        check(Method::Get, "/list/", Ok((2, "")));
    }

    #[test]
    fn other_paths_are_unknown() {
        for path in ["", "/execute/", "//execute", "/Execute", "/listing", "/nope", "/lists/x", "//"] {
            check(Method::Get, path, Err(""));
        }
    }

    #[test]
    fn a_wrong_method_lists_those_of_all_rows() {
        check(Method::Get, "/execute", Err("POST"));
        check(Method::Head, "/execute", Err("POST"));
        check(Method::Options, "/list/x", Err("GET, HEAD"));
        check(Method::Other, "/files/x", Err("GET, HEAD, PUT"));
        check(Method::Put, "/files/health", Err("GET, HEAD"));
    }
}
