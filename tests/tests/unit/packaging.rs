// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packaging: the systemd unit is valid and sandboxed, and the examples are valid. host_package.rs tests installing and purging the package,
//! kubernetes.rs tests the DaemonSet and the chart.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mpwatch_tests::{mpwatch, program, skip, text};
use serde_json::Value;

/// Maximum exposure level of the service in `systemd-analyze security`.
const MAX_EXPOSURE: f64 = 2.7;
const UNIT: &str = "packaging/systemd/mpwatch.service";
const SAMPLE: &str = "packaging/examples/mpwatch.toml";

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(in_checkout(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The values of a setting of the unit, in order.
fn settings(name: &str) -> Vec<String> {
    let lines: Vec<String> = read(UNIT).lines().map(str::to_owned).collect();
    let values = lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

/// Writes the unit with the path of the program under test.
fn unit_for_this_machine(folder: &Path) -> PathBuf {
    let path = folder.join("mpwatch.service");
    let program = program().canonicalize().unwrap();
    fs::write(&path, read(UNIT).replace("/usr/bin/mpwatch", program.to_str().unwrap())).unwrap();
    path
}

fn systemd_analyze(arguments: &[&str]) -> Option<Output> {
    let output = Command::new("systemd-analyze").args(arguments).output();
    if output.is_err() {
        skip("systemd-analyze is missing; it is in Debian's package `systemd`");
    }
    output.ok()
}

#[test]
fn the_unit_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let unit = unit_for_this_machine(folder.path());
    let Some(output) = systemd_analyze(&["verify", "--man=no", unit.to_str().unwrap()]) else { return };
    assert!(output.status.success() && text_of(&output).trim().is_empty(), "{}", text_of(&output));
}

#[test]
fn the_service_is_sandboxed() {
    let folder = tempfile::tempdir().unwrap();
    let unit = unit_for_this_machine(folder.path());
    let arguments = ["security", "--offline=true", "--no-pager", unit.to_str().unwrap()];
    let Some(output) = systemd_analyze(&arguments) else { return };
    let text = text_of(&output);
    let line = text.lines().find(|line| line.contains("Overall exposure level")).expect("a verdict");
    let level: f64 = line.split_whitespace().find_map(|word| word.parse().ok()).expect("a level");
    assert!(level <= MAX_EXPOSURE, "{text}");
}

/// The daemon uses about 100 descriptors, and 200 with the maximum number of clients. The usual soft limit is 1 024.
#[test]
fn the_service_may_open_more_files_than_usual() {
    let [limit] = &settings("LimitNOFILE")[..] else { panic!("one limit of descriptors") };
    assert!(limit.parse::<u64>().unwrap() > 1_024, "{limit}");
}

/// Energy counters leak what other programs compute (PLATYPUS), and users join the group of the service to read its socket.
#[test]
fn energy_counters_are_for_the_user_of_the_service_and_not_for_its_group() {
    let rules = read("packaging/systemd/mpwatch.tmpfiles");
    let rules: Vec<Vec<&str>> =
        rules.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect()).collect();
    assert!(!rules.is_empty());
    for rule in rules {
        let [kind, path, mode, user, group, age] = rule[..] else { panic!("{rule:?}") };
        assert!(path.starts_with("/sys/devices/virtual/powercap/") && path.ends_with("/energy_uj"), "{path}");
        assert_eq!((kind, mode, user, group, age), ("z", "0400", "mpwatch", "root", "-"), "{path}");
    }
}

/// The sample configuration, generated from the schema of the program.
fn sample(head: &str) -> String {
    let schema: Value = serde_json::from_str(&mpwatch(&["config", "schema"]).stdout).unwrap();
    let line = |name: &str, key: &Value| {
        let default = if key["default"].is_array() { "[]".to_owned() } else { key["default"].to_string() };
        format!("\n# {}\n#{name} = {default}\n", text(key, "description"))
    };
    // In TOML, the keys of a table precede its subtables.
    let mut text = head.to_owned();
    let mut tables = vec![(String::new(), &schema)];
    while let Some((table, object)) = (!tables.is_empty()).then(|| tables.remove(0)) {
        let (inner, keys): (Vec<_>, Vec<_>) = object["properties"]
            .as_object()
            .unwrap()
            .iter()
            .partition(|(_, key)| key["properties"].is_object());
        if !table.is_empty() {
            text.extend(["\n[", &table, "]\n"]);
        }
        for (name, key) in keys {
            let line = line(name, key);
            text += if table.is_empty() { &line } else { line.trim_start_matches('\n') };
        }
        let dotted = |name: &str| if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
        let inner = inner.into_iter().map(|(name, key)| (dotted(name), key));
        tables.splice(0..0, inner);
    }
    text
}

#[test]
fn the_sample_configuration_has_every_key_with_its_default() {
    let text = if in_checkout(SAMPLE).exists() { read(SAMPLE) } else { String::new() };
    let head: String =
        text.lines().take_while(|line| !line.is_empty()).flat_map(|line| [line, "\n"]).collect();
    let generated = sample(&head);
    if std::env::var_os("MPWATCH_BLESS").is_some() {
        fs::write(in_checkout(SAMPLE), &generated).unwrap();
    } else {
        assert_eq!(text, generated, "run MPWATCH_BLESS=1 cargo test --workspace --test unit packaging");
    }
    // With all keys uncommented the configuration is the same: all values are defaults.
    let folder = tempfile::tempdir().unwrap();
    let key = |line: &str| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).map(str::to_owned);
    let uncommented: String =
        generated.lines().map(|line| key(line).unwrap_or_else(|| line.to_owned()) + "\n").collect();
    let shown = |text: &str| {
        let file = folder.path().join("mpwatch.toml");
        fs::write(&file, text).unwrap();
        let outcome = mpwatch(&["config", "show", "--config", file.to_str().unwrap()]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.stdout
    };
    assert_eq!(shown(&generated), shown(&uncommented));
}

#[test]
fn the_sample_web_config_file_is_valid_for_mpwatch_and_promtool() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(folder.path().join("server.crt"), pair.cert.pem()).unwrap();
    fs::write(folder.path().join("server.key"), pair.signing_key.serialize_pem()).unwrap();
    let file = folder.path().join("web.yml");
    fs::copy(in_checkout("packaging/examples/web.yml"), &file).unwrap();
    let access = mpwatch_exporters::http::Access::from_file(&file);
    assert!(access.is_ok(), "{:?}", access.err());
    let output = Command::new("promtool").args(["check", "web-config"]).arg(&file).output();
    match output {
        Ok(output) => assert!(output.status.success(), "{}", text_of(&output)),
        Err(_) => skip("promtool is missing; it is in Debian's package `prometheus`"),
    }
}

#[test]
fn every_man_page_is_formatted_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(mpwatch(&["man", "--dir", folder.path().to_str().unwrap()]).code, Some(0));
    fs::write(folder.path().join("mpwatch-study.1"), mpwatch(&["man", "study"]).stdout).unwrap();
    for page in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let output = Command::new("man").args(["--warnings", "--local-file"]).arg(&page).output();
        let Ok(output) = output else {
            skip("man is missing; it is in Debian's package `man-db`");
            return;
        };
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
        assert!(String::from_utf8_lossy(&output.stdout).contains("EXIT STATUS"), "{}", page.display());
    }
}

#[test]
fn completions_can_be_generated() {
    for shell in ["bash", "zsh", "fish"] {
        let output = mpwatch(&["completions", shell]);
        assert!(output.code == Some(0) && output.stdout.contains("daemon"), "{shell}: {}", output.stderr);
        let output = mpwatch(&["study", "completions", shell]);
        assert!(output.code == Some(0) && output.stdout.contains("resume"), "{shell}: {}", output.stderr);
    }
}
