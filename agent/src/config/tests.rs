// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the configuration: which source of a key wins, errors in the file, and the printed configuration.

use std::time::Duration;

use super::*;

fn load(file: &str, environment: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Result<Loaded, Failure> {
    let flags = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let layers = Layers { file: None, flags };
    let lookup = |name: &str| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    layers.merge(&parse(Path::new("m.toml"), file)?, lookup)
}

#[test]
fn flags_override_the_environment_overrides_the_file_overrides_defaults() {
    let file = "[metrics]\ntop_flows = 5\n";
    let environment = [("MPWATCH_METRICS_TOP_FLOWS", "6")];
    let flag = [("metrics.top_flows", "7")];
    let cases = [
        (load("", &[], &[]), 0, "default"),
        (load(file, &[], &[]), 5, "file m.toml"),
        (load(file, &environment, &[]), 6, "environment MPWATCH_METRICS_TOP_FLOWS"),
        (load(file, &environment, &flag), 7, "flag --metrics.top-flows"),
    ];
    for (loaded, value, origin) in cases {
        let loaded = loaded.unwrap();
        assert_eq!(loaded.config.top_flows, value);
        let line = format!("metrics.top_flows = {value}  # {origin}\n");
        assert!(loaded.show(true).contains(&line), "{}", loaded.show(true));
    }
}

#[test]
fn an_unknown_key_is_an_error_with_the_nearest_name() {
    for (file, meant) in [
        ("[metrics]\ntop_flow = 5", "metrics.top_flows"),
        ("intervall = \"1s\"", "interval"),
        ("listen = \"127.0.0.1:1\"", "web.listen"),
        ("[web]\nlitsen = \"127.0.0.1:1\"", "web.listen"),
        ("[export.clickhouse]\npasword_file = \"/x\"", "export.clickhouse.password_file"),
    ] {
        let error = load(file, &[], &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("did you mean `{meant}`?")), "{file}: {error}");
    }
    assert!(load("zzz = 1", &[], &[]).unwrap_err().to_string().contains("config schema"));
}

#[test]
fn wrong_values_are_refused() {
    for file in [
        "interval = \"5h\"",
        "interval = 7.5e9",
        "socket = \"here\"",
        "[web]\nlisten = \"everywhere\"",
        "[web]\nconfig = \"web.yml\"",
        "[metrics]\ntop_flows = 501",
        "[metrics]\ntop_flows = -1",
        "[trace]\ntcp = \"yes\"",
        "[control]\neliminate = \"yes\"",
        "[control]\neliminate_action = \"open\"",
        "[control]\neliminate_filter = \"peer:\"",
        "[control]\neliminate_max_per_minute = 0",
        "[trace]\nmethod = \"guess\"",
        "[trace]\nledger = \"sometimes\"",
        "[trace]\nbudget = \"0%\"",
        "[trace]\nbudget = \"101%\"",
        "[trace]\nbudget = 1",
        "[store]\npath = \"here\"",
        "[store]\nkeep = \"7\"",
        "[store]\nkeep = \"1.5d\"",
        "[store]\nmax_size = \"5\"",
        "[store]\nmax_size = \"99999999999G\"",
        "[store]\nmax_size = \"1K\"",
        "[store]\nsample_every = \"0\"",
        "[store]\nsample_every = \"00:00:01\"",
        "[store]\nkeep = \"24:00:00\"",
        "interval = \"00:00:05\"",
        "[store]\nsample_step = \"10ms\"",
        "interval = \"1s\"\n[store]\nsample_step = \"500ms\"",
        "labels = \"site\"",
        "labels = \"a=1,a=2\"",
        "[log]\nlevel = \"loud\"",
        "[log]\nformat = \"xml\"",
        "[export.otlp]\nurl = \"collector:4318\"",
        "[export.otlp]\nurl = \"http://me:secret@collector:4318\"",
        "[export]\nsample = \"10\"",
        "[export.otlp]\nbatch = 0",
        "[export.clickhouse]\nevery = \"1h\"",
        "[export.clickhouse]\ndatabase = \"\"",
        "[export.clickhouse]\npassword_file = \"here\"",
        "[store]\npath = \"\"\n[export.otlp]\nurl = \"http://collector:4318\"",
        "[export.otlp]\nurl = \"http://collector:4318\"\npassword_file = \"/x\"",
        "[export.otlp]\nurl = \"http://collector:4318\"\nkey_file = \"/x\"",
        "[export.otlp]\nurl = \"http://collector:4318\"\ntoken_file = \"/x\"\nuser = \"me\"",
        "this is not toml",
        "[metrics]\ntop_flows = [1]",
    ] {
        assert!(load(file, &[], &[]).is_err(), "{file}");
    }
}

#[test]
fn a_wrong_ledger_mode_and_a_wrong_budget_come_with_a_suggestion() {
    let error = |file: &str| load(file, &[], &[]).unwrap_err().to_string();
    assert!(error("[trace]\nledger = \"sometimes\"").contains("use one of exact, sampled, off"));
    for budget in ["0%", "-1%", "100.1%", "nan"] {
        let refused = error(&format!("[trace]\nbudget = \"{budget}\""));
        assert!(refused.contains("for example 1%"), "{refused}");
    }
}

#[test]
fn printed_values_can_be_read_back() {
    for file in [
        "[trace]\nmethod = \"ese-literal\"\n",
        "interval = \"100.5ms\"\n[trace]\nbottlenecks = false\n",
        "labels = \"site=berlin,rack=7\"\n",
        "[export]\nsample = \"10MB\"\n",
        "[export.clickhouse]\nurl = \"https://clickhouse:8443\"\nuser = \"me\"\npassword_file = \"/x\"\nevery = \"5s\"\n",
        "interval = \"100ms\"\n[store]\nsample_step = \"250ms\"\n",
        "interval = \"250ms\"\n[log]\nformat = \"json\"\n",
        "[store]\npath = \"\"\nkeep = \"0\"\nmax_size = \"0\"\nsample_every = \"90s\"\n",
        "[store]\npath = \"/x/y.db\"\nkeep = \"36h\"\nmax_size = \"1500M\"\n",
        "socket = \"/run/\\u0000\\u0007\\u007f\\n\\u200b\\\"x\"\nsocket_group = \"\\\\\\\\\té\"\n",
    ] {
        let loaded = load(file, &[], &[]).unwrap();
        let again = load(&loaded.show(true), &[], &[]).unwrap();
        assert_eq!(again.config, loaded.config, "{file}");
    }
    let config = load("[store]\nkeep = \"36h\"\nmax_size = \"2G\"\n", &[], &[]).unwrap().config;
    assert_eq!((config.store_keep, config.store_max_size), (Some(Duration::from_hours(36)), Some(2 << 30)));
}

#[test]
fn the_schema_has_every_key_with_its_default() {
    let schema = schema();
    for key in keys() {
        let pointer = format!("/properties/{}", key.name.replace('.', "/properties/"));
        let property = schema.pointer(&pointer).unwrap_or_else(|| panic!("{pointer} in {schema:#}"));
        assert!(!property["default"].is_null() && property["description"].is_string(), "{property}");
    }
}

#[test]
fn a_file_accepts_the_types_of_the_schema_and_no_others() {
    let schema = schema();
    for key in keys() {
        let pointer = format!("/properties/{}/type", key.name.replace('.', "/properties/"));
        let kind = schema.pointer(&pointer).unwrap().as_str().unwrap();
        let shown = (key.show)(&Config::default());
        let bare = shown.as_str().map_or_else(|| shown.to_string(), str::to_owned);
        let written =
            [("string", format!("\"{bare}\"")), ("integer", "1".to_owned()), ("boolean", "true".to_owned())];
        for (written_as, value) in written {
            let value = if written_as == kind { shown.to_string() } else { value };
            let outcome = load(&format!("{} = {value}", key.name), &[], &[]);
            assert_eq!(outcome.is_ok(), written_as == kind, "{} = {value}: {:?}", key.name, outcome.err());
        }
    }
}

#[test]
fn a_changed_key_that_needs_a_restart_is_reported() {
    let before = load("", &[], &[]).unwrap().config;
    let after = load("interval = \"2s\"\n[metrics]\ntop_flows = 3\n", &[], &[]).unwrap();
    assert_eq!(after.needs_restart(&before), ["interval"]);
}

#[test]
fn a_detection_method_without_detection_is_an_error_that_names_both_keys() {
    let file = "[trace]\nbottlenecks = false\nmethod = \"dcw\"\n";
    let flag = [("trace.bottlenecks", "false")];
    for (file, flags, because) in [
        (file, &[][..], "(file m.toml)"),
        ("[trace]\nmethod = \"dcw\"\n", &flag[..], "(flag --no-bottlenecks)"),
    ] {
        let error = load(file, &[], flags).unwrap_err().to_string();
        assert!(error.starts_with("file m.toml sets trace.method to `dcw`"), "{error}");
        assert!(error.contains(because) && error.contains("set trace.bottlenecks to true"), "{error}");
    }
    assert!(load(file, &[], &[("trace.bottlenecks", "true")]).is_ok());
    assert!(!load("[trace]\nbottlenecks = false\n", &[], &[]).unwrap().config.bottlenecks);
}

#[test]
fn elimination_is_off_by_default_and_needs_detection() {
    assert_eq!(Config::default().eliminate, EliminationMode::Off);
    let file = "[control]\neliminate = \"dry-run\"\n";
    assert_eq!(load(file, &[], &[]).unwrap().config.eliminate, EliminationMode::DryRun);
    let error = load(&format!("{file}[trace]\nbottlenecks = false\n"), &[], &[]).unwrap_err().to_string();
    assert!(error.contains("control.eliminate") && error.contains("trace.bottlenecks"), "{error}");
}

#[test]
fn all_errors_are_reported_with_their_lines() {
    let file =
        "intervall = \"1s\"\n\n[web]\nlistn = \"127.0.0.1:1\"\n[store]\nkeep = \"7\"\nsample_every = 5\n";
    let environment = [("MPWATCH_TRACE_LEDGER", "sometimes")];
    let text = load(file, &environment, &[]).unwrap_err().to_string();
    for expected in [
        "line 1, sets `intervall`, which does not exist; did you mean `interval`?",
        "line 4, sets `web.listn`, which does not exist; did you mean `web.listen`?",
        "line 6, sets store.keep to `7`",
        "line 7, sets store.sample_every to `5`: use a string in quotes",
        "environment MPWATCH_TRACE_LEDGER sets trace.ledger to `sometimes`",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(text.lines().count(), 5, "{text}");
    let error = load("\nweb = { listn = \"127.0.0.1:1\" }", &[], &[]).unwrap_err().to_string();
    assert!(error.contains("line 2, sets `web.listn`"), "{error}");
}

#[test]
fn nothing_is_exported_by_default_and_no_message_has_a_password() {
    let config = Config::default();
    assert!(config.exports().all(|(_, target)| target.url.is_none()));
    let file = "[export.otlp]\nurl = \"http://me:hunter2@collector:4318\"";
    let error = load(file, &[], &[]).unwrap_err().to_string();
    assert!(error.contains("export.otlp.url") && !error.contains("hunter2"), "{error}");
}

#[test]
fn errors_are_listed_by_line_and_an_unknown_empty_table_is_an_error() {
    let file = "[nonsense]\n[store]\nkeep = 7\nmax_size = \"x\"\n[web]\nlisten = \"here\"\n[trace]\n";
    let error = load(file, &[], &[]).unwrap_err().to_string();
    let places: Vec<&str> = error.lines().filter_map(|line| line.split(", ").nth(1)).collect();
    assert_eq!(places, ["line 1", "line 3", "line 4", "line 6"], "{error}");
    assert!(error.contains("`nonsense`"), "{error}");
}
