// SPDX-License-Identifier: MIT OR Apache-2.0
//! The container image: mpwatch runs in the root file system that packaging/Dockerfile makes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mpwatch_tests::{may_run_as_root, mpwatch, program};
use serde_json::Value;
use tempfile::TempDir;

const DOCKERFILE: &str = "packaging/Dockerfile";
const SCRIPT: &str = "packaging/image";

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The instructions of the Dockerfile, without comments.
fn instructions() -> Vec<String> {
    let text = fs::read_to_string(in_checkout(DOCKERFILE)).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// Assembles the root file system from the program under test.
fn assemble(folder: &Path) -> PathBuf {
    let root = folder.join("image");
    let output = Command::new(in_checkout(SCRIPT)).arg(program()).arg(&root).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    root
}

/// Runs mpwatch in the root file system, with `/proc` and `/sys` as in every container.
fn run(root: &Path, arguments: &[&str]) -> Output {
    let script =
        "mount --make-rprivate / && mount --rbind /sys \"$0/sys\" && mount -t proc proc \"$0/proc\" &&
        exec chroot \"$0\" \"$@\"";
    let entrypoint = Path::new("/usr/bin/mpwatch");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(root).arg(entrypoint).args(arguments);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap()
}

#[test]
fn mpwatch_runs_in_the_root_file_system_of_the_image() {
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let root = assemble(folder.path());
    let version = run(&root, &["--version"]);
    assert!(version.status.success(), "{version:?}");
    assert_eq!(String::from_utf8(version.stdout).unwrap(), mpwatch(&["--version"]).stdout);

    // mpwatch traces, so the image has all files for loading, attaching and naming.
    let traced = run(&root, &["top", "--batch", "-n", "1", "--interval", "100ms", "--json"]);
    assert!(traced.status.success(), "{traced:?}");
    let snapshot: Value = serde_json::from_slice(&traced.stdout).unwrap();
    assert!(snapshot["connections"].is_array() && snapshot["host"]["kernel"].is_string(), "{snapshot}");

    // Exports over TLS need the certificate authorities. A shell would help attackers.
    let authorities = fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert!(authorities.contains("BEGIN CERTIFICATE"));
    assert!(!root.join("bin").exists());
}

#[test]
fn the_dockerfile_builds_this_repository_with_the_same_script() {
    let instructions = instructions();
    let all: Vec<&str> = instructions.iter().map(String::as_str).collect();
    assert!(all.contains(&format!("RUN {SCRIPT} target/release/mpwatch /image").as_str()), "{all:?}");
    let last_stage = all.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    let expected = [
        "FROM scratch",
        "COPY --from=build /image /",
        "ENTRYPOINT [\"/usr/bin/mpwatch\"]",
        "CMD [\"daemon\"]",
    ];
    assert_eq!(all[last_stage..], expected);
    // The repository contains the scripts that the Dockerfile runs.
    let scripts = all.iter().flat_map(|line| line.split(' ')).filter(|word| word.contains('/'));
    for script in scripts
        .filter_map(|word| word.strip_prefix("./").or_else(|| word.starts_with("packaging/").then_some(word)))
    {
        assert!(in_checkout(script).is_file(), "{script}");
    }
}
