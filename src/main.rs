//! The binary: what are we configured to be, which of the two processes are we, run, say how it ended.

use sandbox_runtime::api::Sandbox;
use sandbox_runtime::config::{Config, Invocation, TOKEN, invocation};
use sandbox_runtime::exec::{Environment, Runner};
use sandbox_runtime::files::Root;
use sandbox_runtime::server::{Server, healthcheck};
use sandbox_runtime::{init, install, log};
use std::env::{args_os, vars_os};
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        log::error(format_args!("{error}"));
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode, Error> {
    match invocation(args_os().skip(1), vars_os())? {
        Invocation::Print(text) => log::answer(&text)?,
        Invocation::Healthcheck(listen) => healthcheck::check(listen)?,
        Invocation::Install(directory) => {
            log::info(format_args!("installed {}", install::install(&directory)?.display()));
        }
        Invocation::Start(config) => match start(&config) {
            Ok(code) => return Ok(code),
            Err(error) => {
                log::warn(format_args!("serving in one process, and orphans are not reaped: {error}"));
                serve(*config)?;
            }
        },
        Invocation::Serve(config) => serve(*config)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The process above.
fn start(config: &Config) -> Result<ExitCode, Error> {
    if config.token.is_some() {
        init::keep_secret(TOKEN)?;
    }
    Ok(init::run(args_os().skip(1), config.for_server.iter().cloned())?.into())
}

/// The server.
fn serve(config: Config) -> Result<(), Error> {
    log::set_level(config.log_level);
    config.warnings.iter().for_each(|warning| log::warn(format_args!("{warning}")));
    if config.follows_parent {
        init::follow_parent()?;
        init::take_name();
    }
    let server = Server::bind(config.listen, config.server)?;
    let runner = Runner::new(Environment::new(config.environment), config.exec)?;
    if config.token.is_some() {
        init::keep_secret(TOKEN)?;
    }
    server.run(Sandbox {
        root: Root::new(config.base_dir),
        runner,
        limits: config.api,
        token: config.token,
    })?;
    Ok(())
}
