//! Request targets and paths. An encoded path decodes to itself. A target without `%` and a query is its own
//! path. The absolute form has the same path and query. An encoded query decodes to itself. The file name of
//! a path is one component.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::api::route::find;
use sandbox_runtime::api::routes;
use sandbox_runtime::files::RelPath;
use sandbox_runtime::http::Method;
use sandbox_runtime::http::target::Target;

fuzz_target!(|input: &[u8]| {
    if let Ok(target) = Target::parse(input) {
        assert!(target.path.starts_with(b"/") && target.path.len() <= input.len() + 1);
        assert!(!input.iter().any(|byte| *byte <= b' ' || *byte == 0x7f));
        if input.starts_with(b"/") {
            let origin = input.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap();
            if !origin.contains(&b'%') {
                assert_eq!(target.path, origin);
            }
            assert_eq!(Target::parse(&[b"http://host:80", input].concat()), Ok(target.clone()));
            let with_query = Target::parse(&[input, b"?/..%2f"].concat());
            assert_eq!(with_query.map(|target| target.path).as_ref(), Ok(&target.path));
        }
        let _ = find(routes(), Method::Get, &target.path);
        check_path(&target.path);
    }

    // As a path. Every third byte is escaped in lower case, and half of the letters and digits are not
    // escaped.
    let path = [b"/", input].concat();
    let mut encoded = String::new();
    for (index, byte) in path.iter().enumerate() {
        match byte {
            byte if index == 0 || (byte.is_ascii_alphanumeric() && index % 2 == 0) => {
                encoded.push(char::from(*byte))
            }
            byte if index % 3 == 0 => encoded.push_str(&format!("%{byte:02x}")),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    assert_eq!(Target::parse(encoded.as_bytes()).map(|target| target.path), Ok(path));
    let value = encoded.strip_prefix('/').unwrap_or_default();
    let with_query = format!("/?first=1&name={value}&name=2");
    let query = Target::parse(with_query.as_bytes()).unwrap().query;
    assert_eq!(query.get("name").as_deref(), Some(input));
    check_path(input);
});

fn check_path(bytes: &[u8]) {
    let Ok(path) = RelPath::parse(bytes) else {
        assert!(bytes.contains(&0));
        return;
    };
    assert!(!bytes.contains(&0));
    if let Some(name) = path.file_name() {
        assert!(!name.is_empty() && !name.contains(&b'/') && name != b"." && name != b"..");
        assert!(bytes.ends_with(name));
    }
}
