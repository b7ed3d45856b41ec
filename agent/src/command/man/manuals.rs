// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a man page that the help of a command lacks: examples, files, environment variables and exit codes.

use crate::error::{KERNEL, NO_SUCH_CONNECTION, PERMISSION, RUNTIME, USAGE};
use crate::system::paths;

/// The additional parts of the page of one command.
pub struct Manual {
    /// Name of the command; empty for the page of the program.
    pub command: &'static str,
    /// Pairs of an effect and the command line that has it.
    pub examples: &'static [(&'static str, &'static str)],
    /// Files that the command uses.
    pub files: &'static [(&'static str, &'static str)],
    /// Environment variables that affect the command.
    pub environment: Environment,
    /// Exit codes besides 0.
    pub exit: &'static [u8],
}

/// A file, and what it is for.
type File = (&'static str, &'static str);

/// The environment variables that a page lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// No variables.
    Nothing,
    /// The variables of tracing.
    Tracing,
    /// The variables of tracing and of the live view.
    Screen,
    /// The variables of the configuration.
    Daemon,
    /// All variables.
    All,
}

const BTF: File =
    ("/sys/kernel/btf/vmlinux", "BTF of the running kernel: offsets of the fields that BPF programs read.");
const COUNTERS: File = ("/sys/class/powercap", "Energy counters, if the kernel has no power PMU.");
const MPTCP_SETTINGS: File = ("/proc/sys/net/mptcp", "Settings of MPTCP in the network namespace.");
const COUNTERS_OF_NAMESPACE: File = ("/proc/net/netstat", "Counters of MPTCP in the network namespace.");
const SCREEN: File = ("~/.config/mpwatch/screen.toml", "Settings of the live view: keys, columns, theme.");
const CONFIG: File = (paths::CONFIG, "Configuration of the daemon.");
const DATABASE: File = (paths::DATABASE, "Database of the daemon.");
const SOCKET: File = (paths::SOCKET, "Unix socket of the daemon.");
const CURVE: File = (paths::POWER_CURVE, "Power curve of the machine, measured by mpwatch calibrate.");

/// Exit codes besides 0 of commands that only print, that read files, that trace, and that look up a connection.
const PRINT: &[u8] = &[USAGE];
const READ: &[u8] = &[RUNTIME, USAGE];
const VIEW: &[u8] = &[RUNTIME, USAGE, KERNEL, PERMISSION];
const SHOW: &[u8] = &[RUNTIME, USAGE, KERNEL, PERMISSION, NO_SUCH_CONNECTION];

/// Builds the table. A row has a command, its environment variables, exit codes and files, then its examples as `effect: command line`.
macro_rules! manuals {
    ($($(#[$cfg:meta])? $command:literal, $environment:ident, $exit:ident, [$($file:expr),* $(,)?],
        $($(#[$when:meta])? $effect:literal: $line:literal),+;)+) => {
        &[$($(#[$cfg])? Manual {
            command: $command,
            examples: &[$($(#[$when])? ($effect, $line)),+],
            files: &[$($file),*],
            environment: Environment::$environment,
            exit: $exit,
        }),+]
    };
}

pub(super) static MANUALS: &[Manual] = manuals! {
    "", All, SHOW, [CONFIG, DATABASE, SOCKET, CURVE, SCREEN, BTF, COUNTERS],
        "Show the connections of this machine in a live view": "mpwatch",
        "Print three snapshots, one every 500 ms": "mpwatch -b -n 3 -i 500ms",
        "Observe real traffic in private namespaces": "mpwatch demo",
        "Print a report on the last hour that the daemon recorded": "mpwatch report --since 1h";
    "top", Screen, VIEW, [SOCKET, SCREEN, CURVE, BTF, COUNTERS],
        "Show the connections of nginx that send more than 1 Mbit/s": "mpwatch top --filter 'proc:nginx rate>1M'",
        "Print one JSON object per second, ten times": "mpwatch top --batch -n 10 --json",
        "Also trace plain TCP, and store everything for a report": "mpwatch top --batch --tcp --db flows.db";
    "ls", Tracing, VIEW, [SOCKET, BTF, COUNTERS],
        "List the connections to a network": "mpwatch ls --filter peer:10.0/16",
        "Print a table for a spreadsheet": "mpwatch ls --csv";
    "show", Tracing, SHOW, [SOCKET, BTF, COUNTERS],
        "Show the connection whose token begins with 5c11": "mpwatch show 5c11";
    "why", Nothing, SHOW, [MPTCP_SETTINGS, COUNTERS_OF_NAMESPACE],
        "Explain all MPTCP connections of this machine": "mpwatch why",
        "Predict a connection to a server, or explain the existing ones": "mpwatch why server.example:443",
        "Explain a connection in a namespace": "mpwatch why 5c11 --netns client";
    "daemon", Daemon, VIEW, [CONFIG, DATABASE, SOCKET, CURVE, BTF, COUNTERS],
        "Serve metrics on all addresses, without a database": "mpwatch daemon --listen [::]:9917 --db ''",
        "Check the configuration of the daemon": "mpwatch config check";
    "config", Daemon, READ, [CONFIG],
        "Check a file before the daemon is restarted": "mpwatch config check --config new.toml",
        "Print every value in effect and where it comes from": "mpwatch config show --origin";
    "record", Tracing, VIEW, [BTF, COUNTERS, CURVE],
        "Record for a minute": "mpwatch record run.mpw --seconds 60",
        "Also store connections and samples in a database": "mpwatch record run.mpw --db run.db";
    "replay", Screen, READ, [SCREEN],
        "Print the report of a recording": "mpwatch replay run.mpw",
        "Step through a recording in the live view": "mpwatch replay run.mpw --screen",
        "Detect bottlenecks by the method of RFC 8382": "mpwatch replay run.mpw --method rfc8382";
    "report", Nothing, READ, [DATABASE],
        "Report a day as a page with drawings": "mpwatch report --since 2026-03-01 --until 2026-03-02 --format html -o day.html",
        "Print bytes and share of traffic per link and minute": "mpwatch report --since 1h --format links";
    "compare", Nothing, READ, [DATABASE],
        "Compare two experiments": "mpwatch compare before.db after.db",
        "Compare plain TCP with MPTCP on one machine, as a page with plots":
            "mpwatch compare flows.db --by protocol --format html -o tcp-mptcp.html",
        "Compare runs in one database by their labels": "mpwatch compare flows.db --label cc=cubic --label cc=bbr",
        "Compare the last two hours with the time before": "mpwatch compare flows.db --split 2h";
    #[cfg(any(feature = "clickhouse", feature = "otlp", feature = "parquet"))]
    "export", Nothing, READ, [
        DATABASE,
        ("DIR/connections/day=*/host=*/*.parquet", "Connections: the columns of v_connection."),
        ("DIR/subflows/day=*/host=*/*.parquet", "Subflows: the columns of v_subflow."),
    ],
        #[cfg(feature = "parquet")]
        "Write yesterday and today as Parquet files": "mpwatch export parquet --since 1d --out flows",
        #[cfg(feature = "clickhouse")]
        "Print the tables of a ClickHouse server": "mpwatch export clickhouse --schema",
        #[cfg(feature = "clickhouse")]
        "Send connections that the server has not confirmed":
            "mpwatch export clickhouse --url http://clickhouse:8123 --user mpwatch --password-file password",
        #[cfg(feature = "otlp")]
        "Send log events to a collector": "mpwatch export otlp --url http://collector:4318";
    "doctor", Nothing, VIEW, [BTF, COUNTERS],
        "Check this machine": "mpwatch doctor",
        "Check another kernel": "mpwatch doctor --btf vmlinux.btf";
    "calibrate", Nothing, VIEW, [CURVE, COUNTERS],
        "Measure the power curve": "mpwatch calibrate",
        "Check whether a measured curve still holds": "mpwatch calibrate --verify";
    "demo", Screen, VIEW, [SCREEN, BTF, COUNTERS],
        "Watch a path fail": "mpwatch demo failover",
        "Store 30 seconds of small requests for a report": "mpwatch demo requests --seconds 30 --headless --db demo.db";
    "selftest", Tracing, VIEW, [BTF, COUNTERS],
        "Compare mpwatch with the kernel, for a script": "mpwatch selftest --json";
    #[cfg(feature = "control")]
    "control", Tracing, VIEW, [
        BTF,
        COUNTERS,
        ("/proc/sys/net/ipv4/tcp_available_congestion_control", "Names mptcpd while it is registered."),
    ],
        "Register the congestion control mptcpd until Ctrl-C": "mpwatch control congestion",
        "Print which subflows would be removed": "mpwatch control eliminate",
        "Close extra subflows of connections to a network, if verdicts were stable for 10 s":
            "mpwatch control eliminate --yes --stable 10s --filter peer:10.0/16",
        "Store all connections and removals for a report": "mpwatch control eliminate --yes --json --db control.db";
    "completions", Nothing, PRINT, [
        ("/usr/share/bash-completion/completions/mpwatch", "Completions for bash. Zsh and fish have their own files."),
    ],
        "Complete commands in this bash": "mpwatch completions bash";
    "man", Nothing, READ, [("/usr/share/man/man1/mpwatch*.1.gz", "Installed pages.")],
        "Print the page of a command": "mpwatch man report",
        "Write all pages into a directory": "mpwatch man --dir man1";
};
