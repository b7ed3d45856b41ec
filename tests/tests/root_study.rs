// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch study`: runs experiments, writes their results, and continues after an interruption.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_tests::{emulation, list, may_run_as_root, number, output, program, text, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);

fn study(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("study").args(arguments).stdin(Stdio::null());
    command
}

fn finished(command: &mut Command) -> Output {
    let output = output(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn results(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("study.json")).unwrap()).unwrap()
}

/// A quantity of the cell with these factors.
fn measured<'a>(study: &'a Value, cell: &[(&str, &str)], quantity: &str) -> &'a Value {
    let has = |found: &Value, name: &str, value: &str| {
        list(found, "factors")
            .iter()
            .any(|factor| text(factor, "name") == name && text(factor, "value") == value)
    };
    let experiment = &list(study, "experiments")[0];
    let mut cells = list(experiment, "cells").iter();
    let cell = cells.find(|found| cell.iter().all(|(name, value)| has(found, name, value)));
    let cell = cell.unwrap_or_else(|| panic!("no such cell: {study:#}"));
    let mut quantities = list(cell, "measured").iter();
    quantities
        .find(|found| text(found, "quantity") == quantity)
        .unwrap_or_else(|| panic!("no {quantity}: {cell:#}"))
}

fn mean(found: &Value) -> f64 {
    found["mean"].as_f64().unwrap()
}

#[test]
fn more_paths_finish_sooner_and_every_result_is_in_every_file() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let output = finished(&mut study(&["run", "energy", "--quick", "--repeat", "2", "--out", out]));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("energy: one TCP flow") && printed.contains("Energy is"), "{printed}");

    let study = results(folder.path());
    let of = |paths, quantity| measured(&study, &[("paths", paths)], quantity);
    assert!(mean(of("4", "goodput_bps")) > 1.5 * mean(of("1", "goodput_bps")), "{study:#}");
    let change = &of("4", "completion_s")["change"];
    let [low, estimate, high] = ["low", "estimate", "high"].map(|bound| change[bound].as_f64().unwrap());
    // The bounds of two repetitions are wide. If a busy machine disturbs one repetition, they include zero.
    assert!(estimate < -0.3 && (low..=high).contains(&estimate), "sooner: {change}");
    assert_eq!(of("4", "completion_s")["published"][0]["change"], -0.758);
    assert!(mean(of("1", "power_w")) > 1.0, "{study:#}");
    // The rate of one path bounds the goodput of TCP.
    assert!(mean(of("1", "goodput_bps")) < 20e6, "{study:#}");

    let csv = std::fs::read_to_string(folder.path().join("study.csv")).unwrap();
    assert!(csv.starts_with("experiment,cell,run,quantity,value,energy_source\r\n"), "{csv}");
    assert!(csv.contains("energy,rate=20 paths=4,1,goodput_bps,"), "{csv}");
    let html = std::fs::read_to_string(folder.path().join("study.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("i7-3770"), "no plot, or no paper");

    let again = study_error(&["run", "energy", "--quick", "--out", out]);
    assert!(again.contains("it exists") && again.contains("--resume"), "{again}");
}

#[test]
fn an_interrupted_study_is_resumed() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let start = ["run", "energy", "--quick", "--repeat", "1", "--out", out];
    let mut child = study(&start).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let database = folder.path().join("study.db");
    let runs = || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let database = rusqlite::Connection::open_with_flags(&database, flags).ok()?;
        database
            .query_row("SELECT count(*) FROM run WHERE error IS NULL", [], |row| row.get::<_, u32>(0))
            .ok()
    };
    let has_one = || runs().filter(|runs| *runs > 0);
    poll_until("the first run", emulation::timeout(TIMEOUT), has_one).unwrap();
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(wait(&mut child).success());
    let before = runs().unwrap();
    assert!((1..=3).contains(&before), "{before}");

    let output = finished(&mut study(&["run", "energy", "--repeat", "1", "--out", out, "--resume"]));
    let progress = String::from_utf8(output.stderr).unwrap();
    let repeated = u32::try_from(progress.matches("left\n").count()).unwrap();
    assert_eq!(repeated, 3 - before, "only the rest: {progress}");
    let study = results(folder.path());
    for cell in list(&list(&study, "experiments")[0], "cells") {
        assert_eq!(number(cell, "runs"), 1, "{cell:#}");
    }
}

/// The file of an experiment between two namespaces, which its commands enter.
fn between(client: &Namespace, server: &Namespace, address: IpAddr) -> String {
    let command = |namespace: &Namespace| {
        format!(
            "command = [\"ip\", \"netns\", \"exec\", \"{}\"]\nmpwatch = \"{}\"",
            namespace.name(),
            program().display()
        )
    };
    format!(
        "name = \"two\"\ntitle = \"two namespaces\"\nrepeat = 1\n\
         quantities = [\"goodput_bps\", \"completion_s\", \"cpu_s_per_gb\"]\n\
         baseline = {{ transport = \"tcp\" }}\n\
         [client]\n{}\n[server]\n{}\naddress = \"{address}\"\n\
         [traffic]\nbytes = 6_000_000\nconnections = 2\n\
         [factors]\ntransport = [\"tcp\", \"mptcp\"]\ndirection = [\"upload\", \"download\"]\n",
        command(client),
        command(server)
    )
}

#[test]
fn an_own_experiment_runs_between_two_namespaces() {
    if !may_run_as_root() {
        return;
    }
    let link = LinkSpec::rate(20.0, Duration::from_millis(30)).rtt(Duration::from_millis(10));
    let paths = vec![PathSpec { link, ..PathSpec::default() }; 2];
    let lab = Topology::build(&TopologySpec { paths, ..TopologySpec::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("two.toml"), folder.path().join("out"));
    let (client, server) = (lab.client(), lab.server());
    std::fs::write(&file, between(client, server, lab.path(0).unwrap().server_address())).unwrap();
    let [file, out] = [&file, &out].map(|path| path.to_str().unwrap());
    finished(&mut study(&["run", "--file", file, "--out", out]));

    let study_of = results(Path::new(out));
    for direction in ["upload", "download"] {
        let of = |transport, quantity| {
            mean(measured(&study_of, &[("direction", direction), ("transport", transport)], quantity))
        };
        assert!(of("mptcp", "goodput_bps") > 1.3 * of("tcp", "goodput_bps"), "two paths: {study_of:#}");
        // The rate of one path bounds TCP, so a much shorter completion time would mean that bytes are missing.
        assert!(of("tcp", "completion_s") > 12e6 * 8.0 / 20e6 * 0.5 && of("tcp", "cpu_s_per_gb") > 0.0);
    }
    let experiment = &list(&study_of, "experiments")[0];
    assert_eq!((text(experiment, "name"), text(experiment, "paper")), ("two", "own"));
    assert_eq!(study_of["origin"]["server"], Value::Null, "one machine");

    // The folder contains all data for a report, and belongs to this experiment.
    let again = finished(&mut study(&["report", out]));
    assert!(String::from_utf8(again.stdout).unwrap().contains("two: two namespaces [own]"));
    let other = study_error(&["run", "energy", "--resume", "--out", out]);
    assert!(other.contains("results of another experiment"), "{other}");
}

#[test]
fn an_own_experiment_that_cannot_run_says_why_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("own.toml"), folder.path().join("out"));
    let failed = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let [file, out] = [&file, &out].map(|path| path.to_str().unwrap());
        let output = output(&mut study(&["run", "--file", file, "--out", out]));
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let with = |client: &str| {
        format!(
            "name = \"own\"\ntitle = \"\"\nquantities = [\"goodput_bps\"]\n[client]\ncommand = {client}\n\
             [server]\naddress = \"127.0.0.1\"\n[traffic]\nbytes = 1000\n"
        )
    };
    let (code, error) = failed(&with("[]").replace("goodput_bps", "goodput"));
    assert!(
        code == 2 && error.contains("own.toml") && error.contains("did you mean `goodput_bps`"),
        "{error}"
    );
    let (code, error) = failed(&with("[\"no-such-program\"]"));
    assert!(code == 2 && error.contains("client's command `no-such-program"), "{error}");
    let (code, error) = failed(&with("[\"sh\", \"-c\", \"echo no route to host >&2; exit 255\"]"));
    assert!(code == 1 && error.contains("no route to host"), "{error}");
    let (code, error) = failed(&with("[\"sh\", \"-c\", \"exit 127\"]"));
    assert!(code == 2 && error.contains("install mpwatch there"), "{error}");
    let (code, error) = failed(&with("[\"echo\", \"welcome\"]"));
    assert!(code == 1 && error.contains("wrote `welcome"), "{error}");
    assert!(!out.exists(), "no folder of results");
}

#[test]
fn without_privileges_a_study_says_so_and_leaves_no_results() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // Another user may have no access to the build folder.
    let out = folder.path().join("out");
    for name in ["mpwatch", "mpwatch-study"] {
        std::fs::copy(program().with_file_name(name), folder.path().join(name)).unwrap();
    }
    let mut command = Command::new(folder.path().join("mpwatch"));
    command.args(["study", "run", "energy", "--quick", "--out"]).arg(&out).uid(65534).gid(65534);
    let output = output(&mut command);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(4) && error.contains("run as root"), "{error}");
    assert!(!out.exists(), "no folder of results");
}

#[test]
fn without_the_package_of_studies_mpwatch_says_how_to_install_it() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("mpwatch");
    std::fs::copy(program(), &alone).unwrap();
    let run = |arguments: &[&str]| {
        let output = output(Command::new(&alone).args(arguments).env("PATH", folder.path()));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in [&["study", "--help"][..], &["ls", "--method", "dcw"], &["man", "study"]] {
        let (code, error) = run(arguments);
        assert!(code == Some(1) && error.contains("install the package mpwatch-study"), "{error}");
    }
    let help = finished(&mut study(&["run", "--help"]));
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Usage: mpwatch study run [OPTIONS]") && help.contains("--resume"), "{help}");
}

#[test]
fn a_wrong_name_is_wrong_usage_with_a_suggestion() {
    let error = study_error(&["run", "enrgy"]);
    assert!(error.contains("did you mean `energy`?") && error.contains("failover"), "{error}");
    let listed = finished(&mut study(&["list"]));
    assert!(String::from_utf8(listed.stdout).unwrap().contains("second-path"));
}

fn study_error(arguments: &[&str]) -> String {
    let output = output(&mut study(arguments));
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}
