// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view. Its source is a daemon, which may stop and come back, or a tracer. With neither, it shows why and waits for a daemon.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::Timestamp;
use mpwatch_engine::tracker::Closed;
use mpwatch_tui::screen::{Link, Origin, Settings};

use crate::cli::TopOptions;
use crate::client::{AttachError, Daemon};
use crate::error::exit;
use crate::live::session::{self, TrackerSettings};
use crate::screen::{Screen, load_settings};
use crate::system::procfs::read_file;

/// Time between two snapshots unless an option sets it.
pub(super) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two attempts to attach to a daemon.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Subtracts 1 from the number of snapshots that are left to show. `false`: none is left.
pub(super) fn count_down(left: &mut u64) -> bool {
    *left = left.saturating_sub(1);
    *left > 0
}

pub(super) fn run(options: &TopOptions, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    // Whether programs in this namespace can open MPTCP sockets. `None`: the kernel has no MPTCP, or hides it.
    let mptcp_enabled = read_file("/proc/sys/net/mptcp/enabled").map(|value| value != "0");
    let is_narrowed = options.view.filter.narrows();
    let settings = Settings { mptcp_enabled, is_narrowed, ..load_settings()? };
    let view = LiveView { options, stop, screen: Screen::open(settings, Arc::clone(stop))? };
    let outcome = view.run();
    // The terminal is restored before any error is printed.
    outcome.and(view.screen.close())
}

struct LiveView<'a> {
    options: &'a TopOptions,
    stop: &'a Arc<AtomicBool>,
    screen: Screen,
}

impl LiveView<'_> {
    fn run(&self) -> anyhow::Result<()> {
        match self.find_daemon() {
            Ok(Some(daemon)) => self.show_daemon(daemon),
            Ok(None) => self.trace(),
            Err(error) => self.show_obstacle(error.into()),
        }
    }

    fn find_daemon(&self) -> Result<Option<Daemon>, AttachError> {
        Daemon::find(&self.options.view, self.options.interval.is_some(), self.stop)
    }

    fn trace(&self) -> anyhow::Result<()> {
        let TopOptions { interval, count, view, .. } = self.options;
        view.filter.ensure_namespace()?;
        let mut live = match view.trace.start(interval.unwrap_or(DEFAULT_INTERVAL), Arc::clone(self.stop)) {
            Ok(live) => live,
            Err(error) if exit::is_not_permitted(&error) => return self.show_obstacle(error),
            Err(error) => return Err(error),
        };
        let playback = &self.screen.playback;
        live.playback = Some(Arc::clone(playback));
        self.screen.set_link(Link::Up(Origin::Tracer));
        let mut left = count.unwrap_or(u64::MAX);
        session::run(&mut live, TrackerSettings::new(Closed::Forget, view.trace.method), None, |snapshot| {
            self.screen.show(view.filter.apply(snapshot));
            Ok(!playback.has_quit() && count_down(&mut left))
        })?;
        Ok(())
    }

    /// Shows a daemon's snapshots until the user quits. If the daemon stops, waits for the next one.
    fn show_daemon(&self, mut daemon: Daemon) -> anyhow::Result<()> {
        let (mut left, mut shown) = (self.options.count.unwrap_or(u64::MAX), Timestamp::MIN);
        loop {
            self.screen.set_link(Link::Up(Origin::Daemon(daemon.path.display().to_string())));
            // Fills the charts. Snapshots up to `shown` are omitted: the same daemon, if it was only silent, resends them.
            let mut snapshots = daemon.history(shown);
            let stopped = loop {
                match snapshots {
                    Ok(all) if all.is_empty() => return Ok(()),
                    Ok(all) => all.into_iter().for_each(|snapshot| {
                        shown = snapshot.at;
                        self.screen.show(self.options.view.filter.apply(snapshot));
                    }),
                    Err(error @ (AttachError::Gone { .. } | AttachError::Silent { .. })) => break error,
                    Err(error) => return Err(error.into()),
                }
                if !count_down(&mut left) {
                    return Ok(());
                }
                snapshots = daemon.next().map(Vec::from_iter);
            };
            self.screen.set_link(Link::Gone(stopped.to_string()));
            let Some(next) = self.wait_for_daemon() else { return Ok(()) };
            daemon = next;
        }
    }

    /// The next daemon that answers. `None`: the user has quit.
    fn wait_for_daemon(&self) -> Option<Daemon> {
        while !self.screen.playback.wait_for_quit(RETRY_INTERVAL) {
            if let Ok(Some(daemon)) = self.find_daemon() {
                return Some(daemon);
            }
        }
        None
    }

    /// Shows why there are no snapshots, and waits for a daemon. If the user quits first, returns `error`.
    fn show_obstacle(&self, error: anyhow::Error) -> anyhow::Result<()> {
        self.screen.set_link(Link::Blocked(advice(&error)));
        self.wait_for_daemon().map_or(Err(error), |daemon| self.show_daemon(daemon))
    }
}

/// The error and what to do about it, one paragraph each.
fn advice(error: &anyhow::Error) -> Vec<String> {
    let mut paragraphs = vec![exit::message(error)];
    if !error.is::<AttachError>() {
        let advice = [
            "No daemon answers, and tracing needs root. Do one of these:",
            "sudo mpwatch  --  trace from here",
            "sudo mpwatch daemon  --  start the daemon; this screen attaches to it by itself",
            "sudo usermod -aG mpwatch USER  --  let a user read from the daemon, from the next login on (docs/daemon.md)",
            "sudo mpwatch doctor  --  check whether this machine can be traced",
        ];
        paragraphs.extend(advice.map(str::to_owned));
    }
    paragraphs
}
