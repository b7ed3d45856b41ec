// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `ip` and `tc` inside a namespace, in batches.
//! Why programs and not netlink crates: one pair of tools covers links, rules, tbf, statistics and MPTCP
//! endpoints, where the crates need five, an async runtime, and still lack tbf. Both are always called by
//! full path, because busybox has lesser applets of the same names.

use crate::error::{Error, Result};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// iproute2's two programs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    Ip,
    /// `ip -6`: rules and routes in a batch do not tell their family otherwise.
    Ip6,
    Tc,
}

impl Program {
    fn path(self) -> Result<String> {
        let name = match self {
            Self::Ip | Self::Ip6 => "ip",
            Self::Tc => "tc",
        };
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            .iter()
            .map(|folder| format!("{folder}/{name}"))
            .find(|path| Path::new(path).exists())
            .ok_or(Error::Missing {
                what: format!("the program `{name}`"),
                advice: "install the package iproute2",
            })
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Ip | Self::Tc => &[],
            Self::Ip6 => &["-6"],
        }
    }
}

/// Runs the given lines as one `-batch`; the first line that fails is named in the error.
/// Acts on the network namespace of the calling thread.
pub(crate) fn batch(program: Program, lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let path = program.path()?;
    let mut child = Command::new(&path)
        .args(program.options())
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::os("start", path.as_str()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that died early makes this fail; its own message, below, says why.
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

/// iproute2 ends a failed batch with "Command failed -:LINE".
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
    fn the_failing_line_of_a_batch_is_named() {
        let lines = ["one".to_owned(), "two".to_owned()];
        assert_eq!(failed_line("Error: no.\nCommand failed -:2", &lines), "two");
        assert_eq!(failed_line("what?", &lines), "one; two");
    }
}
