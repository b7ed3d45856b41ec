// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `ip`, `tc`, `ss` and `nft` inside a namespace, in batches.
//! `ip` and `tc` configure links, rules, tbf and MPTCP endpoints, and print statistics. Without `ip` and `tc`, the lab would need five netlink
//! crates and an async runtime, and would still lack tbf. Tools are called by full path, because busybox has applets of the same names with
//! fewer functions.

use crate::error::{Error, Result};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that configure a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Ip,
    /// `ip -6`, the only way to select IPv6 for the rules and routes of a batch.
    Ip6,
    Tc,
    Ss,
    /// `nft`, from the package nftables.
    Nft,
}

impl Program {
    fn path(self) -> Result<String> {
        let name = match self {
            Self::Ip | Self::Ip6 => "ip",
            Self::Tc => "tc",
            Self::Ss => "ss",
            Self::Nft => "nft",
        };
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            .iter()
            .map(|folder| format!("{folder}/{name}"))
            .find(|path| Path::new(path).exists())
            .ok_or(Error::Missing {
                what: format!("the program `{name}`"),
                advice: if self == Self::Nft {
                    "install the package nftables"
                } else {
                    "install the package iproute2"
                },
            })
    }

    /// Arguments that make the program read commands from standard input.
    fn batch_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Ip | Self::Tc => &["-batch", "-"],
            Self::Ip6 => &["-6", "-batch", "-"],
            Self::Nft => &["-f", "-"],
            Self::Ss => &[],
        }
    }
}

/// Runs lines as a batch in the network namespace of the calling thread. The error names the first line
/// that failed.
pub(crate) fn batch(program: Program, lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let path = program.path()?;
    let mut child = Command::new(&path)
        .args(program.batch_arguments())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::os("start", path.as_str()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Fails if the child has already ended. The error below then contains the child's message.
        let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let output = child.wait_with_output().map_err(Error::os("wait for", path.as_str()))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Command { program: path, input: failed_line(&stderr, lines), stderr })
}

/// Runs one command and returns its standard output.
pub(crate) fn output(program: Program, arguments: &str) -> Result<String> {
    let path = program.path()?;
    let output = Command::new(&path)
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .map_err(Error::os("start", path.as_str()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        program: path,
        input: arguments.to_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Aborts the connected TCP sockets that a filter of `ss` selects (empty: all). Programs get `ECONNABORTED`, peers a RST. Needs
/// `CONFIG_INET_DIAG_DESTROY`. Returns the number of aborted sockets.
pub(crate) fn abort_sockets(filter: &str) -> Result<usize> {
    Ok(output(Program::Ss, &format!("--tcp --kill --no-header --numeric {filter}"))?.lines().count())
}

/// The line that failed: iproute2 ends the message of a failed batch with "Command failed -:LINE".
fn failed_line(stderr: &str, lines: &[String]) -> String {
    stderr
        .rsplit_once("-:")
        .and_then(|(_, number)| number.trim().parse::<usize>().ok())
        .and_then(|number| lines.get(number.checked_sub(1)?))
        .cloned()
        .unwrap_or_else(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_line_of_the_batch_that_failed() {
        let lines = ["one".to_owned(), "two".to_owned()];
        assert_eq!(failed_line("Error: no.\nCommand failed -:2", &lines), "two");
        assert_eq!(failed_line("what?", &lines), "one; two");
    }
}
