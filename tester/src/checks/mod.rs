//! The promises of the runtime, one check each, in the order of the wire contract.
//!
//! A check is skipped if the image lacks a program that it needs. All files of the checks are below one
//! uniquely named directory, which is removed at the end if the image has `rm`.

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

use crate::report::Report;
use crate::response::{Stop, Verdict};
use crate::session::Session;

pub(crate) struct Check {
    promise: &'static str,
    run: fn(&Session) -> Verdict,
}

/// One row of a table of checks.
const fn check(promise: &'static str, run: fn(&Session) -> Verdict) -> Check {
    Check { promise, run }
}

const GROUPS: &[(&str, &[Check])] = &[
    ("Health and routes", health::CHECKS),
    ("Running commands", execute::CHECKS),
    ("Deadlines, background processes and disconnects", endings::CHECKS),
    ("Request body of /execute", bodies::CHECKS),
    ("Upload", upload::CHECKS),
    ("Download", download::CHECKS),
    ("List and exists", browse::CHECKS),
    ("Confinement to the base directory", confinement::CHECKS),
    ("HTTP/1.1", wire::CHECKS),
    ("Ambiguous requests", framing::CHECKS),
];

/// Returns the number of failed checks. An error means that the report could not be written.
pub(crate) fn run_all(session: &Session) -> io::Result<usize> {
    let mut report = Report::new();
    run_examples(session, &mut report)?;
    for (title, checks) in GROUPS {
        report.heading(title)?;
        for check in *checks {
            report.verdict(check.promise, &(check.run)(session))?;
        }
    }
    clean_up(session, &mut report)?;
    report.summary()?;
    Ok(report.tally.failed)
}

/// Shows what the runtime does, before the long list. The first command runs even in an image without `echo`:
/// its error is a useful example too.
fn run_examples(session: &Session, report: &mut Report) -> io::Result<()> {
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
        _ => report.remark(&format!(
            "cannot remove {directory} (no rm in the image, or it failed); remove it by hand"
        )),
    }
}
