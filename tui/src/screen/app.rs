// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the screen: a value that events change and that drawing only reads. No I/O, no clock: what is to be done outside is
//! returned as a [`Request`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mpwatch_model::connection::Connection;
use mpwatch_model::filter::{Filter, FilterError};
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::{Report, Snapshot};
use ratatui::crossterm::event::{KeyEvent, MouseEvent};

use super::digest::{Brief, Digested, Totals};
use super::edit::Edit;
use super::history::{History, Turn};
use super::key::Keymap;
use super::mask::Mask;
use super::rows::{Grouping, Place, RowKey, Rows};
use super::theme::Theme;
use super::units::Units;

/// What stays as it is while the screen runs, and what it begins with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Colours.
    pub theme: Theme,
    /// Keys.
    pub keys: Keymap,
    /// Units.
    pub units: Units,
    /// Columns that are shown or hidden other than by default: name, shown.
    pub columns: Vec<(String, bool)>,
    /// What the connections are sorted by. `None`: by activity.
    pub sort: Option<String>,
    /// The filter to begin with.
    pub filter: String,
    /// Where the snapshots come from.
    pub origin: Origin,
    /// What runs, where that is not this machine's own traffic: a line below the header.
    pub banner: Option<String>,
    /// Whether sockets of this machine can be MPTCP ones, in the namespace of the screen. `None`: not known, or of no interest.
    pub mptcp_enabled: Option<bool>,
}

/// Where the snapshots come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// This process traces.
    #[default]
    Tracer,
    /// A daemon, at this socket.
    Daemon(String),
    /// A recording: can be stopped and stepped through.
    Replay(String),
}

/// Whether snapshots come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// None has come yet.
    #[default]
    Starting,
    /// Nothing can be traced and nobody is there to ask; why, and what to do, a line each.
    Blocked(Vec<String>),
    /// They come.
    Up(Origin),
    /// They came, and do not any more; why. It is tried again.
    Gone(String),
    /// The recording is at its end, or the demo.
    Ended,
}

/// What comes from the source of the snapshots.
#[derive(Clone, Debug)]
pub enum Feed {
    /// A snapshot.
    Snapshot(Arc<Digested>),
    /// The source itself.
    Link(Link),
}

impl Feed {
    /// A snapshot, made ready for the screen: to be called by the thread that brings it, as it takes as long as several frames where there are
    /// many flows.
    pub fn snapshot(snapshot: impl Into<Arc<Snapshot>>) -> Self {
        Self::Snapshot(Arc::new(Digested::of(snapshot)))
    }
}

/// What happens to the screen.
#[derive(Clone, Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// The terminal has another size: columns, rows.
    Resize(u16, u16),
    /// From the source.
    Feed(Feed),
    /// The answer to a request.
    Notice(Notice),
}

/// A line for the user, until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Something failed.
    pub is_error: bool,
    /// What to say.
    pub text: String,
}

/// What an export looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One object, as of `report --format json`.
    Json,
    /// A row a subflow.
    Csv,
    /// To be pasted into an issue.
    Markdown,
}

impl ExportFormat {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Json, Self::Csv, Self::Markdown];

    /// Name, and ending of the file.
    pub fn description(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("JSON", "json"),
            Self::Csv => ("CSV, one row a subflow", "csv"),
            Self::Markdown => ("Markdown", "md"),
        }
    }
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Leave.
    Quit {
        /// Leave the content of the screen in the terminal.
        keep: bool,
    },
    /// Give the terminal to the shell for a while.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Take snapshots at this interval from now on; of a replay, show them so.
    Interval(Duration),
    /// Of a replay: go on by itself, or not.
    Play(bool),
    /// Of a replay that stands: one more snapshot.
    Step,
    /// Write this to a file and say where.
    Export(Box<Report>, ExportFormat),
}

/// The five views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// Connections and their subflows.
    #[default]
    Connections,
    /// Interface and pair of addresses.
    Paths,
    /// Zones and consumers.
    Energy,
    /// Peers, processes, namespaces.
    Peers,
    /// mpwatch itself.
    Health,
}

impl Tab {
    /// In the order of their keys.
    pub const ALL: [Self; 5] = [Self::Connections, Self::Paths, Self::Energy, Self::Peers, Self::Health];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Connections => "Connections",
            Self::Paths => "Paths",
            Self::Energy => "Energy",
            Self::Peers => "Peers",
            Self::Health => "Health",
        }
    }

    pub(crate) fn index(self) -> usize {
        Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0)
    }
}

/// Which closed connections are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Those of the snapshot.
    #[default]
    Lately,
    /// All that are remembered.
    All,
    /// None.
    Hidden,
}

/// What a table is like, a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableState {
    /// Column to sort by. `None`: the usual order.
    pub(crate) sort: Option<&'static str>,
    pub(crate) reverse: bool,
    /// Which flow is selected; not which row.
    pub(crate) selected: Option<RowKey>,
    /// The user has chosen it. Until then the top of the table is what is to be seen.
    pub(crate) is_chosen: bool,
    /// Its row at present.
    pub(crate) index: usize,
    /// The first row that is drawn.
    pub(crate) offset: usize,
    /// Columns shown or hidden by hand.
    pub(crate) columns: Vec<(&'static str, bool)>,
}

/// What is open above the table.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// Lines scrolled away.
    Help(usize),
    /// A list to choose from, and the place in it.
    Pick(Pick, usize),
    /// A line is being typed.
    Type(Typing, Edit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    Sort,
    Columns,
    Export,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typing {
    Filter,
    Search,
}

/// One connection in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    pub(crate) id: ConnectionId,
    /// Lines of its timeline that are scrolled away below: none at first, the latest is in view.
    pub(crate) scroll: usize,
}

/// The state.
#[derive(Clone, Debug)]
pub struct App {
    pub(crate) settings: Settings,
    pub(crate) size: (u16, u16),
    pub(crate) link: Link,
    pub(crate) history: History,
    /// The turn that is shown while the screen is frozen.
    pub(crate) frozen: Option<Turn>,
    /// As it was last asked for.
    pub(crate) interval: Option<Duration>,
    pub(crate) tab: Tab,
    pub(crate) tables: [TableState; 5],
    pub(crate) grouping: Grouping,
    pub(crate) detail: Option<Detail>,
    pub(crate) mode: Mode,
    pub(crate) filter: Filter,
    pub(crate) filter_text: String,
    pub(crate) filter_error: Option<FilterError>,
    pub(crate) search: String,
    pub(crate) folded: HashSet<ConnectionId>,
    pub(crate) all_folded: bool,
    pub(crate) closed: Closed,
    pub(crate) mask: Mask,
    pub(crate) notice: Option<Notice>,
    pub(crate) rows: Rows,
}

impl App {
    /// A screen of this size on which nothing has come yet.
    pub fn new(settings: Settings, size: (u16, u16)) -> Self {
        let mut tables: [TableState; 5] = Default::default();
        for table in &mut tables {
            table.columns = super::columns::known(&settings.columns);
        }
        tables[0].sort = settings.sort.as_deref().and_then(super::columns::key);
        let filter_text = settings.filter.clone();
        let filter = Filter::parse(&filter_text).unwrap_or_default();
        Self {
            settings,
            size,
            link: Link::default(),
            history: History::default(),
            frozen: None,
            interval: None,
            tab: Tab::default(),
            tables,
            grouping: Grouping::default(),
            detail: None,
            mode: Mode::default(),
            filter,
            filter_text,
            filter_error: None,
            search: String::new(),
            folded: HashSet::new(),
            all_folded: false,
            closed: Closed::default(),
            mask: Mask::default(),
            notice: None,
            rows: Rows::default(),
        }
    }

    /// The view that is shown.
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Rows of the table that is shown.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Whether the screen is frozen.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// The turn that is shown.
    pub(crate) fn turn(&self) -> Turn {
        self.frozen.unwrap_or_else(|| self.history.latest())
    }

    /// The snapshot that is shown, with its digest. `None`: none has come yet.
    pub(crate) fn digested(&self) -> Option<&Digested> {
        self.history.frame(self.turn()).map(AsRef::as_ref)
    }

    /// The snapshot that is shown.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.digested().map(|frame| &*frame.snapshot)
    }

    /// Sums over it.
    pub(crate) fn totals(&self) -> Totals {
        self.digested().map(|frame| frame.digest.totals).unwrap_or_default()
    }

    /// Gives back the memory of what is not shown any more: to be done after drawing, when nobody waits.
    pub fn tidy(&mut self) {
        self.history.tidy();
    }

    pub(crate) fn table(&self) -> &TableState {
        &self.tables[self.tab.index()]
    }

    pub(crate) fn table_mut(&mut self) -> &mut TableState {
        &mut self.tables[self.tab.index()]
    }

    /// A connection by where it stands.
    pub(crate) fn brief(&self, place: Place) -> Option<Brief<'_>> {
        match place {
            Place::Shown(index) => self.digested()?.brief(index as usize),
            Place::Past(number) => self.history.past_at(number)?.brief(),
        }
    }

    /// The same in full.
    pub(crate) fn connection(&self, place: Place) -> Option<&Connection> {
        self.brief(place).map(|brief| brief.connection)
    }

    /// A connection by its id, wherever it still is.
    pub(crate) fn find(&self, id: ConnectionId) -> Option<&Connection> {
        let shown = self.snapshot().and_then(|all| all.connections.iter().find(|one| one.id == id));
        shown.or_else(|| self.history.closed().rev().find(|one| one.id == id))
    }

    /// The connection that is selected, or open.
    pub(crate) fn selected(&self) -> Option<&Connection> {
        let id = match (self.detail, self.table().selected) {
            (Some(detail), _) => detail.id,
            (None, Some(RowKey::Flow(id, _))) => id,
            (None, Some(RowKey::Sum(_)) | None) => return None,
        };
        // Mostly it is where the selected row says, and need not be searched for.
        let row = self.rows.flow(self.table().index).filter(|row| row.id == id);
        let here = row.and_then(|row| self.connection(row.place)).filter(|connection| connection.id == id);
        here.or_else(|| self.find(id))
    }

    pub(crate) fn is_replay(&self) -> bool {
        matches!(self.settings.origin, Origin::Replay(_))
    }
}
