// SPDX-License-Identifier: MIT OR Apache-2.0
//! The key table: the one place from which the bindings, the footer, the help and the names in the configuration follow.

use std::fmt;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table below says what each does")]
pub enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Back,
    Fold,
    Unfold,
    FoldAll,
    Connections,
    Paths,
    Energy,
    Peers,
    Health,
    NextView,
    PreviousView,
    Grouping,
    Filter,
    Search,
    NextHit,
    PreviousHit,
    Sort,
    Reverse,
    Columns,
    Closed,
    Pause,
    StepBack,
    StepForward,
    Slower,
    Faster,
    Bits,
    EnergyUnit,
    Mask,
    Theme,
    Export,
    Help,
    Redraw,
    Suspend,
    Quit,
    QuitKeep,
}

/// One row of the table.
pub struct Binding {
    /// What it does.
    pub action: Action,
    /// Its name in the configuration.
    pub name: &'static str,
    /// Keys by default.
    pub keys: &'static [&'static str],
    /// A word for the footer, for those that should be seen at once.
    pub footer: Option<&'static str>,
    /// One phrase for the help.
    pub help: &'static str,
}

const fn row(
    action: Action,
    name: &'static str,
    keys: &'static [&'static str],
    footer: Option<&'static str>,
    help: &'static str,
) -> Binding {
    Binding { action, name, keys, footer, help }
}

/// The headings of the help, and how many rows of the table stand below each.
pub(crate) const SECTIONS: &[(&str, usize)] =
    &[("Move", 11), ("Views", 8), ("Find and sort", 8), ("Time", 5), ("Show", 5), ("Program", 5)];

/// All of them, in the order of the help.
pub static BINDINGS: &[Binding] = &[
    row(Action::Up, "up", &["up", "k"], None, "one row up"),
    row(Action::Down, "down", &["down", "j"], None, "one row down"),
    row(Action::PageUp, "page_up", &["pgup", "ctrl-u"], None, "one page up"),
    row(Action::PageDown, "page_down", &["pgdn", "ctrl-d"], None, "one page down"),
    row(Action::First, "first", &["g", "home"], None, "first row"),
    row(Action::Last, "last", &["G", "end"], None, "last row"),
    row(
        Action::Open,
        "open",
        &["enter"],
        Some("detail"),
        "open: detail of the connection; also choose in a list",
    ),
    row(
        Action::Back,
        "back",
        &["esc", "backspace"],
        None,
        "back: close what is open; clears the filter when nothing is",
    ),
    row(Action::Fold, "fold", &["left", "h"], None, "fold a connection's subflows away"),
    row(Action::Unfold, "unfold", &["right", "l"], None, "show them again"),
    row(Action::FoldAll, "fold_all", &["e"], None, "fold or unfold all connections"),
    row(Action::Connections, "connections", &["1"], None, "connections and their subflows"),
    row(Action::Paths, "paths", &["2"], None, "paths: interface and pair of addresses"),
    row(Action::Energy, "energy", &["3"], None, "energy: zones and top consumers"),
    row(Action::Peers, "peers", &["4"], None, "peers, processes, namespaces"),
    row(Action::Health, "health", &["5"], None, "mpwatch itself: losses, hooks, overhead"),
    row(Action::NextView, "next_view", &["tab"], Some("view"), "next view"),
    row(Action::PreviousView, "previous_view", &["shift-tab"], None, "previous view"),
    row(Action::Grouping, "grouping", &["p"], None, "in the peers view: group by peer, process or namespace"),
    row(
        Action::Filter,
        "filter",
        &["/"],
        Some("filter"),
        "filter: peer:10.0/16 proc:nginx rate>1M shared ...",
    ),
    row(Action::Search, "search", &["f"], None, "find a row by its text"),
    row(Action::NextHit, "next_hit", &["n"], None, "next row found"),
    row(Action::PreviousHit, "previous_hit", &["N"], None, "row found before"),
    row(Action::Sort, "sort", &["s"], Some("sort"), "choose what to sort by"),
    row(Action::Reverse, "reverse", &["r"], None, "turn the order round"),
    row(Action::Columns, "columns", &["c"], None, "choose columns"),
    row(
        Action::Closed,
        "closed",
        &["o"],
        None,
        "closed connections: lately closed, all that were seen, none",
    ),
    row(Action::Pause, "pause", &["space"], Some("pause"), "freeze the screen; data goes on"),
    row(Action::StepBack, "step_back", &["["], None, "freeze and go one snapshot back"),
    row(Action::StepForward, "step_forward", &["]"], None, "one snapshot on"),
    row(Action::Slower, "slower", &["-"], None, "longer interval; slower replay"),
    row(Action::Faster, "faster", &["+", "="], None, "shorter interval; faster replay"),
    row(Action::Bits, "bits", &["b"], None, "rates in bit/s or B/s"),
    row(Action::EnergyUnit, "energy_unit", &["u"], None, "energy in joules or watt hours"),
    row(Action::Mask, "mask", &["z"], None, "privacy: names instead of addresses, processes and hosts"),
    row(Action::Theme, "theme", &["t"], None, "next theme: dark, light, colour-blind, mono"),
    row(Action::Export, "export", &["x"], Some("export"), "export the selection as JSON, CSV or Markdown"),
    row(Action::Help, "help", &["?", "f1"], Some("help"), "this help"),
    row(Action::Redraw, "redraw", &["ctrl-l"], None, "draw the whole screen anew"),
    row(Action::Suspend, "suspend", &["ctrl-z"], None, "suspend; fg comes back"),
    row(Action::Quit, "quit", &["q", "ctrl-c"], Some("quit"), "quit"),
    row(Action::QuitKeep, "quit_keep", &["Q"], None, "quit and leave the screen's content in the terminal"),
];

/// A key with what is held down with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    code: KeyCode,
    control: bool,
}

/// Keys that are no letters.
const NAMED: &[(&str, KeyCode)] = &[
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("shift-tab", KeyCode::BackTab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
];

impl Chord {
    /// Reads `q`, `G`, `ctrl-c`, `f1`, `space`, `shift-tab` ...
    pub fn parse(text: &str) -> Option<Self> {
        let (control, name) = text.strip_prefix("ctrl-").map_or((false, text), |rest| (true, rest));
        let named = NAMED.iter().find(|(word, _)| *word == name).map(|(_, code)| *code);
        let function =
            || name.strip_prefix('f')?.parse().ok().filter(|n| (1..=12).contains(n)).map(KeyCode::F);
        let letter = || {
            let mut letters = name.chars();
            letters.next().filter(|_| letters.next().is_none()).map(KeyCode::Char)
        };
        let code = named.or_else(function).or_else(letter)?;
        Some(Self { code, control })
    }

    pub(crate) fn of(event: KeyEvent) -> Self {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        Self { code: event.code, control }
    }

    /// The event of a terminal where it is pressed.
    pub fn event(self) -> KeyEvent {
        KeyEvent::new(self.code, if self.control { KeyModifiers::CONTROL } else { KeyModifiers::NONE })
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let control = if self.control { "ctrl-" } else { "" };
        match (NAMED.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((word, _)), _) => write!(f, "{control}{word}"),
            (None, KeyCode::F(number)) => write!(f, "{control}f{number}"),
            (None, KeyCode::Char(letter)) => write!(f, "{control}{letter}"),
            (None, _) => write!(f, "{control}?"),
        }
    }
}

/// Why a binding cannot be as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// There is no such action.
    NoAction(String),
    /// There is no such key.
    NoKey(String),
    /// Two actions want it.
    Taken {
        /// The key.
        key: String,
        /// Who has it.
        by: &'static str,
    },
    /// Nothing would leave the program, or the help.
    Unreachable(&'static str),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAction(name) => write!(f, "there is no action `{name}`"),
            Self::NoKey(key) => {
                write!(f, "`{key}` is no key: those are like q, G, ctrl-c, f1, space, pgdn, shift-tab")
            }
            Self::Taken { key, by } => write!(f, "the key `{key}` is that of `{by}` already"),
            Self::Unreachable(name) => write!(f, "`{name}` needs a key"),
        }
    }
}

impl std::error::Error for KeyError {}

/// Which key does what.
#[derive(Clone, Debug)]
pub struct Keymap {
    bound: Vec<(Chord, Action)>,
}

impl Default for Keymap {
    fn default() -> Self {
        let chords = |row: &'static Binding| {
            row.keys.iter().filter_map(|key| Chord::parse(key)).map(|chord| (chord, row.action))
        };
        Self { bound: BINDINGS.iter().flat_map(chords).collect() }
    }
}

impl Keymap {
    /// The usual keys but for these actions, which get the keys that stand with them. A key that is given so is taken from who has it by
    /// default; two that are given the same key are an error.
    pub fn with(remapped: &[(String, Vec<String>)]) -> Result<Self, KeyError> {
        let mut map = Self::default();
        let mut given: Vec<(Chord, &'static Binding)> = Vec::new();
        for (name, keys) in remapped {
            let row = BINDINGS.iter().find(|row| row.name == name);
            let row = row.ok_or_else(|| KeyError::NoAction(name.clone()))?;
            map.bound.retain(|(_, action)| *action != row.action);
            for key in keys {
                let chord = Chord::parse(key).ok_or_else(|| KeyError::NoKey(key.clone()))?;
                if let Some((_, other)) = given.iter().find(|(taken, _)| *taken == chord) {
                    return Err(KeyError::Taken { key: key.clone(), by: other.name });
                }
                given.push((chord, row));
            }
        }
        map.bound.retain(|(chord, _)| given.iter().all(|(taken, _)| taken != chord));
        map.bound.extend(given.iter().map(|(chord, row)| (*chord, row.action)));
        for (action, name) in [(Action::Quit, "quit"), (Action::Help, "help")] {
            if map.keys(action).is_empty() {
                return Err(KeyError::Unreachable(name));
            }
        }
        Ok(map)
    }

    /// What a key does.
    pub fn action(&self, chord: Chord) -> Option<Action> {
        self.bound.iter().find(|(bound, _)| *bound == chord).map(|(_, action)| *action)
    }

    /// The keys of an action.
    pub fn keys(&self, action: Action) -> Vec<String> {
        self.bound.iter().filter(|(_, of)| *of == action).map(|(chord, _)| chord.to_string()).collect()
    }

    /// The first of them, short enough for the footer.
    pub(crate) fn key(&self, action: Action) -> String {
        let key = self.keys(action).into_iter().next().unwrap_or_default();
        match key.as_str() {
            "enter" => "⏎".to_owned(),
            _ => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_table_is_one_and_belongs_to_one_action() {
        let map = Keymap::default();
        for row in BINDINGS {
            assert!(!row.keys.is_empty(), "{}", row.name);
            for key in row.keys {
                let chord = Chord::parse(key).unwrap_or_else(|| panic!("{key} is no key"));
                assert_eq!(chord.to_string(), *key);
                assert_eq!(map.action(chord), Some(row.action), "{key}");
            }
        }
        assert_eq!(SECTIONS.iter().map(|(_, rows)| rows).sum::<usize>(), BINDINGS.len());
    }

    #[test]
    fn keys_can_be_given_to_other_actions() {
        let of = |pairs: &[(&str, &[&str])]| {
            let owned = pairs
                .iter()
                .map(|(name, keys)| ((*name).to_owned(), keys.iter().map(|key| (*key).to_owned()).collect()));
            Keymap::with(&owned.collect::<Vec<_>>())
        };
        let map = of(&[("quit", &["f10"]), ("sort", &["q"])]).unwrap();
        assert_eq!(map.action(Chord::parse("q").unwrap()), Some(Action::Sort));
        assert_eq!(map.action(Chord::parse("f10").unwrap()), Some(Action::Quit));
        assert_eq!(map.action(Chord::parse("s").unwrap()), None);
        assert_eq!(of(&[("sorting", &["q"])]).unwrap_err(), KeyError::NoAction("sorting".to_owned()));
        assert_eq!(of(&[("sort", &["hyper-q"])]).unwrap_err(), KeyError::NoKey("hyper-q".to_owned()));
        let taken = KeyError::Taken { key: "y".to_owned(), by: "sort" };
        assert_eq!(of(&[("sort", &["y"]), ("help", &["y"])]).unwrap_err(), taken);
        assert_eq!(of(&[("quit", &[])]).unwrap_err(), KeyError::Unreachable("quit"));
    }
}
