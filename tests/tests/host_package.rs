// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian package: it installs and purges cleanly in an overlay of this machine's root, and the daemon runs with only the
//! capabilities of its service.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "only some targets use all of it")]
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mpwatch_tests::{may_run_as_root, skip};

use service::DaemonDir;

const UNIT: &str = "packaging/systemd/mpwatch.service";

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The capabilities of the service, in the syntax of setpriv.
fn capabilities() -> String {
    let unit = fs::read_to_string(in_checkout(UNIT)).unwrap();
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("AmbientCapabilities="))
        .expect("the unit sets capabilities");
    let flag = |name: &str| format!("+{}", name.strip_prefix("CAP_").unwrap().to_lowercase());
    line.split(' ').map(flag).collect::<Vec<_>>().join(",")
}

#[test]
fn the_capabilities_of_the_service_are_sufficient() {
    if !may_run_as_root() {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip("setpriv is missing; it is in Debian's package `util-linux`");
        return;
    }
    let daemon_dir = DaemonDir::new();
    daemon_dir.allow_everyone();
    let granted = capabilities();
    let only = format!("-all,{granted}");
    let user = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--no-new-privs",
        "--inh-caps",
        &only,
        "--ambient-caps",
        &only,
        "--bounding-set",
        &only,
    ];
    let daemon = daemon_dir.start_as(&user, &[]);
    assert_eq!(daemon.get("/readyz").0, "HTTP/1.1 200 OK");
    let status = daemon.status();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("Uid:").split_whitespace().skip(1).all(|id| id == "65534"), "{status}");
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > 3.0);
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0));
}

/// Runs a script in a separate mount namespace, in an overlay of this machine's root. Its changes are discarded.
fn in_private_root(folder: &Path, script: &str) -> Output {
    let setup = "set -e
        mount --make-rprivate /
        mount -t tmpfs none \"$1\"
        mkdir \"$1/upper\" \"$1/work\" \"$1/root\"
        mount -t overlay overlay -o \"lowerdir=/,upperdir=$1/upper,workdir=$1/work\" \"$1/root\"
        cp \"$3\" \"$1/root/mpwatch.deb\"
        mount -t proc proc \"$1/root/proc\"
        exec chroot \"$1/root\" /bin/sh -ec \"$2\"";
    let package = std::env::var("MPWATCH_DEB").expect("MPWATCH_DEB is set");
    Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", setup, "sh"])
        .arg(folder)
        .arg(script)
        .arg(package)
        .output()
        .expect("unshare can be started")
}

/// The package under test. `None`: it was not built, and the test is skipped.
fn package() -> Option<PathBuf> {
    let package = std::env::var_os("MPWATCH_DEB").map(PathBuf::from);
    if package.is_none() {
        skip("MPWATCH_DEB is not set; ./dev test slow builds the package");
    }
    package
}

/// The package of the studies, which is built together with `package`.
fn study_package(package: &Path) -> PathBuf {
    package.with_file_name("mpwatch-study.deb")
}

#[test]
fn studies_are_in_a_package_of_their_own() {
    let Some(package) = package() else { return };
    let folder = extracted(&study_package(&package));
    for file in [
        "bin/mpwatch-study",
        "share/man/man1/mpwatch-study.1.gz",
        "share/bash-completion/completions/mpwatch-study",
        "share/doc/mpwatch-study/examples/study.toml",
        "share/doc/mpwatch-study/copyright",
    ] {
        assert!(folder.path().join("usr").join(file).exists(), "{file}");
    }
    let main = extracted(&package);
    assert!(!main.path().join("usr/share/man/man1/mpwatch-study.1.gz").exists(), "in two packages");
}

/// The files of a package, in a temporary folder.
fn extracted(package: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("dpkg-deb").arg("--extract").args([package, folder.path()]).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    folder
}

#[test]
fn lintian_has_no_complaint_about_the_packages() {
    let Some(package) = package() else { return };
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--allow-root"]);
    let output = lintian.args([&package, &study_package(&package)]).output();
    let Ok(output) = output else {
        skip("lintian is missing; it is in Debian's package `lintian`");
        return;
    };
    println!("{}", text_of(&output));
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn debug_symbols_are_in_a_package_of_their_own() {
    let Some(package) = package() else { return };
    let readelf = |path: &Path, what: &str| {
        let output = Command::new("readelf").arg(what).arg(path).output().expect("readelf is in binutils");
        assert!(output.status.success(), "{}", text_of(&output));
        text_of(&output)
    };
    let main = extracted(&package);
    let program = main.path().join("usr/bin/mpwatch");
    let sections = readelf(&program, "--sections");
    assert!(sections.contains(".gnu_debuglink") && !sections.contains(".debug_line"), "{sections}");
    let notes = readelf(&program, "--notes");
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build id");
    let symbols = extracted(&package.with_file_name("mpwatch-dbgsym.deb"));
    let file = format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    assert!(readelf(&symbols.path().join(file), "--sections").contains(".debug_line"));
}

/// The links of the documents of a package to other documents, pictures and data of this repository's `docs`.
fn links_between_documents(doc: &Path) -> Vec<(PathBuf, String)> {
    let folders = [doc.to_owned(), doc.join("docs")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let documents =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension() == Some("md".as_ref()));
    let mut links = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let is_ours =
            |link: &&str| !link.is_empty() && !link.contains("://") && in_docs(&document, link, doc);
        links.extend(targets.filter(is_ours).map(|link| (document.clone(), link.to_owned())));
    }
    assert!(links.len() > 100, "{links:?}");
    links
}

/// Whether a link leads to `docs` of the repository; other folders are not in the package.
fn in_docs(document: &Path, link: &str, doc: &Path) -> bool {
    let here = document.parent().unwrap().strip_prefix(doc).unwrap();
    let there = fs::canonicalize(in_checkout("").join(here).join(link));
    there.is_ok_and(|there| there.starts_with(fs::canonicalize(in_checkout("docs")).unwrap()))
}

#[test]
fn the_package_has_documents_manuals_and_absolute_runbook_urls() {
    let Some(package) = package() else { return };
    let folder = extracted(&package);
    let doc = folder.path().join("usr/share/doc/mpwatch");
    for file in ["README.md", "METRICS.md", "changelog.gz", "changelog.Debian.gz", "copyright"] {
        assert!(doc.join(file).exists(), "{file}");
    }
    let names = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let documents = names(&in_checkout("docs"));
    for file in
        documents.iter().filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "md"))
    {
        assert!(doc.join("docs").join(file).exists(), "docs/{file}");
    }
    for (document, link) in links_between_documents(&doc) {
        let file = document.parent().unwrap().join(&link);
        assert!(file.exists(), "{link} of {} is not in the package", document.display());
    }
    let pages = names(&folder.path().join("usr/share/man/man1"));
    for page in ["mpwatch.1.gz", "mpwatch-top.1.gz", "mpwatch-daemon.1.gz", "mpwatch-report.1.gz"] {
        assert!(pages.iter().any(|name| name == page), "{page} in {pages:?}");
    }
    let rules = fs::read_to_string(folder.path().join("usr/share/mpwatch/rules/mpwatch.yml")).unwrap();
    let urls: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).collect();
    assert!(urls.len() > 10, "{urls:?}");
    for url in urls {
        assert!(url.contains("://"), "{url} is relative");
        if let Some(path) = url.strip_prefix("file:///").and_then(|rest| rest.split('#').next()) {
            assert!(folder.path().join(path).exists(), "{url} is in no file of the package");
        }
    }
}

#[test]
fn the_package_installs_runs_and_purges_cleanly() {
    if !may_run_as_root() {
        return;
    }
    if package().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "
        dpkg --install /mpwatch.deb >/dev/null
        mpwatch --version
        mpwatch config check --config /etc/mpwatch/mpwatch.toml
        getent passwd mpwatch >/dev/null && echo a user
        link=/etc/systemd/system/multi-user.target.wants/mpwatch.service
        test -L $link
        # The administrator disables the service: an upgrade keeps that.
        rm $link
        dpkg --install /mpwatch.deb >/dev/null
        if test -L $link; then exit 2; fi
        for file in /usr/lib/systemd/system/mpwatch.service /usr/lib/sysusers.d/mpwatch.conf \
            /usr/lib/tmpfiles.d/mpwatch.conf /usr/share/bash-completion/completions/mpwatch; do
            test -s $file
        done
        # dpkg may be configured not to install manuals and documents, as in container images.
        dpkg --contents /mpwatch.deb > /contents
        grep -q man/man1/mpwatch.1.gz /contents
        grep -q doc/mpwatch/copyright /contents
        mkdir -p /var/lib/mpwatch
        touch /var/lib/mpwatch/mpwatch.db
        dpkg --remove mpwatch >/dev/null
        test -e /etc/mpwatch/mpwatch.toml
        test -e /var/lib/mpwatch/mpwatch.db
        dpkg --purge mpwatch >/dev/null
        if dpkg --status mpwatch >/dev/null 2>&1; then exit 3; fi
        if getent passwd mpwatch; then exit 4; fi
        for left in /etc/mpwatch /var/lib/mpwatch /usr/bin/mpwatch /usr/share/mpwatch /usr/share/doc/mpwatch $link \
            /var/lib/systemd/deb-systemd-helper-enabled/mpwatch.service.dsh-also; do
            if test -e $left || test -L $left; then echo left: $left; exit 5; fi
        done
        echo clean";
    let output = in_private_root(folder.path(), script);
    let text = text_of(&output);
    assert!(output.status.success(), "{text}");
    for line in ["the configuration is valid", "a user", "clean"] {
        assert!(text.lines().any(|printed| printed == line), "{line}: {text}");
    }
    assert!(text.contains(concat!("mpwatch ", env!("CARGO_PKG_VERSION"))), "{text}");
}
