//! The version of the measured server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::target::Processes;

const PROGRAM: &str = "sandbox-runtime";

/// `None` if the program is not known, or is not one that certainly supports `--version`.
pub(super) fn of_server(processes: &Processes) -> Option<String> {
    match processes {
        Processes::Unknown => None,
        Processes::Pid(pid) => {
            let link = PathBuf::from(format!("/proc/{pid}/exe"));
            let program = fs::read_link(&link).ok()?;
            is_runtime(&program).then(|| query(&link))?
        }
        Processes::Command(argv) => {
            let program = Path::new(argv.first()?);
            is_runtime(program).then(|| query(program))?
        }
    }
}

/// Any other program, such as a shell, might do something else with `--version`.
fn is_runtime(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == PROGRAM)
}

fn query(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    parse(&String::from_utf8(command.output().ok()?.stdout).ok()?)
}

fn parse(output: &str) -> Option<String> {
    let version = output.strip_prefix(PROGRAM)?.strip_prefix(' ')?.strip_suffix('\n')?;
    (!version.is_empty() && !version.contains(char::is_whitespace)).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_second_field() {
        assert_eq!(parse("sandbox-runtime 0.1.0\n").as_deref(), Some("0.1.0"));
        for output in ["", "sandbox-runtime\n", "sandbox-runtime \n", "sandbox-runtime 1 2\n", "other 1\n"] {
            assert_eq!(parse(output), None, "{output:?}");
        }
    }

    #[test]
    fn only_the_runtime_is_asked() {
        for program in ["sandbox-runtime", "target/release/sandbox-runtime", "/sandbox-runtime"] {
            assert!(is_runtime(Path::new(program)), "{program}");
        }
        for program in
            ["/bin/sh", "/sandbox-runtime (deleted)", "/sandbox-runtime/sh", "sandbox-runtime2", ""]
        {
            assert!(!is_runtime(Path::new(program)), "{program}");
        }
        let missing = Processes::Command(vec!["/nonexistent/sandbox-runtime".to_owned()]);
        for processes in [Processes::Unknown, Processes::Pid(std::process::id()), missing] {
            assert_eq!(of_server(&processes), None, "{processes:?}");
        }
    }
}
