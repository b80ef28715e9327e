//! Floors, absences and crates: what `docs/ARCHITECTURE.md` claims about the code.

use super::docs::table;
use super::source::{Source, document, program, root};
use super::{check_all, check_none, check_seen};
use std::collections::BTreeSet;
use std::process::Command;

/// Each module, its floor, and the other modules that it imports, all on lower floors. The same table is in
/// docs/ARCHITECTURE.md.
const FLOORS: &[(&str, u8, &[&str])] = &[
    ("sys", 0, &[]),
    ("deadline", 1, &[]),
    ("http", 1, &[]),
    ("json", 1, &[]),
    ("log", 1, &["sys"]),
    ("exec", 2, &["deadline", "sys"]),
    ("files", 2, &["sys"]),
    ("api", 3, &["deadline", "exec", "files", "http", "json", "sys"]),
    ("server", 4, &["api", "deadline", "http", "log", "sys"]),
    ("config", 5, &["api", "deadline", "exec", "log", "server"]),
    ("init", 5, &["log", "sys"]),
    ("install", 5, &[]),
    ("lib", 6, &[]),
    ("main", 6, &["api", "config", "exec", "files", "init", "install", "log", "server"]),
];

/// The crates that the program is built from, and where each may be named.
const CRATES: [(&str, &[&str]); 6] = [
    ("getrandom", &["exec/", "files/"]),
    ("httparse", &["http/head.rs"]),
    ("libc", &["sys/"]),
    ("serde", &["json/"]),
    ("serde_json", &["json/"]),
    ("signal_hook", &["server/"]),
];

/// Their dependencies.
const INDIRECT_CRATES: [&str; 7] =
    ["cfg_if", "errno", "itoa", "memchr", "serde_core", "signal_hook_registry", "zmij"];

#[test]
fn modules_import_what_the_table_says() {
    let mut offences = Vec::new();
    for (module, floor, allowed) in FLOORS {
        let imported: BTreeSet<String> =
            program().filter(|source| source.module() == *module).flat_map(imports).collect();
        if imported != allowed.iter().map(ToString::to_string).collect() {
            offences.push(format!("{module} imports {imported:?}"));
        }
        offences.extend(not_below(module, *floor, allowed));
    }
    check_none(&offences);
    let modules: BTreeSet<&str> = program().map(Source::module).collect();
    assert_eq!(modules, FLOORS.iter().map(|(module, ..)| *module).collect(), "modules with a floor");
}

#[test]
fn the_architecture_page_has_the_same_floors() {
    let page = &document("docs/ARCHITECTURE.md").unwrap().text;
    let written: BTreeSet<Vec<String>> = table(page, "Module").map(|row| row[..3].to_vec()).collect();
    let row = |(module, floor, imports): &(&str, u8, &[&str])| {
        let imports = if imports.is_empty() { "–".into() } else { imports.join(", ") };
        vec![format!("`{module}`"), format!("L{floor}"), imports]
    };
    assert_eq!(written, FLOORS.iter().map(row).collect());
}

#[test]
fn protocols_never_import_each_other() {
    check_all(imports_of_other_protocols);
}

#[test]
fn unsafe_is_in_sys_only() {
    check_all(unsafe_outside_sys);
}

#[test]
fn each_crate_is_named_in_its_home_only() {
    check_all(crates_away_from_home);
}

#[test]
fn status_codes_are_chosen_in_one_place() {
    check_all(statuses_away_from_home);
}

#[test]
fn only_config_reads_the_environment() {
    check_all(environment_outside_config);
    // The one exception: main hands the whole environment to config, and does nothing else with it.
    let main = program().find(|source| source.path == "src/main.rs").unwrap();
    assert_eq!(main.find("Invocation :: parse ( args_os ( ) . skip ( 1 ) , vars_os ( ) )").len(), 1);
    assert_eq!(main.find("vars_os (").len(), 1);
}

#[test]
fn only_the_log_prints() {
    check_all(printing_outside_log);
}

#[test]
fn only_the_server_starts_threads() {
    check_all(threads_outside_server);
}

#[test]
fn the_program_needs_exactly_six_crates() {
    let manifest = &document("Cargo.toml").unwrap().text;
    let sections = manifest.split("\n[").filter_map(|section| section.split_once("]\n"));
    let dependencies = sections
        .filter(|(name, _)| name.ends_with("dependencies") && !name.starts_with("dev-"))
        .flat_map(|(_, rows)| rows.lines())
        .filter_map(|row| row.split_once(" = "));
    let names: Vec<String> = dependencies.map(|(name, _)| name.replace('-', "_")).collect();
    assert_eq!(names, CRATES.map(|(name, _)| name));
    for target in ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"] {
        let ours = CRATES.map(|(name, _)| name);
        let expected: BTreeSet<&str> = ours.into_iter().chain(INDIRECT_CRATES).collect();
        let shipped = shipped_crates(target);
        assert_eq!(shipped.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{target}");
    }
}

#[test]
fn crates_come_from_one_registry() {
    let lock = &document("Cargo.lock").unwrap().text;
    let from: BTreeSet<&str> = lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    assert_eq!(from.len(), 1, "one registry, and no mirror of it: {from:?}");
    assert!(from.iter().all(|source| source.contains("https://github.com/rust-lang/")), "{from:?}");
}

/// The crates that the binary is linked from on this target, without development and build dependencies.
fn shipped_crates(target: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "sandbox-runtime", "--edges", "normal"])
        .args(["--target", target, "--prefix", "none", "--format", "{p}"])
        .current_dir(root())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = printed.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "sandbox-runtime").map(|name| name.replace('-', "_")).collect()
}

fn not_below(module: &str, floor: u8, imported: &[&str]) -> Vec<String> {
    let floor_of = |module: &str| {
        FLOORS.iter().find(|(name, ..)| *name == module).map_or(u8::MAX, |(_, floor, _)| *floor)
    };
    let above = imported.iter().filter(|other| floor_of(other) >= floor);
    above.map(|other| format!("{module}: {other} is not below it")).collect()
}

/// The paths of the program's own modules that a file mentions, from the root.
fn module_paths(source: &Source) -> Vec<Vec<String>> {
    let is_binary = source.path == "src/main.rs";
    let mut paths = source.paths(&["crate", "sandbox_runtime", "super"]);
    for path in &mut paths {
        let climbed = path.iter().take_while(|name| *name == "super").count();
        let base = source.module_path();
        let base = if climbed == 0 { &[] } else { &base[..base.len().saturating_sub(climbed)] };
        let rest = path.split_off(climbed.max(1));
        // In the binary `crate` is the binary.
        *path = if is_binary && path[0] == "crate" { Vec::new() } else { [base, &rest].concat() };
    }
    paths
}

/// The other modules that a file imports.
fn imports(source: &Source) -> BTreeSet<String> {
    let first = module_paths(source).into_iter().filter_map(|path| path.into_iter().next());
    first.filter(|name| name != source.module()).collect()
}

fn imports_of_other_protocols(source: &Source) -> Vec<String> {
    // A protocol is a folder; the files beside the folders are shared.
    let protocol_of = |path: &[String]| match path {
        [api, protocol, ..] if api == "api" && is_protocol(protocol) => Some(protocol.clone()),
        _ => None,
    };
    let Some(own) = protocol_of(&source.module_path()) else { return Vec::new() };
    let others = module_paths(source).into_iter().filter_map(|path| protocol_of(&path));
    others
        .filter(|other| *other != own)
        .map(|other| format!("{}: {own} imports {other}", source.path))
        .collect()
}

/// Whether `src/api/` has a folder of this name.
fn is_protocol(name: &str) -> bool {
    let known = ["compat", "v1", "e2b", "mcp", "meta"];
    known.contains(&name) || program().any(|source| source.is_in(&format!("api/{name}/")))
}

fn unsafe_outside_sys(source: &Source) -> Vec<String> {
    if source.is_in("sys/") { Vec::new() } else { source.with(&["unsafe"]) }
}

fn crates_away_from_home(source: &Source) -> Vec<String> {
    let away = CRATES.iter().filter(|(_, homes)| !homes.iter().any(|home| source.is_in(home)));
    away.flat_map(|(name, _)| source.with(&[name])).collect()
}

/// Where a status code may be chosen.
fn chooses_statuses(source: &Source) -> bool {
    let is_errors = source.is_in("api/") && source.path.ends_with("/errors.rs");
    is_errors || source.is_in("api/mod.rs") || source.is_in("http/")
}

/// The ways to choose a status: naming one, creating or changing a response, passing a number to a function
/// of a file that may choose, and writing a status line by hand.
fn statuses_away_from_home(source: &Source) -> Vec<String> {
    if chooses_statuses(source) {
        return Vec::new();
    }
    let mut offences = source.with(&["Status ::", "Response :: new ("]);
    offences.extend(changed_statuses(source));
    offences.extend(built_responses(source));
    offences.extend(status_numbers(source));
    let takers: Vec<String> = status_takers().iter().map(|path| format!("{path} (")).collect();
    offences.extend(source.with(&takers.iter().map(String::as_str).collect::<Vec<_>>()));
    // Only the health check reads a status line.
    if !source.is_in("server/probe.rs") && !source.is_in("server/healthcheck.rs") {
        let written = source.tokens().into_iter().filter(|token| token.text.starts_with("HTTP/1."));
        offences.extend(written.map(|token| format!("{}:{}: a status line", source.path, token.line)));
    }
    offences
}

/// `.status =`, but for `self.status`, the field of another type: responses have their methods in `http`.
fn changed_statuses(source: &Source) -> Vec<String> {
    let tokens = source.tokens();
    let changed = tokens.windows(4).filter(|window| {
        let is_assigned = window[1].is(".") && window[2].is("status") && window[3].is("=");
        is_assigned && !window[0].is("self")
    });
    changed.map(|window| format!("{}:{}: .status =", source.path, window[2].line)).collect()
}

/// `Response {`, but for the body of a function that returns one.
fn built_responses(source: &Source) -> Vec<String> {
    let tokens = source.tokens();
    let mut offences = Vec::new();
    for at in 0..tokens.len().saturating_sub(1) {
        if !(tokens[at].is("Response") && tokens[at + 1].is("{")) {
            continue;
        }
        let mut start = at;
        while start >= 2 && tokens[start - 1].is("::") {
            start -= 2;
        }
        let is_type =
            start > 0 && ["->", "impl", "for", "struct"].iter().any(|word| tokens[start - 1].is(word));
        if !is_type {
            offences.push(format!("{}:{}: Response {{", source.path, tokens[at].line));
        }
    }
    offences
}

/// A number assigned to something named `status`.
fn status_numbers(source: &Source) -> Vec<String> {
    let is_number = |text: &str| text.parse().is_ok_and(|number: u16| (100..600).contains(&number));
    let tokens = source.tokens();
    let given = tokens.windows(3).filter(|window| {
        let is_status = window[0].is("status") && [":", "="].iter().any(|text| window[1].is(text));
        (is_status || window[0].is("Status") && window[1].is("(")) && is_number(&window[2].text)
    });
    given.map(|window| format!("{}:{}: status {}", source.path, window[0].line, window[2].text)).collect()
}

/// `module::function` for each function with a status parameter in a file that may choose.
fn status_takers() -> BTreeSet<String> {
    let homes = program().filter(|source| chooses_statuses(source) && !source.is_in("http/"));
    let mut takers = BTreeSet::new();
    for home in homes {
        let module = home.module_path().pop().unwrap();
        let tokens = home.tokens();
        let found = tokens.windows(6).filter(|window| {
            let is_status = window[2].is("(") && window[3].is("status") && window[4].is(":");
            window[0].is("fn") && is_status && (window[5].is("u16") || window[5].is("Status"))
        });
        takers.extend(found.map(|window| format!("{module} :: {}", window[1].text)));
    }
    takers
}

fn environment_outside_config(source: &Source) -> Vec<String> {
    match source.path_below_src() {
        "main.rs" => source.with(&["var", "var_os", "vars", "environ", "getenv"]),
        // It wipes a variable, and does not return its value.
        "sys/environment.rs" => source.with(&["var", "var_os", "vars", "vars_os", "getenv"]),
        _ if source.module() == "config" => Vec::new(),
        _ => source.with(&["var", "var_os", "vars", "vars_os", "environ", "getenv"]),
    }
}

fn printing_outside_log(source: &Source) -> Vec<String> {
    if source.is_in("log.rs") {
        return Vec::new();
    }
    let mut offences = source.with(&["print !", "println !", "eprint !", "eprintln !", "dbg !"]);
    let streams = ["stdout", "stderr", "Stdout", "Stderr"];
    let is_stream =
        |path: &Vec<String>| path.windows(2).any(|pair| pair[0] == "io" && streams.contains(&&*pair[1]));
    let paths = source.paths(&["std", "io"]).into_iter().filter(is_stream);
    offences.extend(paths.map(|path| format!("{}: {}", source.path, path.join("::"))));
    offences
}

fn threads_outside_server(source: &Source) -> Vec<String> {
    if source.is_in("server/") {
        return Vec::new();
    }
    let starts = |path: &Vec<String>| {
        path.windows(2).any(|pair| pair[0] == "thread" && ["spawn", "Builder", "scope"].contains(&&*pair[1]))
    };
    let paths = source.paths(&["std", "thread"]).into_iter().filter(starts);
    paths.map(|path| format!("{}: {}", source.path, path.join("::"))).collect()
}

#[test]
fn imports_are_seen() {
    let imports = |path: &str, text: &str| {
        imports(&Source::parse(&format!("src/{path}"), text)).into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(imports("exec/run.rs", "use super::{Client}; use crate::sys::poll::{poll};"), "sys");
    assert_eq!(imports("config.rs", "use crate::{app, exec::{self, run}, server};"), "app exec server");
    assert_eq!(imports("config/mod.rs", "use crate::{app as a, exec};"), "app exec");
    assert_eq!(imports("files/walk.rs", "use super::super::log; use super::root;"), "log");
    assert_eq!(imports("log.rs", "fn f() { super::sys::poll() }"), "sys");
    assert_eq!(imports("log.rs", "#[cfg(test)]\nmod tests { use crate::exec; }"), "");
    assert_eq!(imports("main.rs", "use sandbox_runtime::{init, log}; use crate::local;"), "init log");
    assert_eq!(not_below("exec", 2, &["sys", "server", "files"]).len(), 2);
    let check = imports_of_other_protocols;
    check_seen(check, "api/v1/files.rs", "use super::super::compat::errors; use crate::api::e2b;", 2);
    check_seen(
        check,
        "api/v1/files.rs",
        "use super::errors; use crate::api::{Router, v1}; use crate::exec;",
        0,
    );
    check_seen(check, "api/mod.rs", "use compat::ROUTES; use crate::api::{compat, v1};", 0);
}

#[test]
fn absences_are_seen() {
    let check = unsafe_outside_sys;
    check_seen(check, "exec/run.rs", "fn f() { unsafe { g() } }", 1);
    check_seen(check, "sys/fs.rs", "fn f() { unsafe { g() } }", 0);
    check_seen(check, "log.rs", "// unsafe\nfn f() -> &'static str { \"unsafe \\\" unsafe\" }", 0);
    check_seen(check, "log.rs", "fn f() { (b'\"', '\\'', r#\"\"unsafe\"#); unsafe { g() } }", 1);
    check_seen(check, "log.rs", "#[cfg(test)]\nmod tests { fn f() { unsafe {} } }\nunsafe fn g() {}", 1);
    let check = crates_away_from_home;
    check_seen(check, "http/body.rs", "use httparse::Request; use libc as c;", 2);
    check_seen(check, "api/compat/browse.rs", "fn f() { serde_json::to_vec(&1) }", 1);
    check_seen(check, "http/head.rs", "use httparse::Request;", 0);
    let check = environment_outside_config;
    check_seen(check, "exec/mod.rs", "fn f() { std::env::var_os(name) }", 1);
    check_seen(check, "main.rs", "use std::env::{args_os, vars_os}; fn f() { std::env::var(name) }", 1);
    check_seen(check, "config/mod.rs", "fn f() { std::env::var(name) }", 0);
    let check = printing_outside_log;
    check_seen(check, "init.rs", "use std::io::{Read, stdout}; fn f() { println!(\"x\"); io::stderr() }", 3);
    check_seen(check, "log.rs", "fn f() { println!(\"x\") }", 0);
    check_seen(check, "main.rs", "fn f() { log::print(text) }", 0);
    check_seen(check, "exec/sink.rs", "fn f() { Channel::Stdout }", 0);
    let check = threads_outside_server;
    check_seen(check, "exec/run.rs", "use std::thread::{self, Builder}; fn f() { thread::spawn(g) }", 2);
    check_seen(check, "exec/run.rs", "fn f() { std::thread::sleep(PAUSE) }", 0);
    check_seen(check, "server/workers.rs", "fn f() { std::thread::spawn(g) }", 0);
}

#[test]
fn chosen_statuses_are_seen() {
    for offence in [
        "Response::new(404, Payload::Empty)",
        "Response { other, ..default }",
        "http::Response { other, ..default }",
        "other(Status::NOT_FOUND)",
        "Error { status: 404 }",
        "response.status = code;",
        "stream.write(b\"HTTP/1.1 500 \\r\\n\");",
    ] {
        let text = format!("fn f() {{ {offence} }}");
        check_seen(statuses_away_from_home, "api/compat/browse.rs", &text, 1);
        check_seen(statuses_away_from_home, "api/compat/errors.rs", &text, 0);
    }
    check_seen(
        statuses_away_from_home,
        "api/compat/browse.rs",
        "fn f() -> http::Response { reply::ok(body) }",
        0,
    );
    check_seen(
        statuses_away_from_home,
        "api/compat/browse.rs",
        "fn f() { if status == 404 { wait(200) } }",
        0,
    );
    check_seen(statuses_away_from_home, "server/responder.rs", "fn f() { self.status = Some(s) }", 0);
    let takers = status_takers();
    assert!(takers.iter().any(|path| path.ends_with(":: json")), "{takers:?}");
    let call = takers.first().unwrap().replace(' ', "");
    check_seen(statuses_away_from_home, "api/compat/browse.rs", &format!("fn f() {{ {call}(x) }}"), 1);
}
