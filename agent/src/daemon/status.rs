// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the daemon itself, for its metrics and its readiness.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
#[cfg(feature = "http-client")]
use mpwatch_model::metric::service::ExportState;
use mpwatch_model::metric::service::{DaemonProcess, Service};
use mpwatch_model::unit::{Bytes, Nanos};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{SysconfVar, sysconf};

use crate::config::Config;
use crate::system::lock;

/// A snapshot is current for three intervals plus this time, because the machine may be busy.
const GRACE: Duration = Duration::from_secs(1);

/// The state of the daemon, which all threads share.
#[derive(Default)]
pub(super) struct Status {
    interval: Duration,
    started_at: Timestamp,
    ticked_at: Mutex<Option<Instant>>,
    service: Mutex<Service>,
    pub(super) stopping: AtomicBool,
    pub(super) readers: AtomicU64,
    pub(super) frames_dropped: AtomicU64,
    pub(super) clients_refused: Arc<AtomicU64>,
}

impl Status {
    pub(super) fn new(config: &Config) -> Self {
        let started_at = Timestamp::now();
        let service = Service {
            interval: config.interval.into(),
            config_ok: true,
            web_config_ok: true,
            config_read_at: Some(started_at),
            ..Service::default()
        };
        Self { interval: config.interval, started_at, service: Mutex::new(service), ..Self::default() }
    }

    pub(super) fn ticked(&self, took: Duration) {
        let mut service = lock(&self.service);
        service.ticks += 1;
        service.tick_took = took.into();
        *lock(&self.ticked_at) = Some(Instant::now());
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Service)) {
        change(&mut lock(&self.service));
    }

    #[cfg(feature = "http-client")]
    pub(super) fn export_is(&self, state: ExportState) {
        let exports = &mut lock(&self.service).exports;
        match exports.iter_mut().find(|export| export.target == state.target) {
            Some(export) => *export = state,
            None => exports.push(state),
        }
    }

    /// Fails without a snapshot, or if the latest one is older than three intervals plus [`GRACE`].
    pub(super) fn readiness(&self) -> Result<(), String> {
        let latest = lock(&self.ticked_at).ok_or("there is no snapshot yet")?;
        let age = latest.elapsed();
        if age > self.interval * 3 + GRACE {
            return Err(format!("the latest snapshot is {:.1} s old", age.as_secs_f64()));
        }
        Ok(())
    }

    /// All values, for the metrics. `merged`: number of label values merged into `__other__`.
    pub(super) fn service(&self, merged: u64) -> Service {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Service {
            readers: Some(read(&self.readers)),
            frames_dropped: Some(read(&self.frames_dropped)),
            clients_refused: read(&self.clients_refused),
            process: own_process(self.started_at),
            series_merged: merged,
            ..lock(&self.service).clone()
        }
    }
}

/// Resource usage of this process, from `getrusage` and `/proc/self`. A value that cannot be read is `None`.
fn own_process(started_at: Timestamp) -> DaemonProcess {
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
        let first = own_process(Timestamp::UNIX_EPOCH);
        assert!(first.resident.unwrap() < first.mapped.unwrap() && first.resident.unwrap() > Bytes(1 << 20));
        let file = fs::File::open("/proc/self/stat").unwrap();
        let more = own_process(Timestamp::UNIX_EPOCH);
        assert!(
            more.open_files.unwrap() > 0 && more.max_files >= more.open_files && more.threads.unwrap() > 0
        );
        assert!(more.cpu >= first.cpu && first.cpu.is_some());
        drop(file);
        assert_eq!(pages(""), (None, None));
    }
}
