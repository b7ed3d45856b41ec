// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a man page adds to the help of a command: examples, files, and which variables and exit codes concern it.

use crate::error::{KERNEL, NO_SUCH_CONNECTION, PERMISSION, RUNTIME, USAGE};
use crate::system::paths;

/// What concerns one command.
pub struct Manual {
    /// Its name; empty for the page of the program.
    pub command: &'static str,
    /// What a command line does, and that line.
    pub examples: &'static [(&'static str, &'static str)],
    /// The files that concern it.
    pub files: &'static [(&'static str, &'static str)],
    /// The variables that concern it.
    pub environment: Environment,
    /// Exit codes besides 0.
    pub exit: &'static [u8],
}

/// A file, and what it is for.
type File = (&'static str, &'static str);

/// Which variables have an effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// None.
    Nothing,
    /// Those of tracing.
    Tracing,
    /// Those of tracing and of the live view.
    Screen,
    /// Those of the configuration.
    Daemon,
    /// All.
    All,
}

const BTF: File =
    ("/sys/kernel/btf/vmlinux", "Types of the running kernel, by which the BPF programs find its fields.");
const COUNTERS: File = ("/sys/class/powercap", "Energy counters, if the kernel has no power PMU.");
const SCREEN: File = ("~/.config/mpwatch/screen.toml", "Settings of the live view: keys, columns, theme.");
const CONFIG: File = (paths::CONFIG, "Configuration of the daemon.");
const DATABASE: File = (paths::DATABASE, "Database of the daemon.");
const SOCKET: File = (paths::SOCKET, "Unix socket of the daemon.");
const CURVE: File = (paths::POWER_CURVE, "Power curve of the machine, measured by mpwatch calibrate.");

const VIEW: &[u8] = &[RUNTIME, USAGE, KERNEL, PERMISSION];

pub(super) static MANUALS: &[Manual] = &[
    Manual {
        command: "",
        examples: &[
            ("Show the connections of this machine in a live view", "mpwatch"),
            ("Print three snapshots, one every 500 ms", "mpwatch -b -n 3 -i 500ms"),
            ("See it work on real traffic in private namespaces", "mpwatch demo"),
            ("Report what the daemon saw in the last hour", "mpwatch report --since 1h"),
        ],
        files: &[CONFIG, DATABASE, SOCKET, CURVE, SCREEN, BTF, COUNTERS],
        environment: Environment::All,
        exit: &[RUNTIME, USAGE, KERNEL, PERMISSION, NO_SUCH_CONNECTION],
    },
    Manual {
        command: "top",
        examples: &[
            (
                "Show the connections of nginx that send more than 1 Mbit/s",
                "mpwatch top --filter 'proc:nginx rate>1M'",
            ),
            ("Print one JSON object per second, ten times", "mpwatch top --batch -n 10 --json"),
            (
                "Also trace plain TCP, and store everything for a report",
                "mpwatch top --batch --tcp --db flows.db",
            ),
        ],
        files: &[SOCKET, SCREEN, CURVE, BTF, COUNTERS],
        environment: Environment::Screen,
        exit: VIEW,
    },
    Manual {
        command: "ls",
        examples: &[
            ("List the connections to a network", "mpwatch ls --filter peer:10.0/16"),
            ("Print a table for a spreadsheet", "mpwatch ls --csv"),
        ],
        files: &[SOCKET, BTF, COUNTERS],
        environment: Environment::Tracing,
        exit: VIEW,
    },
    Manual {
        command: "show",
        examples: &[("Show the connection whose token begins with 5c11", "mpwatch show 5c11")],
        files: &[SOCKET, BTF, COUNTERS],
        environment: Environment::Tracing,
        exit: &[RUNTIME, USAGE, KERNEL, PERMISSION, NO_SUCH_CONNECTION],
    },
    Manual {
        command: "daemon",
        examples: &[
            (
                "Serve metrics on all addresses, without a database",
                "mpwatch daemon --listen [::]:9917 --db ''",
            ),
            ("Check the configuration that it would use", "mpwatch config check"),
        ],
        files: &[CONFIG, DATABASE, SOCKET, CURVE, BTF, COUNTERS],
        environment: Environment::Daemon,
        exit: VIEW,
    },
    Manual {
        command: "config",
        examples: &[
            ("Check a file before the daemon is restarted", "mpwatch config check --config new.toml"),
            ("Print every value in effect and where it comes from", "mpwatch config show --origin"),
        ],
        files: &[CONFIG],
        environment: Environment::Daemon,
        exit: &[RUNTIME, USAGE],
    },
    Manual {
        command: "record",
        examples: &[
            ("Record for a minute", "mpwatch record run.mpw --seconds 60"),
            ("Also store connections and samples in a database", "mpwatch record run.mpw --db run.db"),
        ],
        files: &[BTF, COUNTERS, CURVE],
        environment: Environment::Tracing,
        exit: VIEW,
    },
    Manual {
        command: "replay",
        examples: &[
            ("Print the report of a recording", "mpwatch replay run.mpw"),
            ("Step through it in the live view", "mpwatch replay run.mpw --screen"),
            ("Detect bottlenecks by the method of RFC 8382", "mpwatch replay run.mpw --method rfc8382"),
        ],
        files: &[SCREEN],
        environment: Environment::Screen,
        exit: &[RUNTIME, USAGE],
    },
    Manual {
        command: "report",
        examples: &[
            (
                "Report a day as a page with drawings",
                "mpwatch report --since 2026-03-01 --until 2026-03-02 --format html -o day.html",
            ),
            (
                "Print bytes and share of traffic per link and minute",
                "mpwatch report --since 1h --format links",
            ),
        ],
        files: &[DATABASE],
        environment: Environment::Nothing,
        exit: &[RUNTIME, USAGE],
    },
    Manual {
        command: "compare",
        examples: &[
            ("Compare two experiments", "mpwatch compare before.db after.db"),
            (
                "Compare plain TCP with MPTCP on one machine, as a page with plots",
                "mpwatch compare flows.db --by protocol --format html -o tcp-mptcp.html",
            ),
            (
                "Compare runs in one database by their labels",
                "mpwatch compare flows.db --label cc=cubic --label cc=bbr",
            ),
            ("Compare the last two hours with the time before", "mpwatch compare flows.db --split 2h"),
        ],
        files: &[DATABASE],
        environment: Environment::Nothing,
        exit: &[RUNTIME, USAGE],
    },
    #[cfg(any(feature = "clickhouse", feature = "otlp", feature = "parquet"))]
    Manual {
        command: "export",
        examples: &[
            #[cfg(feature = "parquet")]
            ("Write the last two days as Parquet files", "mpwatch export parquet --since 1d --out flows"),
            #[cfg(feature = "clickhouse")]
            ("Print the tables of a ClickHouse server", "mpwatch export clickhouse --schema"),
            #[cfg(feature = "clickhouse")]
            (
                "Send what has changed since the last time",
                "mpwatch export clickhouse --url http://clickhouse:8123 --user mpwatch --password-file password",
            ),
            #[cfg(feature = "otlp")]
            ("Send log events to a collector", "mpwatch export otlp --url http://collector:4318"),
        ],
        files: &[
            DATABASE,
            ("DIR/connections/day=*/host=*/*.parquet", "Connections: the columns of v_connection."),
            ("DIR/subflows/day=*/host=*/*.parquet", "Subflows: the columns of v_subflow."),
        ],
        environment: Environment::Nothing,
        exit: &[RUNTIME, USAGE],
    },
    Manual {
        command: "doctor",
        examples: &[
            ("Check this machine", "mpwatch doctor"),
            ("Check another kernel", "mpwatch doctor --btf vmlinux.btf"),
        ],
        files: &[BTF, COUNTERS],
        environment: Environment::Nothing,
        exit: VIEW,
    },
    Manual {
        command: "calibrate",
        examples: &[
            ("Measure the power curve", "mpwatch calibrate"),
            ("Check whether a measured curve still holds", "mpwatch calibrate --verify"),
        ],
        files: &[CURVE, COUNTERS],
        environment: Environment::Nothing,
        exit: VIEW,
    },
    Manual {
        command: "demo",
        examples: &[
            ("Watch a path fail", "mpwatch demo failover"),
            (
                "Store 30 seconds of small requests for a report",
                "mpwatch demo requests --seconds 30 --headless --db demo.db",
            ),
        ],
        files: &[SCREEN, BTF, COUNTERS],
        environment: Environment::Screen,
        exit: VIEW,
    },
    Manual {
        command: "selftest",
        examples: &[("Compare mpwatch with the kernel, for a script", "mpwatch selftest --json")],
        files: &[BTF, COUNTERS],
        environment: Environment::Tracing,
        exit: VIEW,
    },
    #[cfg(feature = "control")]
    Manual {
        command: "control",
        examples: &[
            ("Register the congestion control mptcpd until Ctrl-C", "mpwatch control congestion"),
            ("Print which subflows would be removed", "mpwatch control eliminate"),
            (
                "Close extra subflows of connections to a network, on verdicts that held for 10 s",
                "mpwatch control eliminate --yes --stable 10s --filter peer:10.0/16",
            ),
            ("Keep what happened, for a report", "mpwatch control eliminate --yes --json --db control.db"),
        ],
        files: &[
            BTF,
            COUNTERS,
            ("/proc/sys/net/ipv4/tcp_available_congestion_control", "Names mptcpd while it is registered."),
        ],
        environment: Environment::Tracing,
        exit: VIEW,
    },
    Manual {
        command: "completions",
        examples: &[("Complete commands in this bash", "mpwatch completions bash")],
        files: &[(
            "/usr/share/bash-completion/completions/mpwatch",
            "Installed completions; zsh and fish have theirs.",
        )],
        environment: Environment::Nothing,
        exit: &[USAGE],
    },
    Manual {
        command: "man",
        examples: &[
            ("Print the page of a command", "mpwatch man report"),
            ("Write all pages into a directory", "mpwatch man --dir man1"),
        ],
        files: &[("/usr/share/man/man1/mpwatch*.1.gz", "Installed pages.")],
        environment: Environment::Nothing,
        exit: &[RUNTIME, USAGE],
    },
];
