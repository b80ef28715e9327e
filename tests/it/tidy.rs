//! The project as text: what `docs/ARCHITECTURE.md` and `README.md` claim about the code, checked against the code.
//!
//! This reads source, it does not compile it. Comments and the contents of strings are blanked first, and test code is
//! cut away, so a check sees what the program is made of. It does not see through macros or renamed imports
//! (`use x as y`); both stand out to a reader. That each check can fail is a test of its own, at the end.

use sandbox_runtime::api::routes;
use sandbox_runtime::config::SETTINGS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module, its floor, and which other modules it imports: all below its own floor. The same table is in
/// docs/ARCHITECTURE.md.
const FLOORS: [(&str, u8, &[&str]); 14] = [
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

#[test]
fn modules_import_from_lower_floors_only_and_as_the_table_says() {
    let (sources, mut offences) = (sources(), Vec::new());
    for (module, floor, allowed) in FLOORS {
        let files = sources.iter().filter(|source| source.module() == module);
        let imported: BTreeSet<String> = files.flat_map(Source::imports).collect();
        if imported != allowed.iter().map(ToString::to_string).collect() {
            offences.push(format!("{module} imports {imported:?}"));
        }
        offences.extend(
            allowed
                .iter()
                .filter(|other| floor_of(other) >= floor)
                .map(|other| format!("{module}: {other} is not below")),
        );
    }
    check_none(&offences);
    let modules: BTreeSet<&str> = sources.iter().map(Source::module).collect();
    assert_eq!(modules, FLOORS.iter().map(|(module, ..)| *module).collect(), "modules with a floor");
}

#[test]
fn the_floors_in_the_architecture_are_these() {
    let written: BTreeSet<Vec<String>> =
        table(&read("docs/ARCHITECTURE.md"), "Module").into_iter().map(|row| row[..3].to_vec()).collect();
    let row = |(module, floor, imports): &(&str, u8, &[&str])| {
        let imports = if imports.is_empty() { "–".into() } else { imports.join(", ") };
        vec![format!("`{module}`"), format!("L{floor}"), imports]
    };
    assert_eq!(written, FLOORS.iter().map(row).collect());
}

#[test]
fn unsafe_is_in_sys_only() {
    check_all(unsafe_outside_sys);
}

#[test]
fn json_and_every_other_outside_crate_has_one_home() {
    check_all(crates_away_from_home);
}

#[test]
fn status_codes_are_chosen_in_reply_only() {
    check_all(statuses_outside_reply);
}

#[test]
fn the_environment_is_read_by_config_only() {
    check_all(environment_outside_config);
    // The one exception: main hands the whole environment to config, and does nothing else with it.
    let main = sources().into_iter().find(|source| source.path == "main.rs").unwrap();
    assert!(main.code.contains("Invocation::parse(args_os().skip(1), vars_os())"));
}

#[test]
fn only_the_log_prints() {
    check_all(printing_outside_log);
}

#[test]
fn the_program_is_built_from_exactly_six_crates() {
    let manifest = read("Cargo.toml");
    let sections = || manifest.split("\n[").filter_map(|section| section.split_once("]\n"));
    let dependencies =
        sections().filter(|(name, _)| name.ends_with("dependencies") && !name.starts_with("dev-"));
    let names: Vec<String> = dependencies
        .flat_map(|(_, rows)| rows.lines())
        .filter_map(|row| row.split_once(" = "))
        .map(|(name, _)| name.replace('-', "_"))
        .collect();
    assert_eq!(names, CRATES.map(|(name, _)| name));
    let sources = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let from = sources.lines().filter_map(|line| line.strip_prefix("source = ")).collect::<BTreeSet<_>>();
    assert_eq!(from.len(), 1, "one registry, and no mirror of it: {from:?}");
    assert!(from.iter().all(|source| source.contains("https://github.com/rust-lang/")), "{from:?}");
}

#[test]
fn the_endpoints_in_the_readme_are_those_of_the_code() {
    let written: Vec<String> =
        table(&read("docs/api.md"), "Call").into_iter().map(|row| row[0].clone()).collect();
    let coded =
        routes().map(|route| format!("`{} {}`", format!("{:?}", route.method).to_uppercase(), route.pattern));
    assert_eq!(written, coded.collect::<Vec<_>>());
}

#[test]
fn the_settings_in_the_readme_are_those_of_the_code() {
    let coded = SETTINGS.iter().map(|setting| {
        vec![
            format!("`{}`", setting.variable),
            setting.flag.map_or("none".to_owned(), |flag| format!("`{flag} {}`", setting.value)),
            setting.default.map_or("none".to_owned(), |default| format!("`{default}`")),
            setting.help.to_owned(),
        ]
    });
    assert_eq!(table(&read("docs/configuration.md"), "Variable"), coded.collect::<Vec<_>>());
}

#[test]
fn every_test_and_file_that_the_documents_name_exists() {
    let mut documents = vec![root().join("README.md")];
    documents.extend(fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let (mut offences, mut named) = (Vec::new(), 0);
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for name in code_spans(&text) {
            let is_ours = ["src/", "tests/", "tester/", "docs/"].iter().any(|start| name.starts_with(start));
            if is_ours && !name.contains([' ', '*', '…']) {
                named += 1;
                offences.extend(missing(name));
            }
        }
    }
    check_none(&offences);
    assert!(named > 50, "the documents name only {named}");
}

#[test]
fn nothing_names_the_machine_it_was_made_on_or_a_registry() {
    let mut offences = Vec::new();
    for path in files_below(&root()) {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        offences.extend(machine_names(&path, &text));
    }
    check_none(&offences);
}

fn unsafe_outside_sys(source: &Source) -> Vec<String> {
    if source.is_in("sys/") { Vec::new() } else { source.with_words(&["unsafe"]) }
}

fn crates_away_from_home(source: &Source) -> Vec<String> {
    let away = CRATES.iter().filter(|(_, homes)| !homes.iter().any(|home| source.is_in(home)));
    away.flat_map(|(name, _)| source.with_words(&[name])).collect()
}

/// Three ways to choose a status: to make a response, to change one, to pass a number to one of `reply`'s functions.
fn statuses_outside_reply(source: &Source) -> Vec<String> {
    if ["app/reply.rs", "http/response.rs", "http/status.rs"].iter().any(|home| source.is_in(home)) {
        return Vec::new();
    }
    let mut offences = source.with_text(&["Response::new(", ".status ="]);
    let built = source.code.match_indices("Response {").map(|(at, _)| &source.code[..at]);
    // Not as the end of a longer name, and not as what a function returns.
    offences.extend(
        built
            .filter(|before| word_before(before, before.len()).is_empty() && !before.ends_with("-> "))
            .map(|_| format!("{}: Response {{", source.path)),
    );
    // Only the probe reads a status line; nobody else may write one past `Response`.
    if !source.is_in("server/probe.rs") && source.text.contains("\"HTTP/1.") {
        offences.push(format!("{}: a status line of its own", source.path));
    }
    let takes_status = sources()
        .iter()
        .filter(|source| source.path == "app/reply.rs")
        .flat_map(|reply| {
            reply
                .code
                .match_indices("(status: Status")
                .map(|(at, _)| word_before(&reply.code, at).to_owned())
                .collect::<Vec<_>>()
        })
        .collect::<BTreeSet<_>>();
    assert!(takes_status.contains("json"), "{takes_status:?}");
    for call in takes_status.iter().map(|name| format!("reply::{name}(")) {
        let passed = source.code.match_indices(&call).map(|(at, _)| &source.code[at + call.len()..]);
        offences.extend(passed.map(|argument| {
            format!("{}: {call}{}", source.path, argument.lines().next().unwrap_or_default())
        }));
    }
    offences
}

fn environment_outside_config(source: &Source) -> Vec<String> {
    match source.path.as_str() {
        path if path.starts_with("config/") => Vec::new(),
        "main.rs" => source.with_words(&["var", "var_os", "vars", "environ", "getenv"]),
        // It wipes a variable, and tells nobody what it was.
        "sys/environment.rs" => source.with_words(&["var", "var_os", "vars", "vars_os", "getenv"]),
        _ => source.with_words(&["var", "var_os", "vars", "vars_os", "environ", "getenv"]),
    }
}

fn printing_outside_log(source: &Source) -> Vec<String> {
    if source.is_in("log.rs") {
        return Vec::new();
    }
    let mut offences = source.with_words(&["print", "println", "eprint", "eprintln", "dbg"]);
    offences.extend(source.with_text(&["io::stdout", "io::stderr", "stdout()", "stderr()"]));
    offences
}

fn machine_names(path: &Path, text: &str) -> Vec<String> {
    // In two halves each, so that this file does not name them.
    let names = [
        ("/wo", "rk/"),
        ("/tmp", "/wt"),
        ("crates", ".io"),
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("npmjs", ".org"),
        ("deb.debian", ".org"),
        ("proxy.golang", ".org"),
    ];
    let is_lock = path.ends_with("Cargo.lock");
    let found = names.iter().map(|(one, other)| format!("{one}{other}")).filter(|name| {
        // In the lock file it is the name that cargo gives its registry, whatever mirror was used.
        text.contains(name.as_str()) && !(is_lock && name.starts_with("crates"))
    });
    found.map(|name| format!("{} names {name}", path.display())).collect()
}

/// One file below src/.
struct Source {
    /// Below src/.
    path: String,
    /// Without comments and test code.
    text: String,
    /// Without the contents of strings, too.
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let (text, code) = blanked(text);
        let tests = test_items(&code);
        let cut = |text: String| {
            let mut bytes = text.into_bytes();
            tests.iter().for_each(|range| bytes[range.clone()].fill(b' '));
            String::from_utf8(bytes).unwrap()
        };
        Self { path: path.to_owned(), text: cut(text), code: cut(code) }
    }

    fn module(&self) -> &str {
        self.path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    fn is_in(&self, home: &str) -> bool {
        if home.ends_with('/') { self.path.starts_with(home) } else { self.path == home }
    }

    /// The modules that paths from the crate's root lead into, but for this one.
    fn imports(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for start in ["crate::", "sandbox_runtime::"] {
            for (at, _) in self.code.match_indices(start) {
                let is_ours = !self.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if is_ours && !(start == "crate::" && self.path == "main.rs") {
                    found.extend(first_words(&self.code[at + start.len()..]));
                }
            }
        }
        // `super::super::` from a folder leads there as well; what is on the first floor needs one.
        let climb = if self.path.contains('/') && !self.path.ends_with("/mod.rs") { 2 } else { 1 };
        for (at, ladder) in self.code.match_indices(&"super::".repeat(climb)) {
            found.extend(first_words(&self.code[at + ladder.len()..]));
        }
        found.retain(|name| name != self.module() && name != "super");
        found
    }

    fn with_words(&self, forbidden: &[&str]) -> Vec<String> {
        let words = self.code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let found = words.filter(|word| forbidden.contains(word));
        found.map(|word| format!("{}: {word}", self.path)).collect()
    }

    fn with_text(&self, forbidden: &[&str]) -> Vec<String> {
        let lines = self.code.lines().filter(|line| forbidden.iter().any(|text| line.contains(text)));
        lines.map(|line| format!("{}: {}", self.path, line.trim())).collect()
    }
}

/// `a::b` gives `a`; `{a::b, c::{d, e}}` gives `a` and `c`.
fn first_words(path: &str) -> Vec<String> {
    let word = |text: &str| {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![word(path)] };
    let (mut depth, mut words) = (0, vec![word(group)]);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => words.push(word(&group[at + 1..])),
            _ => {}
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn word_before(code: &str, end: usize) -> &str {
    code[..end].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

fn floor_of(module: &str) -> u8 {
    FLOORS.iter().find(|(name, ..)| *name == module).map_or(u8::MAX, |(_, floor, _)| *floor)
}

/// The source with its comments blanked, and the same with the contents of strings and characters blanked too. Lengths
/// and line ends stay.
fn blanked(source: &str) -> (String, String) {
    let (mut text, mut code) = (source.as_bytes().to_vec(), source.as_bytes().to_vec());
    let blank =
        |bytes: &mut [u8]| bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    let mut at = 0;
    while at < source.len() {
        let rest = &source.as_bytes()[at..];
        let in_word = at > 0
            && (source.as_bytes()[at - 1].is_ascii_alphanumeric() || source.as_bytes()[at - 1] == b'_');
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            blank(&mut text[at..at + length]);
            blank(&mut code[at..at + length]);
            at += length;
        } else if let Some(length) = literal(rest, in_word) {
            blank(&mut code[at + 1..at + length - 1]);
            at += length;
        } else {
            assert!(!rest.starts_with(b"/*"), "block comments are not read here, nor used");
            at += 1;
        }
    }
    (String::from_utf8(text).unwrap(), String::from_utf8(code).unwrap())
}

/// The length of the string or character that begins here, if one does: prefix, hashes and quotes included.
fn literal(rest: &[u8], in_word: bool) -> Option<usize> {
    if rest[0] == b'\'' {
        return match rest[1..] {
            [b'\\', ..] => Some(4 + rest[3..].iter().position(|byte| *byte == b'\'')?),
            _ => {
                // A lifetime has no second quote after one character.
                let width = match rest[1] {
                    0..=0x7f => 1,
                    0x80..=0xdf => 2,
                    0xe0..=0xef => 3,
                    _ => 4,
                };
                (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
            }
        };
    }
    if rest[0] == b'"' {
        let mut at = 1;
        while rest[at] != b'"' {
            at += if rest[at] == b'\\' { 2 } else { 1 };
        }
        return Some(at + 1);
    }
    if in_word {
        return None;
    }
    let prefix = rest.iter().take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let is_raw = prefix > 0 && rest[..prefix].contains(&b'r') && rest.get(prefix + hashes) == Some(&b'"');
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let content = prefix + hashes + 1;
    is_raw.then(|| {
        content + end.len() + rest[content..].windows(end.len()).position(|window| window == end).unwrap()
    })
}

/// Where there is code for tests only: each `#[cfg(test)]` with the item after it.
fn test_items(code: &str) -> Vec<std::ops::Range<usize>> {
    let items = code.match_indices("#[cfg(test)]").map(|(start, attribute)| {
        let mut depth = 0;
        for (at, character) in code[start + attribute.len()..].char_indices() {
            match character {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(character, '}' | ';') {
                return start..start + attribute.len() + at + 1;
            }
        }
        start..code.len()
    });
    items.collect()
}

fn sources() -> Vec<Source> {
    let directory = root().join("src");
    let paths = files_below(&directory).into_iter().map(|path| {
        (
            path.strip_prefix(&directory).unwrap().to_str().unwrap().to_owned(),
            fs::read_to_string(&path).unwrap(),
        )
    });
    // `mod tests;` stands behind #[cfg(test)] where it is declared.
    paths
        .filter(|(path, _)| !path.ends_with("/tests.rs"))
        .map(|(path, text)| Source::new(&path, &text))
        .collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// All files, but those that git and cargo keep.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        if kind.is_dir() && !path.ends_with(".git") && !path.ends_with("target") {
            files.extend(files_below(&path));
        } else if kind.is_file() && !path.ends_with(".git") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The rows of the only Markdown table whose first column has this heading.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let head = format!("| {heading} |");
    assert_eq!(
        text.lines().filter(|line| line.starts_with(&head)).count(),
        1,
        "tables that begin with {heading}"
    );
    let lines = text.lines().skip_while(|line| !line.starts_with(&head));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands between backticks, code blocks left out.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("\n```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// What is wrong with a name such as `src/http/head.rs` or `tests/it/config.rs::a_test`.
fn missing(name: &str) -> Option<String> {
    let (path, test) = name.split_once("::").map_or((name, None), |(path, test)| (path, Some(test)));
    let path = root().join(path);
    let Some(test) = test else { return (!path.exists()).then(|| format!("there is no {name}")) };
    let text = fs::read_to_string(path).unwrap_or_default();
    // A test, or a check of the tester: a row of its table.
    let is_there = text.contains(&format!("#[test]\nfn {test}()"))
        || text.contains(&format!("#[test]\n    fn {test}()"))
        || text.contains(&format!("\", {test}),\n"));
    (!is_there).then(|| format!("there is no test {name}"))
}

#[track_caller]
fn check_all(check: fn(&Source) -> Vec<String>) {
    check_none(&sources().iter().flat_map(check).collect::<Vec<_>>());
}

#[track_caller]
fn check_none(offences: &[String]) {
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[track_caller]
fn check_seen(check: fn(&Source) -> Vec<String>, path: &str, text: &str, expected: usize) {
    assert_eq!(check(&Source::new(path, text)).len(), expected, "{path}: {text}");
}

#[test]
fn an_offence_is_seen_and_what_only_looks_like_one_is_not() {
    check_seen(unsafe_outside_sys, "exec/run.rs", "fn f() { unsafe { g() } }", 1);
    check_seen(unsafe_outside_sys, "sys/fs.rs", "fn f() { unsafe { g() } }", 0);
    check_seen(
        unsafe_outside_sys,
        "log.rs",
        "// unsafe\nfn f() -> &'static str { \"unsafe \\\" unsafe\" }",
        0,
    );
    check_seen(unsafe_outside_sys, "log.rs", "fn f() { (b'\"', '\\'', r#\"\"unsafe\"#); unsafe { g() } }", 1);
    check_seen(
        unsafe_outside_sys,
        "log.rs",
        "#[cfg(test)]\nmod tests { fn f() { unsafe {} } }\nunsafe fn g();",
        1,
    );
    check_seen(crates_away_from_home, "http/body.rs", "use httparse::Request; use libc as c;", 2);
    check_seen(crates_away_from_home, "app/browse.rs", "serde_json::to_vec(&1)", 1);
    check_seen(crates_away_from_home, "http/head.rs", "use httparse::Request;", 0);
    for offence in [
        "Response::new(404, Payload::Empty)",
        "Response { status: 404, ..other }",
        "reply::json(404, body)",
        "response.status = 500;",
        "stream.write(b\"HTTP/1.1 500 \\r\\n\")",
    ] {
        check_seen(statuses_outside_reply, "app/browse.rs", offence, 1);
        check_seen(statuses_outside_reply, "app/reply.rs", offence, 0);
    }
    check_seen(statuses_outside_reply, "app/browse.rs", "fn f() -> Response {\nreply::ok(body) }", 0);
    check_seen(environment_outside_config, "exec/mod.rs", "std::env::var_os(name)", 1);
    check_seen(
        environment_outside_config,
        "main.rs",
        "use std::env::{args_os, vars_os}; std::env::var(name)",
        1,
    );
    check_seen(printing_outside_log, "init.rs", "println!(\"x\"); std::io::stderr().write(b\"\")", 2);
    let imports =
        |path: &str, text: &str| Source::new(path, text).imports().into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(imports("exec/run.rs", "use super::{Client}; use crate::sys::poll::{poll};"), "sys");
    assert_eq!(imports("config.rs", "use crate::{app, exec::{self, run}, server};"), "app exec server");
    assert_eq!(imports("files/walk.rs", "use super::super::log; use super::root;"), "log");
    assert_eq!(imports("log.rs", "fn f() { super::sys::poll() }"), "sys");
    assert_eq!(machine_names(Path::new("a"), &["/wo", "rk/main"].concat()).len(), 1);
    assert!(missing("src/log.rs::no_such_test").is_some() && missing("src/no_such.rs").is_some());
    assert!(missing("src/log.rs::levels_have_names").is_none());
    assert_eq!(table("| A | B |\n|---|---|\n| 1 | 2 |\n\n| C | D |\n", "A"), [["1", "2"]]);
    assert_eq!(code_spans("a `b` c\n```\nx `y\n```\n`d`").collect::<Vec<_>>(), ["b", "d"]);
}
