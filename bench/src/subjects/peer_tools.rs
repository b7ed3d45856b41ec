// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools with which `./dev bench peers` compares mpwatch: how they are started, which short connections and which facts they report.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::{Topology, poll_until};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Maximum time in which a tool must end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Variables of the scripts: the commands `$CLIENT` and `$SERVER` run a program in a namespace of the lab.
const NAMESPACES: [&str; 2] = ["CLIENT", "SERVER"];
/// Mounts tracefs for tools that expect it. The mount is visible only to the tool.
const TRACEFS: &str = "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing; ";
/// The script of bpftrace. It uses the tracepoints that mpwatch always uses, and collects their values.
const BPFTRACE: &str = "tracepoint:sock:inet_sock_set_state { printf(\"%d %d %d %d\\n\", args->protocol, args->sport, args->dport, args->newstate); } \
    tracepoint:tcp:tcp_probe { @srtt[args->sport, args->dport] = hist(args->srtt); } \
    tracepoint:tcp:tcp_retransmit_skb { @retransmitted[args->sport, args->dport] = count(); } \
    tracepoint:tcp:tcp_receive_reset { @received_resets[args->sport, args->dport] = count(); } \
    tracepoint:tcp:tcp_send_reset { @sent_resets = count(); }";

/// A tool that is compared with mpwatch.
pub struct Peer {
    /// Title of the tool's row in the table.
    pub name: &'static str,
    /// Name of the program.
    pub program: &'static str,
    /// Debian package of the program.
    package: &'static str,
    /// A shell script that runs the tool until it is interrupted. `$OUT1` and `$OUT2` are files for captures, or `/dev/null`.
    script: &'static str,
    /// A shell script that prints a capture as text. `None`: the tool writes text to standard output.
    print: Option<&'static str>,
    /// Facts that the tool does not report.
    pub(crate) missing: &'static str,
}

/// All tools that are compared with mpwatch.
pub const PEERS: [Peer; 9] = [
    Peer {
        name: "`ss -tiM`, every second",
        program: "ss",
        package: "iproute2",
        script: "while :; do $CLIENT ss -tinM; $SERVER ss -tinM; sleep 1; done",
        print: None,
        missing: "all that begins and ends between two polls: births of subflows, final counters; close reason, energy",
    },
    Peer {
        name: "`ss -tin`, every second",
        program: "ss",
        package: "iproute2",
        script: "while :; do $CLIENT ss -tin; $SERVER ss -tin; sleep 1; done",
        print: None,
        missing: "as `ss -tiM`; counters of the connection",
    },
    Peer {
        name: "`tcpdump -i any -s128 -w`",
        program: "tcpdump",
        package: "tcpdump",
        script: "trap : INT; $CLIENT tcpdump -Z root -i any -s128 -w $OUT1 & $SERVER tcpdump -Z root -i any -s128 -w $OUT2 & wait; wait",
        print: Some("tcpdump -nqt -r $OUT1; tcpdump -nqt -r $OUT2"),
        missing: "owner, energy; all else is computed from the capture afterwards, and subflows of connections that were open before have no connection",
    },
    Peer {
        name: "bpftrace, the same tracepoints",
        program: "bpftrace",
        package: "bpftrace",
        script: BPFTRACE,
        print: None,
        missing: "which connection a subflow belongs to, bytes, owner of accepted connections, energy",
    },
    Peer {
        name: "`tcplife` (libbpf-tools)",
        program: "tcplife",
        package: "libbpf-tools",
        script: "exec tcplife",
        print: None,
        missing: "connection, RTT, retransmissions, close reason, energy; open connections",
    },
    Peer {
        name: "`tcpstates` (libbpf-tools)",
        program: "tcpstates",
        package: "libbpf-tools",
        script: "exec tcpstates",
        print: None,
        missing: "connection, bytes, RTT, retransmissions, energy",
    },
    Peer {
        name: "`tcprtt` (libbpf-tools)",
        program: "tcprtt",
        package: "libbpf-tools",
        script: "exec tcprtt -i 1",
        print: None,
        missing: "all but RTT",
    },
    Peer {
        name: "`tcptop` (libbpf-tools)",
        program: "tcptop",
        package: "libbpf-tools",
        script: "exec tcptop -C 1",
        print: None,
        missing: "connection, births and ends, RTT, retransmissions, energy",
    },
    Peer {
        name: "`tcpconnect` (libbpf-tools)",
        program: "tcpconnect",
        package: "libbpf-tools",
        script: "exec tcpconnect",
        print: None,
        missing: "accepted connections, and all after the connect",
    },
];

impl Peer {
    /// Checks that the program is in the path. The error names the package to install.
    pub fn find(&self) -> Result<(), String> {
        let found = Command::new("sh").args(["-c", &format!("command -v {}", self.program)]).output();
        if found.expect("there is a shell").status.success() {
            return Ok(());
        }
        Err(format!("not installed: apt-get install {}", self.package))
    }

    /// Starts the tool for a lab. Its output goes to files in `folder`. `None`: the output is discarded.
    pub fn start(&self, lab: &Topology, folder: Option<&TempDir>) -> RunningPeer {
        let file = |name: &str| match folder {
            Some(folder) => File::create(folder.path().join(name)).expect("a file can be made").into(),
            None => Stdio::null(),
        };
        let mut command = shell(lab, folder);
        let child = command
            .arg(format!("{TRACEFS}{}", self.script_text()))
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            // The tool has its own process group, which is later interrupted as by Ctrl-C in a terminal.
            .process_group(0)
            .spawn();
        RunningPeer(child.expect("unshare can be started"))
    }

    fn script_text(&self) -> String {
        if self.program == "bpftrace" {
            format!("exec bpftrace -e '{}'", self.script)
        } else {
            self.script.to_owned()
        }
    }

    /// The ports among `ports` (client ports of short connections) that the tool reported in lines with the port of the server.
    pub fn seen(
        &self,
        lab: &Topology,
        folder: &TempDir,
        server: u16,
        ports: &BTreeSet<u16>,
    ) -> BTreeSet<u16> {
        let mut text = read(&folder.path().join("stdout"));
        if let Some(print) = self.print {
            let printed = shell(lab, Some(folder)).arg(print).output().expect("a shell can be started");
            text += &String::from_utf8_lossy(&printed.stdout);
        }
        numbers_in_lines_with(&text, server).filter(|port| ports.contains(port)).collect()
    }
}

/// A shell with its own mount namespace and the variables of the scripts.
fn shell(lab: &Topology, folder: Option<&TempDir>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c"]);
    for (variable, namespace) in NAMESPACES.into_iter().zip([lab.client(), lab.server()]) {
        command.env(variable, format!("nsenter --net=/run/netns/{}", namespace.name()));
    }
    for variable in ["OUT1", "OUT2"] {
        command.env(variable, folder.map_or("/dev/null".into(), |folder| folder.path().join(variable)));
    }
    command
}

/// A running tool. It is ended when it is dropped.
pub struct RunningPeer(Child);

impl RunningPeer {
    /// Whether the tool has ended by itself, because it does not work on this machine.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child process").is_some()
    }
}

impl Drop for RunningPeer {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.0.id()).expect("a process id fits"));
        // The error is ignored: it means that the tool has ended.
        let _ = killpg(group, Signal::SIGINT);
        let ended = poll_until("a tool to end", END_TIMEOUT, || self.0.try_wait().expect("a child process"));
        if ended.is_err() {
            let _ = killpg(group, Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

/// The reason why a tool has ended: the first line of its errors. Ignores bpftrace's warning about the limit of locked memory, which recent
/// kernels do not apply to it.
pub fn reason(folder: &TempDir) -> String {
    let text = read(&folder.path().join("stderr"));
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty() && !line.contains("RLIMIT_MEMLOCK"))
        .unwrap_or("no message")
        .replace('|', "/");
    format!("does not load: {line}")
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// All numbers in the lines that contain `number`.
fn numbers_in_lines_with(text: &str, number: u16) -> impl Iterator<Item = u16> {
    let of_line = |line: &str| -> Vec<u16> {
        line.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    text.lines()
        .map(of_line)
        .filter(move |numbers| numbers.contains(&number))
        .flatten()
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found_in_the_output_of_each_tool() {
        let ss = "ESTAB 0 0 10.0.0.1:40001 10.0.0.2:5300\n\t cubic rto:204 bytes_acked:40002\n";
        let bpftrace = "262 40003 5300 7\n6 40004 80 7\n";
        let tcpdump = "eth0 Out IP 10.0.0.1.40005 > 10.0.0.2.5300: tcp 0\n";
        let found =
            |text: &str| numbers_in_lines_with(text, 5300).filter(|port| *port > 40_000).collect::<Vec<_>>();
        assert_eq!((found(ss), found(bpftrace), found(tcpdump)), (vec![40001], vec![40003], vec![40005]));
    }
}
