// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of actions and their keys, from which key bindings, footer, help and configuration names are derived.

use std::fmt;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A row of the table of actions.
pub struct Binding {
    /// The action.
    pub action: Action,
    /// The heading under which the help lists the action.
    pub section: &'static str,
    /// The action's name in the configuration.
    pub name: &'static str,
    /// The default keys.
    pub keys: &'static [&'static str],
    /// The word in the footer. `None`: the footer does not list the action.
    pub footer: Option<&'static str>,
    /// The description in the help, in one phrase.
    pub help: &'static str,
}

/// Declares the actions: name in the configuration, default keys, word in the footer, phrase in the help.
macro_rules! actions {
    ($($section:literal { $($action:ident $name:literal [$($key:literal)+] $footer:expr, $help:literal;)+ })+) => {
        /// The effect of a key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the table of actions describes each")]
        pub enum Action { $($($action,)+)+ }

        /// All bindings, in the order of the help.
        pub static BINDINGS: &[Binding] = &[$($(Binding {
            action: Action::$action,
            section: $section,
            name: $name,
            keys: &[$($key),+],
            footer: $footer,
            help: $help,
        },)+)+];
    };
}

actions! {
    "Move" {
        Up "up" ["up" "k"] None, "one row up";
        Down "down" ["down" "j"] None, "one row down";
        PageUp "page_up" ["pgup" "ctrl-u"] None, "one page up";
        PageDown "page_down" ["pgdn" "ctrl-d"] None, "one page down";
        First "first" ["g" "home"] None, "first row";
        Last "last" ["G" "end"] None, "last row";
        Open "open" ["enter"] Some("detail"), "open the connection; in a list: choose";
        Back "back" ["esc" "backspace"] None, "close the open view, else clear the filter";
        Fold "fold" ["left" "h"] None, "hide the subflows of a connection";
        Unfold "unfold" ["right" "l"] None, "show the subflows of a connection";
        FoldAll "fold_all" ["e"] None, "hide or show the subflows of all connections";
    }
    "Views" {
        Connections "connections" ["1"] None, "connections and their subflows";
        Paths "paths" ["2"] None, "paths: interfaces and pairs of addresses";
        Energy "energy" ["3"] None, "energy: zones and top consumers";
        Peers "peers" ["4"] None, "peers, processes, namespaces, control groups";
        Health "health" ["5"] None, "mpwatch itself: losses, hooks, overhead";
        NextView "next_view" ["tab"] Some("view"), "next view";
        PreviousView "previous_view" ["shift-tab"] None, "previous view";
        Grouping "grouping" ["p"] None, "peers view: by peer, process, namespace, control group";
    }
    "Find and sort" {
        Filter "filter" ["/"] Some("filter"), "filter: peer:10.0/16 proc:nginx rate>1M shared ...";
        Search "search" ["f"] None, "find a row by its text";
        NextHit "next_hit" ["n"] None, "next match";
        PreviousHit "previous_hit" ["N"] None, "previous match";
        NextProblem "next_problem" ["!"] None, "next connection with a problem";
        Sort "sort" ["s"] Some("sort"), "choose the column to sort by";
        Reverse "reverse" ["r"] None, "reverse the order";
        Columns "columns" ["c"] None, "show or hide columns";
        Closed "closed" ["o"] None, "show closed connections: recent, all, none";
    }
    "Time" {
        Pause "pause" ["space"] Some("pause"), "pause the screen; tracing continues";
        StepBack "step_back" ["["] None, "pause and go back one snapshot";
        StepForward "step_forward" ["]"] None, "go forward one snapshot";
        Slower "slower" ["-"] None, "longer interval; slower replay";
        Faster "faster" ["+" "="] None, "shorter interval; faster replay";
    }
    "Show" {
        Bits "bits" ["b"] None, "show rates in bit/s or B/s";
        EnergyUnit "energy_unit" ["u"] None, "show energy in joules or watt-hours";
        Mask "mask" ["z"] None, "privacy: hide addresses, processes and hosts";
        Theme "theme" ["t"] None, "next theme: dark, light, colour-blind, mono";
        Export "export" ["x"] Some("export"), "export the selection as JSON, CSV or Markdown";
    }
    "Program" {
        Help "help" ["?" "f1"] Some("help"), "this help";
        Redraw "redraw" ["ctrl-l"] None, "redraw the screen";
        Suspend "suspend" ["ctrl-z"] None, "suspend; fg resumes";
        Quit "quit" ["q" "ctrl-c"] Some("quit"), "quit";
        QuitKeep "quit_keep" ["Q"] None, "quit and leave the screen in the terminal";
    }
}

/// A key with its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    code: KeyCode,
    control: bool,
}

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
    /// Parses `q`, `G`, `ctrl-c`, `f1`, `space`, `shift-tab` ...
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

    pub(crate) fn from_event(event: KeyEvent) -> Self {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        Self { code: event.code, control }
    }

    /// The terminal event of this key.
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

/// The bindings in use.
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
    /// The default bindings, changed by `remapped`. A remapped key loses its default action. It is an error to bind a key to two actions.
    pub fn with(remapped: &[(String, Vec<String>)]) -> Result<Self, String> {
        let mut map = Self::default();
        let mut given: Vec<(Chord, &'static Binding)> = Vec::new();
        for (name, keys) in remapped {
            let row = BINDINGS.iter().find(|row| row.name == name);
            let row = row.ok_or_else(|| format!("there is no action `{name}`"))?;
            map.bound.retain(|(_, action)| *action != row.action);
            for key in keys {
                let chord = Chord::parse(key).ok_or_else(|| {
                    format!("`{key}` is not a key; examples: q, G, ctrl-c, f1, space, pgdn, shift-tab")
                })?;
                if let Some((_, other)) = given.iter().find(|(taken, _)| *taken == chord) {
                    return Err(format!("the key `{key}` is already bound to `{}`", other.name));
                }
                given.push((chord, row));
            }
        }
        map.bound.retain(|(chord, _)| given.iter().all(|(taken, _)| taken != chord));
        map.bound.extend(given.iter().map(|(chord, row)| (*chord, row.action)));
        for (action, name) in [(Action::Quit, "quit"), (Action::Help, "help")] {
            if map.keys(action).is_empty() {
                return Err(format!("`{name}` needs a key"));
            }
        }
        Ok(map)
    }

    /// The action of a key. `None`: the key has no action.
    pub fn action(&self, chord: Chord) -> Option<Action> {
        self.bound.iter().find(|(bound, _)| *bound == chord).map(|(_, action)| *action)
    }

    /// The keys of an action.
    pub fn keys(&self, action: Action) -> Vec<String> {
        self.bound.iter().filter(|(_, bound)| *bound == action).map(|(chord, _)| chord.to_string()).collect()
    }

    pub(crate) fn key(&self, action: Action) -> String {
        self.keys(action).into_iter().next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_table_is_valid_and_belongs_to_one_action() {
        let map = Keymap::default();
        for row in BINDINGS {
            assert!(!row.keys.is_empty(), "{}", row.name);
            for key in row.keys {
                let chord = Chord::parse(key).unwrap_or_else(|| panic!("{key} is not a key"));
                assert_eq!(chord.to_string(), *key);
                assert_eq!(map.action(chord), Some(row.action), "{key}");
            }
        }
    }

    #[test]
    fn keys_can_be_bound_to_other_actions() {
        let keymap = |pairs: &[(&str, &[&str])]| {
            let owned = pairs
                .iter()
                .map(|(name, keys)| ((*name).to_owned(), keys.iter().map(|key| (*key).to_owned()).collect()));
            Keymap::with(&owned.collect::<Vec<_>>())
        };
        let map = keymap(&[("quit", &["f10"]), ("sort", &["q"])]).unwrap();
        assert_eq!(map.action(Chord::parse("q").unwrap()), Some(Action::Sort));
        assert_eq!(map.action(Chord::parse("f10").unwrap()), Some(Action::Quit));
        assert_eq!(map.action(Chord::parse("s").unwrap()), None);
        let error = |pairs: &[(&str, &[&str])], words: &str| {
            assert!(keymap(pairs).unwrap_err().contains(words), "{words}");
        };
        error(&[("sorting", &["q"])], "no action `sorting`");
        error(&[("sort", &["hyper-q"])], "`hyper-q` is not a key");
        error(&[("sort", &["y"]), ("help", &["y"])], "`y` is already bound to `sort`");
        error(&[("quit", &[])], "`quit` needs a key");
    }
}
