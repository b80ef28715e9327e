//! Which endpoint a request is for: one table, from which the README's is checked too.
//!
//! Paths are compared after their one decoding. A known path with the wrong method is told apart from an unknown path.

use crate::http::Method;

/// What a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Health,
    Execute,
    Upload,
    Download,
    List,
    Exists,
}

/// One row of the table.
#[derive(Debug)]
pub struct Route {
    pub method: Method,
    /// `{path}` stands for whatever follows, with or without the slash before it.
    pub pattern: &'static str,
    pub endpoint: Endpoint,
}

pub const ENDPOINTS: [Route; 6] = [
    Route { method: Method::Get, pattern: "/", endpoint: Endpoint::Health },
    Route { method: Method::Post, pattern: "/execute", endpoint: Endpoint::Execute },
    Route { method: Method::Post, pattern: "/upload", endpoint: Endpoint::Upload },
    Route { method: Method::Get, pattern: "/download/{path}", endpoint: Endpoint::Download },
    Route { method: Method::Get, pattern: "/list/{path}", endpoint: Endpoint::List },
    Route { method: Method::Get, pattern: "/exists/{path}", endpoint: Endpoint::Exists },
];

/// Why there is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    UnknownPath,
    /// The path is known; these methods, as the `Allow` header lists them, can be used with it.
    WrongMethod {
        allow: &'static str,
    },
}

/// Finds the endpoint, and the part of the path that stands for `{path}` (empty where there is none).
///
/// # Errors
/// Unknown path, or wrong method.
pub fn find(method: Method, path: &[u8]) -> Result<(Endpoint, &[u8]), NoRoute> {
    let matching = ENDPOINTS.iter().find_map(|route| route.rest(path).map(|rest| (route, rest)));
    let (route, rest) = matching.ok_or(NoRoute::UnknownPath)?;
    // HEAD is GET without the body.
    let (allow, is_allowed) = match route.method {
        Method::Get => ("GET, HEAD", matches!(method, Method::Get | Method::Head)),
        _ => ("POST", method == route.method),
    };
    if is_allowed { Ok((route.endpoint, rest)) } else { Err(NoRoute::WrongMethod { allow }) }
}

impl Route {
    fn rest<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let Some(fixed) = self.pattern.strip_suffix("/{path}") else {
            return (path == self.pattern.as_bytes()).then_some(&[]);
        };
        let rest = path.strip_prefix(fixed.as_bytes())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: Method, path: &str, expected: Result<(Endpoint, &str), NoRoute>) {
        let expected = expected.map(|(endpoint, rest)| (endpoint, rest.as_bytes()));
        assert_eq!(find(method, path.as_bytes()), expected, "{method:?} {path}");
    }

    #[test]
    fn each_endpoint_is_found() {
        check(Method::Get, "/", Ok((Endpoint::Health, "")));
        check(Method::Head, "/", Ok((Endpoint::Health, "")));
        check(Method::Post, "/execute", Ok((Endpoint::Execute, "")));
        check(Method::Post, "/upload", Ok((Endpoint::Upload, "")));
        check(Method::Get, "/download/a/b", Ok((Endpoint::Download, "a/b")));
        check(Method::Get, "/list/", Ok((Endpoint::List, "")));
        check(Method::Get, "/exists//etc", Ok((Endpoint::Exists, "/etc")));
    }

    #[test]
    fn a_path_endpoint_without_its_slash_is_the_base_directory() {
        // HP-31
        for (path, endpoint) in
            [("/list", Endpoint::List), ("/exists", Endpoint::Exists), ("/download", Endpoint::Download)]
        {
            check(Method::Get, path, Ok((endpoint, "")));
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_unknown() {
        for path in ["", "/execute/", "//execute", "/Execute", "/listing", "/nope", "/downloads/x", "//"] {
            check(Method::Get, path, Err(NoRoute::UnknownPath));
        }
    }

    #[test]
    fn a_wrong_method_is_told_which_are_right() {
        check(Method::Get, "/execute", Err(NoRoute::WrongMethod { allow: "POST" }));
        check(Method::Head, "/upload", Err(NoRoute::WrongMethod { allow: "POST" }));
        for method in [Method::Post, Method::Options, Method::Other] {
            check(method, "/list/x", Err(NoRoute::WrongMethod { allow: "GET, HEAD" }));
        }
    }
}
