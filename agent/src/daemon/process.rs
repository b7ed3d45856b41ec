// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resource usage of the daemon's own process, from `getrusage` and `/proc/self`.

use std::fs;

use jiff::Timestamp;
use mpwatch_model::metric::service::DaemonProcess;
use mpwatch_model::unit::{Bytes, Nanos};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{SysconfVar, sysconf};

/// Reads the current values. A value that cannot be read is `None`.
pub(super) fn read(started_at: Timestamp) -> DaemonProcess {
    let used = getrusage(UsageWho::RUSAGE_SELF).ok();
    let used = used.map(|used| (used.user_time() + used.system_time()).num_nanoseconds());
    let memory = fs::read_to_string("/proc/self/statm").ok();
    let (mapped, resident) = memory.as_deref().map_or((None, None), pages);
    DaemonProcess {
        cpu: used.and_then(|used| u64::try_from(used).ok()).map(Nanos),
        resident,
        mapped,
        // Reading the directory opens one more file, which is not counted.
        open_files: fs::read_dir("/proc/self/fd").ok().map(|all| (all.count() as u64).saturating_sub(1)),
        max_files: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft),
        threads: fs::read_dir("/proc/self/task").ok().map(|all| all.count() as u64),
        started_at: Some(started_at),
    }
}

/// Mapped and resident memory, from the first two numbers of `statm`.
fn pages(statm: &str) -> (Option<Bytes>, Option<Bytes>) {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| u64::try_from(size).ok());
    let mut numbers =
        statm.split(' ').map(|number| Some(Bytes(number.parse::<u64>().ok()?.checked_mul(page?)?)));
    (numbers.next().flatten(), numbers.next().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_this_process_can_be_read() {
        let first = read(Timestamp::UNIX_EPOCH);
        assert!(first.resident.unwrap() < first.mapped.unwrap() && first.resident.unwrap() > Bytes(1 << 20));
        let file = fs::File::open("/proc/self/stat").unwrap();
        let more = read(Timestamp::UNIX_EPOCH);
        assert!(
            more.open_files.unwrap() > 0 && more.max_files >= more.open_files && more.threads.unwrap() > 0
        );
        assert!(more.cpu >= first.cpu && first.cpu.is_some());
        drop(file);
        assert_eq!(pages(""), (None, None));
    }
}
