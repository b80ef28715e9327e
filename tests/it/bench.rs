//! `tester bench` against the real server: its numbers are plausible, and a wrong response is reported as a
//! failure.

use kit::{Server, TempDir, binary, processes_with, tester};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::Output;

/// The printed result of a run without errors.
fn measured(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A number of one measurement.
#[track_caller]
fn number(result: &Value, name: &str, key: &str) -> f64 {
    let row = &result["measurements"][name];
    row[key].as_f64().unwrap_or_else(|| panic!("{name} has no number {key}: {row}"))
}

#[test]
fn a_running_server_is_measured() {
    let server = Server::start();
    let names = ["spawn-tiny", "clients-4", "health-load", "text-100MiB", "loaded-rss", "start"];
    let (address, pid) = (server.address(), server.init_pid());
    let output = tester()
        .args(["bench", "--json", "--rounds=1", "--only", &names.join(","), "--pid", &pid.to_string()])
        .args([address.ip().to_string(), address.port().to_string()])
        .output()
        .unwrap();
    let result = measured(&output);
    assert_eq!((&result["rounds"], &result["loopback"]), (&Value::from(1), &Value::from(true)));
    assert_eq!(result["server"], Value::from(address.to_string()));
    let mut found: Vec<_> = result["measurements"].as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(found, expected);
    for name in ["spawn-tiny", "clients-4"] {
        let ratio = number(&result, name, "ratio");
        assert!((0.1..50.0).contains(&ratio), "{name}: {ratio}");
        let between = number(&result, name, "server") / number(&result, name, "floor");
        assert!((between / ratio - 1.0).abs() < 1e-9, "{name}: {between}, {ratio}");
        assert!(number(&result, name, "cpu_seconds_per_1000") > 0.0, "{name}");
    }
    for name in ["spawn-tiny", "clients-4", "health-load"] {
        let [p50, p99, max] =
            ["p50", "p99", "max"].map(|key| number(&result, name, &format!("{key}_seconds")));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max && max < 20.0, "{name}: {p50} {p99} {max}");
    }
    // By default the server keeps 8 MiB, and a line with the number of omitted bytes.
    let delivered = number(&result, "text-100MiB", "delivered_bytes");
    assert!((delivered - f64::from(8 << 20)).abs() < 1000.0, "{delivered}");
    let text = &result["measurements"]["text-100MiB"];
    assert_eq!((&text["truncated"], &text["ratio"]), (&Value::from(true), &Value::Null));
    // Half of it is streamed while it arrives, the other half is held.
    let peak = number(&result, "text-100MiB", "peak_memory_bytes");
    assert!((f64::from(4 << 20)..f64::from(16 << 20)).contains(&peak), "{peak}");
    assert!(number(&result, "loaded-rss", "server") > f64::from(1 << 20));
    assert_eq!(result["measurements"]["start"]["skipped"], Value::from("no -- SERVER"));
    assert_eq!(fs::read_dir(server.base()).unwrap().count(), 0, "the base directory is not empty");
}

#[test]
fn a_server_is_started_measured_and_removed() {
    let base = TempDir::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = tester()
        .args(["bench", "--json", "--rounds=1", "--only=echo,start,idle-rss,idle-pss,idle-connections"])
        .args([&free.ip().to_string(), &free.port().to_string(), "--"])
        .arg(binary().get_program())
        .args(["--listen", &free.to_string(), "--base-dir"])
        .arg(base.path())
        .output()
        .unwrap();
    let result = measured(&output);
    let start = number(&result, "start", "server");
    assert!((0.000_1..10.0).contains(&start), "{start}");
    let (rss, pss) = (number(&result, "idle-rss", "server"), number(&result, "idle-pss", "server"));
    assert!(rss > f64::from(1 << 20) && pss > 0.0 && pss < rss, "{rss} {pss}");
    let each = number(&result, "idle-connections", "server");
    assert!((0.0..100_000.0).contains(&each), "{each}");
    assert!(number(&result, "echo", "ratio") > 0.1);
    assert!(processes_with(&base.path().to_string_lossy()).is_empty(), "the server still runs");
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0, "the base directory is not empty");
}

#[test]
fn a_wrong_response_is_a_failure() {
    // Without the program `true`, every response is a 200 with exit code 1.
    let server = Server::with(&[("PATH", "/nonexistent")]);
    let address = server.address();
    let mut tester = tester();
    tester.args(["bench", "--json", "--rounds=1", "--only=spawn-true,spawn-tiny,clients-4"]);
    let output = tester.args([address.ip().to_string(), address.port().to_string()]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("tester: spawn-true: expected status 200 and \"exit_code\":0"), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["spawn-true", "clients-4"] {
        let row = &result["measurements"][name];
        assert_eq!((&row["server"], &row["skipped"]), (&Value::Null, &Value::Null));
        assert!(row["failed"].as_str().unwrap().contains("No such file or directory: 'true'"), "{row}");
    }
    assert_eq!(result["measurements"]["spawn-tiny"]["skipped"], Value::from("no chmod in the image"));
}
