//! The binary: parse the command line, become the init process or the server, report the exit status.

use sandbox_runtime::api::Sandbox;
use sandbox_runtime::config::{Config, Invocation, TOKEN, Verb, Warning};
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
    let (verb, settings) = match Invocation::parse(args_os().skip(1), vars_os())? {
        Invocation::Print(text) => {
            log::write_stdout(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        Invocation::Run(verb, settings) => (verb, settings),
    };
    let (config, warnings) = Config::resolve(settings)?;
    match verb {
        Verb::Start => return start(config, &warnings),
        Verb::Serve => serve(config, &warnings)?,
        Verb::Healthcheck => healthcheck::check(config.listen)?,
        Verb::Install(directory) => {
            log::info(format_args!("installed {}", install::install(&directory)?.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes the init process of the server, or the server itself where that fails.
fn start(config: Config, warnings: &[Warning]) -> Result<ExitCode, Error> {
    init(&config).or_else(|error| {
        log::warn(format_args!(
            "running without an init process; orphaned processes will not be reaped: {error}"
        ));
        serve(config, warnings).map(|()| ExitCode::SUCCESS)
    })
}

fn init(config: &Config) -> Result<ExitCode, Error> {
    if config.token.is_some() {
        init::keep_secret(TOKEN)?;
    }
    Ok(init::run(args_os().skip(1), config.variables.for_server.iter().cloned())?.into())
}

/// Becomes the server.
fn serve(config: Config, warnings: &[Warning]) -> Result<(), Error> {
    log::set_level(config.log_level);
    warnings.iter().for_each(|warning| log::warn(format_args!("{warning}")));
    if config.has_init_parent {
        init::follow_parent()?;
        init::take_name();
    }
    let server = Server::bind(config.listen, config.server)?;
    let runner = Runner::new(Environment::new(config.variables.for_commands), config.exec)?;
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
