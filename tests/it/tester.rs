//! The tester against the real server: every check passes, however standard output is sent.

use kit::Server;

#[track_caller]
fn check_passes(server: &Server) {
    let address = server.address();
    let output = kit::tester().args([address.ip().to_string(), address.port().to_string()]).output().unwrap();
    let (report, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && errors.is_empty(), "{}\n{report}\n{errors}", output.status);
    assert_eq!(
        std::fs::read_dir(server.base()).unwrap().count(),
        0,
        "the tester removes its files\n{report}"
    );
    let passed = report.lines().filter(|line| line.starts_with("ok  ")).count();
    let skipped: Vec<&str> = report.lines().filter(|line| line.starts_with("skip")).collect();
    assert!(passed + skipped.len() > 100, "{report}");
    assert!(skipped.is_empty() || std::env::var_os("CI").is_none(), "{skipped:#?}");
}

#[test]
fn every_check_passes() {
    check_passes(&Server::start());
}

#[test]
fn every_check_passes_while_streaming() {
    check_passes(&Server::with(&[("SANDBOX_OUTPUT_BUFFER_BYTES", "0")]));
}

#[test]
fn a_failed_check_is_reported() {
    // The tester has no token.
    let server = Server::with(&[("SANDBOX_TOKEN", "secret")]);
    let address = server.address();
    let output = kit::tester().args([address.ip().to_string(), address.port().to_string()]).output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains("FAIL"), "{report}");
}
