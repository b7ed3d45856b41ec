// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of other packages that an experiment needs. Missing ones are installed with apt-get; where that is not possible, the run is skipped
//! with the reason.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// A program, and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) program: &'static str,
    pub(super) package: &'static str,
}

pub(super) const NFT: Needed = Needed { program: "nft", package: "nftables" };

/// How the error of a skipped run begins.
pub(crate) const SKIPPED: &str = "SKIP: ";

/// A run that this machine cannot do. It is no failure of the study.
#[derive(Debug, thiserror::Error)]
#[error("{SKIPPED}{0}")]
pub(crate) struct Skip(pub(crate) String);

/// Makes sure that these programs exist.
///
/// # Errors
/// With [`Skip`] if they cannot be installed.
pub(super) fn require(needed: &[Needed]) -> Result<(), Skip> {
    let missing = || needed.iter().filter(|one| path_of(one.program).is_none());
    let mut packages: Vec<&str> = missing().map(|one| one.package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !has_failed(&list) {
        eprintln!("mpwatch: installing {list} (apt-get), which this experiment runs");
        install(&packages);
    }
    if missing().next().is_some() {
        return Err(Skip(format!(
            "this needs {list}, which could not be installed; try: apt-get install {list}"
        )));
    }
    Ok(())
}

/// Whether installing them was tried before; from now on it was.
fn has_failed(list: &str) -> bool {
    static TRIED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut tried = TRIED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let has = tried.iter().any(|one| one == list);
    tried.push(list.to_owned());
    has
}

/// Whether it worked is seen from the programs.
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

/// Where a program is. Its directory may be missing in PATH, as those of root's programs are in a user's.
pub(super) fn path_of(program: &str) -> Option<String> {
    let directories = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    directories.iter().map(|directory| format!("{directory}/{program}")).find(|path| Path::new(path).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_installed_is_a_reason_to_skip() {
        assert!(require(&[Needed { program: "sh", package: "dash" }]).is_ok());
        assert!(has_failed("a b") || has_failed("a b"));
        assert!(path_of("no-such-program").is_none());
        assert_eq!(Skip("no nft".to_owned()).to_string(), "SKIP: no nft");
    }
}
