// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of other packages that an experiment needs. Missing programs are installed with apt-get. If that fails, the run is skipped.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// A program and its Debian package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) program: &'static str,
    pub(super) package: &'static str,
}

pub(super) const NFT: Needed = Needed { program: "nft", package: "nftables" };

/// Beginning of the error of a skipped run.
pub(crate) const SKIPPED: &str = "SKIP: ";

/// The reason why a run is not possible on this machine. The study continues, and the run does not count as failed.
#[derive(Debug, thiserror::Error)]
#[error("{SKIPPED}{0}")]
pub(crate) struct Skip(pub(crate) String);

/// Checks that these programs exist, and installs missing programs.
///
/// # Errors
/// [`Skip`] if a missing program cannot be installed.
pub(super) fn require(needed: &[Needed]) -> Result<(), Skip> {
    let missing = || needed.iter().filter(|needed| path_of(needed.program).is_none());
    let mut packages: Vec<&str> = missing().map(|needed| needed.package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !was_tried(&list) {
        eprintln!("mpwatch-study: installing {list} (apt-get), which this experiment runs");
        install(&packages);
    }
    if missing().next().is_some() {
        return Err(Skip(format!(
            "this needs {list}, which could not be installed; try: apt-get install {list}"
        )));
    }
    Ok(())
}

/// Whether an earlier run tried to install these packages. Records the current attempt.
fn was_tried(list: &str) -> bool {
    static TRIED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut tried = TRIED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let has = tried.iter().any(|earlier| earlier == list);
    tried.push(list.to_owned());
    has
}

/// Tries to install packages. The caller checks whether the programs exist afterwards.
fn install(packages: &[&str]) {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let install = [&["install", "--yes", "--no-install-recommends", "--no-remove"], packages].concat();
    if !apt(&install) && apt(&["update"]) {
        apt(&install);
    }
}

/// Finds a program in the usual directories, because a user's PATH may lack the `sbin` directories. `None`: the program was not found.
pub(super) fn path_of(program: &str) -> Option<String> {
    let directories = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    directories.iter().map(|directory| format!("{directory}/{program}")).find(|path| Path::new(path).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_be_installed_is_a_reason_to_skip() {
        assert!(require(&[Needed { program: "sh", package: "dash" }]).is_ok());
        assert!(!was_tried("a b") && was_tried("a b"));
        assert!(path_of("no-such-program").is_none());
        assert_eq!(Skip("no nft".to_owned()).to_string(), "SKIP: no nft");
    }
}
