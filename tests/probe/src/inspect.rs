//! The processes of this container, for tests outside it: one line of JSON for each request on standard
//! input. The host's `/proc` shows them only where the container shares the host's kernel.

use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// How every inspector is started. A shared process namespace has more than one.
const COMMAND_LINE: &str = "/probe inspect";

pub(crate) fn serve() -> io::Result<()> {
    let mut output = io::stdout().lock();
    for request in io::stdin().lines() {
        let request = request?;
        writeln!(output, "{}", respond(&request))?;
        output.flush()?;
    }
    Ok(())
}

/// `null` for a process that has ended.
fn respond(request: &str) -> Value {
    match request.split_once(' ') {
        Some(("read", path)) => fs::read_to_string(path).ok().into(),
        Some(("count", directory)) => fs::read_dir(directory).ok().map(Iterator::count).into(),
        None if request == "processes" => processes(),
        _ => json!({ "unknown request": request }),
    }
}

/// All of them except inspectors.
fn processes() -> Value {
    let Ok(entries) = fs::read_dir("/proc") else { return Value::Null };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter_map(process).filter(|process| process["line"] != COMMAND_LINE).collect()
}

/// See proc_pid_stat(5).
fn process(pid: u32) -> Option<Value> {
    let directory = Path::new("/proc").join(pid.to_string());
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.split(' ').next()?;
    let line = fs::read(directory.join("cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    Some(json!({ "pid": pid, "state": state, "line": line.trim_end() }))
}
