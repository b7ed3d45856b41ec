// SPDX-License-Identifier: MIT OR Apache-2.0
//! A private network namespace that exists as long as its Rust value, and threads inside it.
//! `ip netns` lists the namespace. Code inside runs on separate threads, so the caller's namespace never changes.

use crate::cleanup::{self, NETNS_DIR};
use crate::command::{self, Program};
use crate::error::{Error, Result};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

/// A named network namespace whose interface `lo` is up. It is removed when the value is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    path: PathBuf,
    inode: u64,
    file: File,
}

impl Namespace {
    /// Creates a namespace called `mpw-<pid>-<n>-<label>`.
    ///
    /// # Errors
    /// Without root, or if the kernel refuses the namespace or the mount.
    pub fn new(label: &str) -> Result<Self> {
        prepare_netns_dir()?;
        let name = cleanup::register(label);
        let path = Path::new(NETNS_DIR).join(&name);
        let created = on_new_thread("netns-create", {
            let path = path.clone();
            move || create(&path)
        });
        let opened = created.and_then(|()| {
            let object = path.display().to_string();
            let file = File::open(&path).map_err(Error::os("open", object.as_str()))?;
            let inode = file.metadata().map_err(Error::os("read", object))?.ino();
            Ok((file, inode))
        });
        let (file, inode) = opened.inspect_err(|_| cleanup::remove(&name))?;
        let namespace = Self { name, path, inode, file };
        namespace.disable_duplicate_address_detection()?;
        namespace.ip(&["link set lo up".to_owned()])?;
        Ok(namespace)
    }

    /// The name that `ip netns` shows.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace's file, for `setns`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The inode number, N in the kernel's `net:[N]` and in `skc_net.net->ns.inum`.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Runs `work` on a new thread inside the namespace and waits for the result. Threads and processes that `work`
    /// starts are also inside.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or `work` panics.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let name = self.name.as_str();
        thread::scope(|scope| {
            let entered = thread::Builder::new()
                .name("lab-enter".to_owned())
                .spawn_scoped(scope, || {
                    setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(Error::os("enter", name))?;
                    Ok(work())
                })
                .map_err(Error::os("start a thread in", name))?;
            entered.join().unwrap_or_else(|_| Err(panicked("lab-enter")))
        })
    }

    /// Starts `work` on a thread called `name` inside the namespace. Wait for the thread with [`join`].
    ///
    /// # Errors
    /// If the thread cannot be started. If the thread cannot enter the namespace, [`join`] returns the error.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let namespace = self.name.clone();
        let file = self.file.try_clone().map_err(Error::os("duplicate", self.name.as_str()))?;
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                setns(&file, CloneFlags::CLONE_NEWNET).map_err(Error::os("enter", namespace))?;
                work()
            })
            .map_err(Error::os("start a thread in", self.name.as_str()))
    }

    /// Writes a sysctl of this namespace, for example `net.mptcp.enabled`.
    ///
    /// # Errors
    /// If the key does not start with `net.` or does not exist, or the kernel rejects the value.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        if !key.starts_with("net.") {
            return Err(Error::Invalid {
                what: format!("sysctl `{key}` does not belong to a network namespace"),
                advice: "the lab never writes the host's sysctls; use a key that starts with `net.`",
            });
        }
        // /proc/sys/net belongs to the namespace of the thread that opens it.
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.enter(|| fs::write(&path, value).map_err(Error::os("write", path.as_str())))?
    }

    /// Without this, duplicate address detection takes one to two seconds. Until then a router has no link-local address, cannot resolve
    /// neighbours, and drops packets: the first SYN over a path, or a join.
    fn disable_duplicate_address_detection(&self) -> Result<()> {
        self.sysctl("net.ipv6.conf.all.accept_dad", "0")?;
        self.sysctl("net.ipv6.conf.default.accept_dad", "0")
    }

    /// Runs lines of `ip -batch` inside the namespace.
    ///
    /// # Errors
    /// If a line fails.
    pub fn ip(&self, lines: &[String]) -> Result<()> {
        self.enter(|| command::batch(Program::Ip, lines))?
    }

    /// Runs commands of `nft` inside the namespace.
    ///
    /// # Errors
    /// If a command fails, or the package nftables is not installed.
    pub fn nft(&self, commands: &str) -> Result<()> {
        self.enter(|| command::batch(Program::Nft, &[commands.to_owned()]))?
    }

    /// Runs lines of `ip -6 -batch` inside the namespace.
    pub(crate) fn ip6(&self, lines: &[String]) -> Result<()> {
        self.enter(|| command::batch(Program::Ip6, lines))?
    }

    /// Runs lines of `tc -batch` inside the namespace.
    pub(crate) fn tc(&self, lines: &[String]) -> Result<()> {
        self.enter(|| command::batch(Program::Tc, lines))?
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Data queued for a failed path keeps its socket, and so the namespace, alive for minutes. If aborting
        // the sockets fails, the namespace exists for this time.
        let _ = self.enter(|| command::abort_sockets(""));
        cleanup::remove(&self.name);
    }
}

/// Waits for a thread of [`Namespace::spawn`].
///
/// # Errors
/// The error that the thread returned, or [`Error::Panicked`].
pub fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    let name = thread.thread().name().unwrap_or("lab").to_owned();
    thread.join().unwrap_or_else(|_| Err(panicked(&name)))
}

fn panicked(thread: &str) -> Error {
    Error::Panicked { thread: thread.to_owned() }
}

fn on_new_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let thread =
        thread::Builder::new().name(name.to_owned()).spawn(work).map_err(Error::os("start thread", name))?;
    join(thread)
}

fn create(path: &Path) -> Result<()> {
    let object = path.display().to_string();
    File::create(path).map_err(Error::os("create", object.as_str()))?;
    unshare(CloneFlags::CLONE_NEWNET).map_err(Error::os("create a namespace for", object.as_str()))?;
    bind(Path::new("/proc/thread-self/ns/net"), path, MsFlags::MS_BIND)
}

/// Makes `/run/netns` a shared mount, as `ip netns add` does. The lab's namespaces then appear in other mount
/// namespaces, and a later `ip netns add` does not hide them under its own mount.
fn prepare_netns_dir() -> Result<()> {
    let folder = Path::new(NETNS_DIR);
    fs::create_dir_all(folder).map_err(Error::os("create", NETNS_DIR))?;
    let file = File::open(folder).map_err(Error::os("open", NETNS_DIR))?;
    let _lock = Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| Error::os("lock", NETNS_DIR)(errno))?;
    let shared = MsFlags::MS_SHARED | MsFlags::MS_REC;
    if mount(None::<&str>, folder, None::<&str>, shared, None::<&str>).is_ok() {
        return Ok(());
    }
    bind(folder, folder, MsFlags::MS_BIND | MsFlags::MS_REC)?;
    mount(None::<&str>, folder, None::<&str>, shared, None::<&str>).map_err(Error::os("share", NETNS_DIR))
}

fn bind(from: &Path, to: &Path, flags: MsFlags) -> Result<()> {
    mount(Some(from), to, Some("none"), flags, None::<&str>)
        .map_err(Error::os("mount", to.display().to_string()))
}
