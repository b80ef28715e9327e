//! The HTTP API of the Python runtime of kubernetes-sigs/agent-sandbox: same paths, JSON, statuses and error
//! messages, so that its clients need no change. `docs/compatibility.md` lists the intended differences.

mod browse;
mod errors;
mod execute;
mod python;
pub mod shlex;
mod stdout;
mod transfer;
pub mod wire;

use super::route::{Access, Body, Route};
use crate::http::Method;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        pattern: "/",
        access: Access::Public,
        body: Body::Ignored,
        handler: browse::health,
    },
    Route {
        method: Method::Post,
        pattern: "/execute",
        access: Access::Token,
        body: Body::Limit(|limits| limits.command_bytes),
        handler: execute::execute,
    },
    Route {
        method: Method::Post,
        pattern: "/upload",
        access: Access::Token,
        body: Body::Limit(|limits| limits.upload_bytes),
        handler: transfer::upload,
    },
    Route {
        method: Method::Get,
        pattern: "/download/{path}",
        access: Access::Token,
        body: Body::Ignored,
        handler: transfer::download,
    },
    Route {
        method: Method::Get,
        pattern: "/list/{path}",
        access: Access::Token,
        body: Body::Ignored,
        handler: browse::list,
    },
    Route {
        method: Method::Get,
        pattern: "/exists/{path}",
        access: Access::Token,
        body: Body::Ignored,
        handler: browse::exists,
    },
];
