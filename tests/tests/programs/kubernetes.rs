// SPDX-License-Identifier: MIT OR Apache-2.0
//! The DaemonSet and the Helm chart are valid for Kubernetes, equal with default values, and not privileged. They have the capabilities of
//! the service and a configuration that mpwatch accepts. Helm's engine and the schemas of Kubernetes come from PyPI (`MPWATCH_PYTHON`).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mpwatch_tests::{list, mpwatch, skip, text};
use serde_json::{Value, json};

const UNIT: &str = "packaging/systemd/mpwatch.service";
const DAEMONSET: &str = "packaging/kubernetes/daemonset.yaml";
const CHART: &str = "packaging/helm/mpwatch";
/// The oldest version of Kubernetes that Chart.yaml allows, and the newest version.
const VERSIONS: [&str; 2] = ["1.25", "1.37"];

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(in_checkout(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs `tests/fixtures/kubernetes.py`. `None`: its packages are missing, and the test is skipped.
fn python(arguments: &[&str], input: &Value) -> Option<Output> {
    let python = std::env::var_os("MPWATCH_PYTHON").unwrap_or_default();
    let imports = ["-c", "import helm_python, kubernetes_validate"];
    if !Command::new(&python).args(imports).output().is_ok_and(|output| output.status.success()) {
        skip(
            "MPWATCH_PYTHON does not name a Python with helm-python-sdk and kubernetes-validate; `./dev test slow` installs it",
        );
        return None;
    }
    let mut child = Command::new(&python)
        .arg(in_checkout("tests/fixtures/kubernetes.py"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

/// The output of [`python`] in a run that must succeed.
fn answer(arguments: &[&str], input: &Value) -> Option<String> {
    let output = python(arguments, input)?;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn chart() -> String {
    in_checkout(CHART).to_str().unwrap().to_owned()
}

/// The objects of the chart with these values.
fn rendered(values: &Value) -> Option<Vec<Value>> {
    let files: Value = serde_json::from_str(&answer(&["render", &chart()], values)?).unwrap();
    let files = files.as_object().unwrap().iter();
    Some(files.map(|(_, manifest)| yaml(manifest.as_str().unwrap())).collect())
}

/// The objects of the manifest.
fn manifest() -> Vec<Value> {
    read(DAEMONSET).split("\n---\n").map(yaml).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| object["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind} in {objects:#?}"))
}

fn pod(objects: &[Value]) -> &Value {
    &of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]
}

/// Values that differ from the defaults, so that every part of the templates is rendered.
fn other_values() -> Value {
    json!({
        "image": {"repository": "registry.example/mpwatch", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "port": 9100,
        "config": "interval = \"2s\"\n\n[web]\nlisten = \"127.0.0.1:{{ .Values.port }}\"\n",
        "secretName": "mpwatch-export",
        "podNames": false,
        "stateHostPath": "/data/mpwatch",
        "resources": {"limits": {"memory": "1Gi"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["mptcp"]}]}
        ]}}},
        "tolerations": [],
        "priorityClassName": "system-node-critical",
        "updateStrategy": {"type": "OnDelete"},
        "podLabels": {"team": "network"},
        "podAnnotations": {},
    })
}

#[test]
fn manifest_and_chart_are_valid_for_kubernetes() {
    let (Some(default), Some(other)) = (rendered(&json!({})), rendered(&other_values())) else { return };
    let all = Value::from([manifest(), default, other.clone()].concat());
    answer(&[&["validate"], &VERSIONS[..]].concat(), &all);
    // The schemas reject what Kubernetes would reject or ignore.
    for (pointer, wrong) in [("/spec/template/spec/hostNetwork", json!("yes")), ("/spec/tempalte", json!({}))]
    {
        let mut broken = of_kind(&other, "DaemonSet").clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        broken.pointer_mut(parent).unwrap()[key] = wrong;
        let output = python(&[&["validate"], &VERSIONS[..]].concat(), &json!([broken])).unwrap();
        assert!(!output.status.success(), "{pointer}");
    }
}

#[test]
fn the_chart_with_default_values_is_the_manifest() {
    let Some(rendered) = rendered(&json!({})) else { return };
    let mut by_helm = pod(&rendered).clone();
    let mut by_hand = pod(&manifest()).clone();
    for pod in [&mut by_helm, &mut by_hand] {
        // Only the chart sets this value, to the default of Kubernetes.
        pod["containers"][0]["imagePullPolicy"] = "IfNotPresent".into();
    }
    assert_eq!(by_helm, by_hand);
    let config =
        |objects: &[Value]| text(&of_kind(objects, "ConfigMap")["data"], "mpwatch.toml").trim().to_owned();
    assert_eq!(config(&rendered), config(&manifest()));
    let annotations = |objects: &[Value]| {
        let mut all = of_kind(objects, "DaemonSet")["spec"]["template"]["metadata"]["annotations"].clone();
        all.as_object_mut().unwrap().remove("checksum/config");
        all
    };
    assert_eq!(annotations(&rendered), annotations(&manifest()));
    let set = of_kind(&rendered, "DaemonSet");
    assert_eq!(text(&set["metadata"]["labels"], "app.kubernetes.io/version"), env!("CARGO_PKG_VERSION"));
}

#[test]
fn values_reach_the_daemonset() {
    let Some(objects) = rendered(&other_values()) else { return };
    let (pod, container) = (pod(&objects), &pod(&objects)["containers"][0]);
    assert_eq!(container["image"], "registry.example/mpwatch:1.2.3");
    assert_eq!(container["ports"][0]["containerPort"], 9100);
    assert!(text(&of_kind(&objects, "ConfigMap")["data"], "mpwatch.toml").contains("127.0.0.1:9100"));
    let names: Vec<&str> = list(pod, "volumes").iter().map(|volume| text(volume, "name")).collect();
    assert_eq!(names, ["config", "secrets", "sys", "netns", "run", "state"]);
    assert_eq!(list(pod, "volumes")[5]["hostPath"]["path"], "/data/mpwatch");
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert!(pod.get("tolerations").is_none() && pod["affinity"].is_object());
    // A changed configuration makes new pods.
    let checksum = |objects: &[Value]| {
        let template = &of_kind(objects, "DaemonSet")["spec"]["template"];
        text(&template["metadata"]["annotations"], "checksum/config").to_owned()
    };
    assert_ne!(checksum(&objects), checksum(&rendered(&json!({})).unwrap()));
}

#[test]
fn wrong_values_are_refused_and_helm_has_no_complaint() {
    let wrong = [
        json!({"port": 0}),
        json!({"image": {"repository": ""}}),
        json!({"tolerances": []}),
        json!({"stateHostPath": "x"}),
    ];
    for values in wrong {
        let Some(output) = python(&["render", &chart()], &values) else { return };
        assert!(!output.status.success(), "{values}");
    }
    let findings: Value = serde_json::from_str(&answer(&["lint", &chart()], &Value::Null).unwrap()).unwrap();
    // Severity 1 is advice, such as adding an icon.
    let is_advice = |finding: &Value| finding["severity"] == 1;
    assert!(list(&findings, "messages").iter().all(is_advice), "{findings}");
    assert_eq!(findings["errors"], json!([]));
}

#[test]
fn every_value_is_documented_and_in_the_schema() {
    let values = read(&format!("{CHART}/values.yaml"));
    let schema: Value = serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).unwrap();
    let known: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let parsed = yaml(&values);
    // Helm reserves the value `global`.
    let ours: BTreeSet<&String> = parsed.as_object().unwrap().keys().collect();
    assert_eq!(known.iter().filter(|name| **name != "global").copied().collect::<BTreeSet<_>>(), ours);
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&parsed));
    // A comment is above each value, or above the group of values without an empty line between them.
    for group in
        values.split("\n\n").filter(|group| ours.iter().any(|name| group.contains(&format!("{name}:"))))
    {
        assert!(group.contains("# "), "no comment: {group}");
    }
}

#[test]
fn the_container_is_not_privileged_and_has_the_capabilities_of_the_service() {
    let objects = manifest();
    let (pod, container) = (pod(&objects), &pod(&objects)["containers"][0]);
    let security = &container["securityContext"];
    assert_eq!(security["privileged"], false);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"][0], "ALL");
    let unit = read(UNIT);
    let line = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).unwrap();
    let of_unit: BTreeSet<String> =
        line.split(' ').map(|capability| capability.replace("CAP_", "")).collect();
    let of_container: BTreeSet<String> = list(&security["capabilities"], "add")
        .iter()
        .map(|capability| capability.as_str().unwrap().to_owned())
        .collect();
    assert_eq!((of_unit.len(), of_unit), (4, of_container));

    let set = of_kind(&objects, "DaemonSet");
    assert_eq!(set["spec"]["selector"]["matchLabels"], set["spec"]["template"]["metadata"]["labels"]);
    let names = |of: &Value, list_name: &str| -> BTreeSet<String> {
        list(of, list_name).iter().map(|item| text(item, "name").to_owned()).collect()
    };
    assert_eq!(names(pod, "volumes"), names(container, "volumeMounts"));
    // All mounts except the folders of the socket and the database are read-only.
    let writable = list(container, "volumeMounts").iter().filter(|volume| volume["readOnly"] != true);
    let writable: Vec<&str> = writable.map(|volume| text(volume, "mountPath")).collect();
    assert_eq!(writable, ["/run/mpwatch", "/var/lib/mpwatch"]);
    for probe in ["readinessProbe", "livenessProbe"] {
        assert!(["/readyz", "/healthz"].contains(&text(&container[probe]["httpGet"], "path")));
        assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"]);
    }
}

#[test]
fn the_configuration_is_valid() {
    let objects = manifest();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpwatch.toml");
    fs::write(&file, text(&of_kind(&objects, "ConfigMap")["data"], "mpwatch.toml")).unwrap();
    let outcome = mpwatch(&["config", "show", "--config", file.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let port = &pod(&objects)["containers"][0]["ports"][0]["containerPort"];
    assert!(outcome.stdout.contains(&format!("web.listen = \"0.0.0.0:{port}\"")), "{}", outcome.stdout);
}
