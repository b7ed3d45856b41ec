// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the live view gets its snapshots: from the daemon, also when it goes and comes back; from our own tracing; and where neither is
//! possible it says so and waits for a daemon.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mpwatch_tui::screen::{Link, Origin, Settings};

use super::super::trace;
use super::{Countdown, INTERVAL};
use crate::attach::{AttachError, Daemon};
use crate::cli::{Scope, TopOptions};
use crate::exit;
use crate::screen::{Screen, load_settings};
use crate::session;
use mpwatch_engine::tracker::Closed;

/// How often a daemon is looked for.
const RETRY: Duration = Duration::from_millis(500);

pub(super) fn run(options: &TopOptions, scope: &Scope, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let settings = Settings { mptcp_enabled: mptcp_enabled(), ..load_settings()? };
    let view = View { options, scope, stop, screen: Screen::open(settings, Arc::clone(stop))? };
    let outcome = view.feed();
    // The terminal first: then whatever there is to say can be read.
    let closed = view.screen.close();
    outcome.and(closed)
}

/// Whether a program that is started here can have MPTCP sockets. `None`: this kernel has none, or does not say.
fn mptcp_enabled() -> Option<bool> {
    let value = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").ok()?;
    Some(value.trim() != "0")
}

struct View<'a> {
    options: &'a TopOptions,
    scope: &'a Scope,
    stop: &'a Arc<AtomicBool>,
    screen: Screen,
}

impl View<'_> {
    fn feed(&self) -> anyhow::Result<()> {
        match self.find_daemon() {
            Ok(Some(daemon)) => self.attached(daemon, &mut Countdown::new(self.options.count)),
            Ok(None) => self.tracing(),
            Err(error) => self.blocked(error.into()),
        }
    }

    fn find_daemon(&self) -> Result<Option<Daemon>, AttachError> {
        Daemon::find(self.scope, self.options.interval.is_some(), self.stop)
    }

    fn tracing(&self) -> anyhow::Result<()> {
        let mut live =
            match trace(self.options.interval.unwrap_or(INTERVAL), self.scope, Arc::clone(self.stop)) {
                Ok(live) => live,
                Err(error) if exit::is_not_permitted(&error) => return self.blocked(error),
                Err(error) => return Err(error),
            };
        live.follow(self.screen.pace());
        self.screen.up(Origin::Tracer);
        let mut left = Countdown::new(self.options.count);
        session::run(&mut live, self.scope.outlook(Closed::Forget), None, |snapshot| {
            self.screen.show(self.scope.narrow(snapshot));
            Ok(if self.has_left() { ControlFlow::Break(()) } else { left.next() })
        })?;
        Ok(())
    }

    fn has_left(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Until the user leaves; a daemon that goes may come back.
    fn attached(&self, mut daemon: Daemon, left: &mut Countdown) -> anyhow::Result<()> {
        loop {
            self.screen.up(Origin::Daemon(daemon.path().display().to_string()));
            let gone = loop {
                match daemon.next() {
                    Ok(Some(snapshot)) => self.screen.show(self.scope.narrow(snapshot)),
                    Ok(None) => return Ok(()),
                    Err(error @ (AttachError::Gone { .. } | AttachError::Silent { .. })) => break error,
                    Err(error) => return Err(error.into()),
                }
                if left.next().is_break() {
                    return Ok(());
                }
            };
            self.screen.link(Link::Gone(gone.to_string()));
            match self.wait_for_daemon() {
                Some(back) => daemon = back,
                None => return Ok(()),
            }
        }
    }

    /// A daemon as soon as there is one. `None`: the user has left.
    fn wait_for_daemon(&self) -> Option<Daemon> {
        loop {
            if self.screen.pace().wait_for_leave(RETRY) || self.has_left() {
                return None;
            }
            if let Ok(Some(daemon)) = self.find_daemon() {
                return Some(daemon);
            }
        }
    }

    /// Says why there is nothing to see, and waits for a daemon. Who leaves then leaves with that error.
    fn blocked(&self, error: anyhow::Error) -> anyhow::Result<()> {
        self.screen.link(Link::Blocked(words(&error)));
        match self.wait_for_daemon() {
            Some(daemon) => self.attached(daemon, &mut Countdown::new(self.options.count)),
            None => Err(error),
        }
    }
}

/// What is wrong, and what to do, a paragraph each.
fn words(error: &anyhow::Error) -> Vec<String> {
    let mut words = vec![exit::message(error)];
    if !error.is::<AttachError>() {
        words.push("No daemon answers, and tracing needs root. Either of these helps:".to_owned());
        words.push("sudo mpwatch  --  trace from here".to_owned());
        words.push("sudo mpwatch daemon  --  a service for all users of its group; this screen then attaches by itself".to_owned());
        words.push("sudo mpwatch doctor  --  is this machine able to?".to_owned());
    }
    words
}
