//! Everything the runtime promises, one line a promise, grouped as the wire contract is.
//!
//! A promise that needs a program is skipped where the image has none. What the checks make stays inside one
//! directory with a name of its own, which is removed at the end if there is an `rm` there.

mod bodies;
mod browse;
mod confinement;
mod download;
mod endings;
mod execute;
mod framing;
mod health;
mod upload;
mod wire;

use std::io;

use crate::answer::{Stop, Verdict};
use crate::report::Report;
use crate::session::Session;

pub(crate) struct Check {
    promise: &'static str,
    run: fn(&Session) -> Verdict,
}

/// A row of a group's table.
const fn check(promise: &'static str, run: fn(&Session) -> Verdict) -> Check {
    Check { promise, run }
}

const GROUPS: &[(&str, &[Check])] = &[
    ("Health and routes", health::CHECKS),
    ("Running commands", execute::CHECKS),
    ("How commands end", endings::CHECKS),
    ("Bodies of /execute", bodies::CHECKS),
    ("Upload", upload::CHECKS),
    ("Download", download::CHECKS),
    ("List and exists", browse::CHECKS),
    ("Staying below the base directory", confinement::CHECKS),
    ("HTTP/1.1", wire::CHECKS),
    ("Requests that must be refused", framing::CHECKS),
];

/// Gives back how many checks failed. The error is that the report could not be written.
pub(crate) fn run_all(session: &Session) -> io::Result<usize> {
    let mut report = Report::new();
    greet(session, &mut report)?;
    for (title, checks) in GROUPS {
        report.heading(title)?;
        for check in *checks {
            report.verdict(check.promise, &(check.run)(session))?;
        }
    }
    clean_up(session, &mut report)?;
    report.count()?;
    Ok(report.tally.failed)
}

/// Shows a person what the runtime is for, before the long list: the first command in any case, since the answer for
/// an image that has no `echo` is worth seeing too.
fn greet(session: &Session, report: &mut Report) -> io::Result<()> {
    report.heading(&format!("Running commands at http://{}", session.server.name))?;
    for (command, programs) in [
        ("echo Hello from the sandbox", &[][..]),
        ("sh -c 'echo This goes to standard output; echo This goes to standard error >&2; exit 3'", &["sh"]),
    ] {
        match session.needs(programs).and_then(|()| session.execute(command)) {
            Ok(ran) => report.command(command, &ran)?,
            Err(Stop::Skip(_)) => {}
            Err(stop) => report.verdict(command, &Err(stop))?,
        }
    }
    Ok(())
}

fn clean_up(session: &Session, report: &mut Report) -> io::Result<()> {
    report.heading("Cleaning up")?;
    let directory = &session.directory;
    let removed = session.needs(&["rm"]).and_then(|()| {
        session.execute(&format!("rm -rf {directory}"))?;
        session.exists(directory)
    });
    match removed {
        Ok(false) => report.remark(&format!("removed {directory}")),
        _ => report
            .remark(&format!("could not remove {directory} (no rm there, or it failed): please remove it")),
    }
}
