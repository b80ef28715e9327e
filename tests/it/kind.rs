//! The manifests in `kind/` agree with the image and the code. `.ci/kind.sh` checks that Kubernetes accepts
//! them.

use sandbox_runtime::api::{Access, routes};
use sandbox_runtime::config::SETTINGS;
use std::fs;
use std::path::Path;

/// The manifests that contain a pod.
const PODS: [&str; 5] = [
    "sandbox.yaml",
    "sandbox-persistent.yaml",
    "template.yaml",
    "inject-init-container.yaml",
    "inject-image-volume.yaml",
];

#[test]
fn images_have_this_version() {
    let expected = format!("sandbox-runtime:{}", env!("CARGO_PKG_VERSION"));
    for file in PODS {
        let manifest = manifest(file);
        let images: Vec<&str> = values(&manifest, "image").chain(values(&manifest, "reference")).collect();
        assert!(images.contains(&&*expected), "{file}: {images:?}");
        assert!(
            images.iter().all(|image| *image == expected || !image.contains("sandbox-runtime")),
            "{file}: {images:?}"
        );
        assert!(images.iter().all(|image| image.contains(':') && !image.ends_with(":latest")), "{file}");
    }
}

#[test]
fn the_tester_has_this_version_and_the_labels_of_a_router() {
    let tester = manifest("tester.yaml");
    let image = format!("sandbox-tester:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(values(&tester, "image").collect::<Vec<_>>(), [image]);
    let labels = tester.split_once("labels:").unwrap().1.split_once("    spec:").unwrap().0;
    let (key, value) = labels.trim().split_once(": ").unwrap();
    for file in ["networkpolicy.yaml", "template.yaml"] {
        assert!(manifest(file).contains(&format!("{key}: {value}")), "{file}: {labels}");
    }
}

#[test]
fn ports_match_the_server_and_the_image() {
    let port = default_of("SANDBOX_LISTEN");
    assert_eq!(instruction("EXPOSE"), port);
    for file in PODS {
        assert_eq!(values(&manifest(file), "containerPort").collect::<Vec<_>>(), [port], "{file}");
    }
    for file in ["template.yaml", "networkpolicy.yaml"] {
        assert!(manifest(file).contains(&format!("{{ protocol: TCP, port: {port} }}")), "{file}");
    }
    assert!(read("run-test-kind.sh").contains(&format!(" :{port} ")));
}

#[test]
fn users_match_the_image() {
    let user = instruction("USER");
    for file in PODS {
        let manifest = manifest(file);
        let value = |key| values(&manifest, key).next().unwrap_or_default().to_owned();
        assert_eq!(format!("{}:{}", value("runAsUser"), value("runAsGroup")), user, "{file}");
    }
}

#[test]
fn variables_are_settings_and_the_base_dir_is_writable() {
    for file in PODS {
        let manifest = manifest(file);
        let ours: Vec<&str> =
            values(&manifest, "- name").filter(|name| name.starts_with("SANDBOX_")).collect();
        assert!(ours.contains(&"SANDBOX_BASE_DIR"), "{file}");
        for name in ours {
            assert!(SETTINGS.iter().any(|setting| setting.variable == name), "{file}: {name}");
        }
        let base = values(&manifest, "value").next().unwrap_or_default();
        assert!(manifest.contains(&format!("{{ name: workspace, mountPath: {base} }}")), "{file}: {base}");
    }
}

#[test]
fn probes_request_health() {
    let health = routes().find(|route| route.access == Access::Public).unwrap();
    let probe = format!("httpGet: {{ path: {}, port: http }}", health.pattern);
    for file in PODS {
        assert_eq!(manifest(file).matches(&probe).count(), 3, "{file}: {probe}");
    }
}

#[test]
fn kubernetes_waits_longer_than_the_server() {
    let grace: u32 = default_of("SANDBOX_SHUTDOWN_GRACE_SECONDS").parse().unwrap();
    for file in PODS {
        let manifest = manifest(file);
        let given: u32 = values(&manifest, "terminationGracePeriodSeconds").next().unwrap().parse().unwrap();
        assert!(given >= grace + 10, "{file}: {given}");
    }
}

#[test]
fn the_binary_path_matches_the_image_and_install() {
    let entry = instruction("ENTRYPOINT").trim_matches(['[', ']', '"']).to_owned();
    let init = manifest("inject-init-container.yaml");
    assert!(init.contains(&format!("command: [{entry}, install, /opt/sandbox-runtime]")), "{entry}");
    for file in ["inject-init-container.yaml", "inject-image-volume.yaml"] {
        let manifest = manifest(file);
        assert!(manifest.contains(&format!("command: [/opt/sandbox-runtime{entry}]")), "{file}");
        assert!(
            manifest.contains("{ name: runtime, mountPath: /opt/sandbox-runtime, readOnly: true }"),
            "{file}"
        );
    }
}

#[test]
fn pooled_and_direct_sandboxes_have_the_same_pod() {
    let pod = |file| manifest(file).split_once("  podTemplate:").unwrap().1.to_owned();
    assert_eq!(pod("sandbox.yaml"), pod("template.yaml"));
}

#[test]
fn persistent_sandbox_has_the_same_pod_but_the_volume() {
    let pod = |file| manifest(file).split_once("  podTemplate:").unwrap().1.to_owned();
    let persistent = pod("sandbox-persistent.yaml");
    let (persistent, claims) = persistent.split_once("  volumeClaimTemplates:").unwrap();
    let group = "        fsGroup: 1000\n";
    let policy = "        fsGroupChangePolicy: OnRootMismatch\n";
    let volume = "        - name: workspace\n          emptyDir: { sizeLimit: 1Gi }\n";
    let expected = pod("sandbox.yaml").replace(group, &format!("{group}{policy}")).replace(volume, "");
    assert_eq!(persistent, expected);
    assert!(claims.contains("metadata: { name: workspace }"), "{claims}");
}

#[test]
fn references_between_manifests_resolve() {
    let name = |file| values(&manifest(file), "name").next().unwrap().to_owned();
    let (template, pool, claim) = (name("template.yaml"), name("warmpool.yaml"), name("claim.yaml"));
    let reference = |file, key: &str| {
        let manifest = manifest(file);
        let (_, after) = manifest.split_once(key).unwrap();
        values(after, "name").next().unwrap().to_owned()
    };
    assert_eq!(reference("warmpool.yaml", "sandboxTemplateRef:"), template);
    assert_eq!(reference("claim.yaml", "warmPoolRef:"), pool);
    assert!(read("run-test-kind.sh").contains(&format!("$CLAIM/{claim}")));
    let label = "app.kubernetes.io/name: sandbox-runtime";
    for file in PODS.into_iter().chain(["networkpolicy.yaml"]) {
        assert!(manifest(file).contains(label), "{file}");
    }
}

#[test]
fn documented_versions_are_those_of_the_script() {
    let script = read("run-test-kind.sh");
    for (variable, software) in [("CONTROLLER_VERSION", "Go router"), ("SDK_VERSION", "Python SDK")] {
        let (_, after) = script.split_once(&format!("\n{variable}=")).unwrap();
        let version = after.split_whitespace().next().unwrap();
        for document in ["README.md", "docs/kubernetes.md"] {
            assert!(read(document).contains(&format!("{software} {version}")), "{document}: {software}");
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The manifest without its comments.
fn manifest(file: &str) -> String {
    let text = read(&format!("kind/{file}"));
    let kept = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    kept.map(|line| line.split(" #").next().unwrap_or_default().trim_end().to_owned() + "\n").collect()
}

/// The value of each line `key: value`.
fn values<'a>(manifest: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    manifest.lines().filter_map(move |line| line.trim_start().strip_prefix(key)?.strip_prefix(": "))
}

fn instruction(name: &str) -> String {
    let dockerfile = read("Dockerfile.scratch");
    let mut lines = dockerfile.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap().to_owned()
}

fn default_of(variable: &str) -> &'static str {
    SETTINGS.iter().find(|setting| setting.variable == variable).unwrap().default.unwrap()
}
