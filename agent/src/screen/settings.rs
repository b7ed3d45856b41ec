// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the live view: `$XDG_CONFIG_HOME/mpwatch/screen.toml` (`~/.config` by default), or the file in `MPWATCH_SCREEN_CONFIG`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mpwatch_tui::screen::{Keymap, Settings, Theme, column_names};
use toml::Value;

use super::characters::is_ascii;
use crate::config::{bad_value, not_toml, suggest, unknown_key, unreadable};
use crate::error::Failure;

/// Environment variable with the path of the file. Empty: no file is read, not even the default file.
const VARIABLE: &str = "MPWATCH_SCREEN_CONFIG";

/// All keys. Another key is an error, as in the daemon's file. `keys` is a table of actions.
const KEYS: [&str; 8] = ["theme", "characters", "rates", "energy", "sort", "show", "hide", "keys"];

/// Reads the settings. Without a file, all settings have their defaults.
pub(crate) fn load() -> Result<Settings, Failure> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let mut settings = match named.clone().or_else(default_path) {
        None => defaults(),
        Some(path) if path.as_os_str().is_empty() => defaults(),
        Some(path) => match fs::read_to_string(&path) {
            Ok(text) => parse(&path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => defaults(),
            Err(error) => return Err(unreadable(&path, &error)),
        },
    };
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        settings.theme = Theme::Mono;
    }
    Ok(settings)
}

fn defaults() -> Settings {
    Settings { ascii: is_ascii(), ..Settings::default() }
}

fn default_path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let configuration =
        folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    Some(configuration.join("mpwatch/screen.toml"))
}

/// Reads the text of a file of settings. `path` is for messages.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Settings, Failure> {
    let mut settings = defaults();
    let origin = format!("file {}", path.display());
    let table: toml::Table = text.parse().map_err(|error| not_toml(path, &error))?;
    for (name, value) in &table {
        let Some(key) = KEYS.into_iter().find(|known| known == name) else {
            let hint = nearest(name, &KEYS);
            return Err(Failure::usage(unknown_key(&origin, name, &hint)));
        };
        set(&mut settings, key, value)
            .map_err(|reason| Failure::usage(bad_value(&origin, key, &value.to_string(), &reason)))?;
    }
    Ok(settings)
}

fn set(settings: &mut Settings, key: &str, value: &Value) -> Result<(), String> {
    match key {
        "theme" => settings.theme = theme(value)?,
        "characters" => settings.ascii = one_of(value, ["utf-8", "ascii"])? == 1,
        "rates" => settings.units.bytes = one_of(value, ["bits", "bytes"])? == 1,
        "energy" => settings.units.watt_hours = one_of(value, ["joules", "watt-hours"])? == 1,
        "sort" => settings.sort = Some(column(value)?),
        "keys" => settings.keys = keys(value)?,
        _ => {
            let columns = value.as_array().ok_or("use a list of columns, for example [\"netns\"]")?;
            for name in columns {
                settings.columns.push((column(name)?, key == "show"));
            }
        }
    }
    Ok(())
}

fn nearest(wrong: &str, names: &[&str]) -> String {
    suggest(wrong, names).unwrap_or_else(|| format!("there are {}", names.join(", ")))
}

fn theme(value: &Value) -> Result<Theme, String> {
    let found = value.as_str().and_then(Theme::from_word);
    found.ok_or_else(|| format!("use one of {}", Theme::WORDS.join(", ")))
}

fn one_of(value: &Value, words: [&str; 2]) -> Result<usize, String> {
    let found = value.as_str().and_then(|text| words.iter().position(|word| *word == text));
    found.ok_or_else(|| format!("use {} or {}", words[0], words[1]))
}

fn column(value: &Value) -> Result<String, String> {
    let name = value.as_str().ok_or("use the name of a column in quotes")?;
    let names = column_names();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("there is no column `{name}`; {}", nearest(name, &names)))
}

fn keys(value: &Value) -> Result<Keymap, String> {
    let table = value.as_table().ok_or("use a table of actions, for example quit = [\"q\", \"f10\"]")?;
    let wrong = || "use a list of keys, for example [\"q\", \"f10\"]".to_owned();
    let mut remapped = Vec::new();
    for (action, keys) in table {
        let keys = keys.as_array().ok_or_else(wrong)?;
        let keys: Option<Vec<String>> = keys.iter().map(|key| key.as_str().map(str::to_owned)).collect();
        remapped.push((action.clone(), keys.ok_or_else(wrong)?));
    }
    Keymap::with(&remapped)
}

#[cfg(test)]
mod tests {
    use mpwatch_tui::screen::{Action, Chord};

    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        parse(Path::new("screen.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_can_be_set() {
        let text = "theme = 'light'\ncharacters = 'ascii'\nrates = 'bytes'\nenergy = 'watt-hours'\nsort = 'srtt_seconds'\nshow = ['netns']\n\
                    hide = ['share']\n[keys]\nquit = ['f10']";
        let mut settings = read(text).unwrap();
        settings.columns.sort();
        assert_eq!(
            (settings.theme, settings.ascii, settings.units.bytes, settings.units.watt_hours),
            (Theme::Light, true, true, true)
        );
        assert_eq!(settings.sort.as_deref(), Some("srtt_seconds"));
        assert_eq!(settings.columns, [("netns".to_owned(), true), ("share".to_owned(), false)]);
        assert_eq!(settings.keys.action(Chord::parse("f10").unwrap()), Some(Action::Quit));
    }

    #[test]
    fn errors_name_valid_values() {
        for (text, words) in [
            ("thema = 'dark'", "did you mean `theme`?"),
            ("theme = 'pink'", "dark, light, colour-blind, mono"),
            ("rates = 3", "bits or bytes"),
            ("characters = 'latin1'", "utf-8 or ascii"),
            ("sort = 'srt_seconds'", "did you mean `srtt_seconds`?"),
            ("[keys]\nquti = ['x']", "no action `quti`"),
            ("[keys]\nquit = 'x'", "a list of keys"),
            ("theme = ", "is not TOML"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
