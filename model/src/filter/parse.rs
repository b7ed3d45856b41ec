// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the text of a filter into terms, or into an error that describes the expected form.

use super::term::{NameKey, Term, Test, Word};
use super::value::{Amount, Comparison, Network, Pattern, Subject};
use crate::flow::class::FlowClass;
use crate::kernel::lifecycle::{Role, TcpState};

/// Why a filter could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (term `{term}`, column {position})")]
pub struct FilterError {
    /// The term with the error.
    pub term: String,
    /// Column at which the term begins, from 1.
    pub position: usize,
    /// The error, and the expected form.
    pub problem: String,
}

/// Keys that are followed by a colon, with a description of their values.
const KEYS: &[(&str, &str)] = &[
    ("peer", "an address or network, such as 10.0/16"),
    ("local", "an address or network, such as fd00::/8"),
    ("port", "a number from 0 to 65535"),
    ("proc", "a process name or pid"),
    ("iface", "an interface name"),
    ("netns", "the name of a namespace"),
    ("cgroup", "the path of a control group"),
    ("pod", "a Kubernetes namespace, pod and container, such as shop/web"),
    ("id", "the prefix of an id, in lower-case hexadecimal digits"),
    (
        "state",
        "established, syn_sent, syn_recv, fin_wait1, fin_wait2, close, close_wait, last_ack, closing, ...",
    ),
    ("role", "client or server"),
    ("class", "query, short or long"),
];

pub(super) fn terms(text: &str) -> Result<Vec<Term>, FilterError> {
    tokens(text)
        .map(|(position, token)| {
            term(token).map_err(|problem| FilterError { term: token.to_owned(), position, problem })
        })
        .collect()
}

/// The terms of a text, each with its column.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(move |token| {
        let before = token.as_ptr() as usize - text.as_ptr() as usize;
        (text[..before].chars().count() + 1, token)
    })
}

fn term(token: &str) -> Result<Term, String> {
    let (negated, rest) = token.strip_prefix('!').map_or((false, token), |rest| (true, rest));
    Ok(Term { negated, test: test(rest)? })
}

fn test(text: &str) -> Result<Test, String> {
    let Some(end) = text.find([':', '<', '>', '=']) else { return word(text) };
    let (key, rest) = text.split_at(end);
    if let Some(value) = rest.strip_prefix(':') {
        return keyed(key, value);
    }
    let comparison = Comparison::ALL.into_iter().find(|comparison| rest.starts_with(comparison.as_str()));
    let comparison = comparison.ok_or("compare with <, <=, >= or >; a name is given as key:value")?;
    compare(key, comparison, &rest[comparison.as_str().len()..])
}

fn word(text: &str) -> Result<Test, String> {
    Word::from_word(text).map(Test::Word).ok_or_else(|| {
        if KEYS.iter().any(|(key, _)| *key == text) {
            format!("needs a value: {text}:{}", value_form(text))
        } else if Subject::from_word(text).is_some() {
            format!("needs a comparison, such as {text}>{}", example_value(text))
        } else {
            unknown(text)
        }
    })
}

fn keyed(key: &str, value: &str) -> Result<Test, String> {
    if value.is_empty() && KEYS.iter().any(|(name, _)| *name == key) {
        return Err(format!("needs a value: {key}:VALUE, where VALUE is {}", value_form(key)));
    }
    let parsed = match key {
        "peer" => Network::parse(value).map(Test::Peer),
        "local" => Network::parse(value).map(Test::Local),
        "port" => value.parse().ok().map(Test::Port),
        "id" => {
            let is_prefix = value.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f' | '-'));
            is_prefix.then(|| Test::Id(value.to_owned()))
        }
        "state" => TcpState::from_word(value).map(Test::State),
        "role" => Role::from_word(value).map(Test::Role),
        "class" => FlowClass::from_word(value).map(Test::Class),
        _ if Subject::from_word(key).is_some() => {
            return Err(format!("compare it with <, <=, >= or >, such as {key}>{}", example_value(key)));
        }
        _ => {
            let name = NameKey::from_word(key).ok_or_else(|| unknown(key))?;
            Pattern::parse(value).map(|pattern| Test::Name(name, pattern))
        }
    };
    parsed.ok_or_else(|| format!("`{value}` is not {}", value_form(key)))
}

fn compare(key: &str, comparison: Comparison, number: &str) -> Result<Test, String> {
    let Some(subject) = Subject::from_word(key) else {
        let known = KEYS.iter().any(|(name, _)| *name == key);
        return Err(if known { format!("cannot be compared; write {key}:VALUE") } else { unknown(key) });
    };
    let expected = match subject {
        Subject::Rate => "a number of bit/s, such as 500k or 1.5M",
        Subject::Rtt => "a time with its unit, such as 800us, 20ms or 1s",
        Subject::Bytes => "a number of bytes, such as 500k or 1.5G",
        Subject::Subflows => "a number",
    };
    if number.is_empty() {
        let sign = comparison.as_str();
        return Err(format!("needs a value: {key}{sign}{}; it is {expected}", example_value(key)));
    }
    let quantity = Amount::parse(subject, number).ok_or_else(|| format!("`{number}` is not {expected}"))?;
    Ok(Test::Compare(subject, comparison, quantity))
}

/// Completions of a term that begins with `prefix` (without `!`): keys with their sign (`peer:`, `rate>`), words, and values of `state:`,
/// `role:` and `class:`. The result does not contain `prefix` itself.
pub fn completions(prefix: &str) -> Vec<String> {
    let values = |key: &str, words: &[&str]| words.iter().map(|word| format!("{key}:{word}")).collect();
    let all: Vec<String> = match prefix.split_once(':') {
        Some((key @ "state", _)) => values(key, TcpState::WORDS),
        Some((key @ "role", _)) => values(key, Role::WORDS),
        Some((key @ "class", _)) => values(key, FlowClass::WORDS),
        Some(_) => Vec::new(),
        None => {
            let keys = KEYS.iter().map(|(key, _)| format!("{key}:"));
            let subjects = Subject::WORDS.iter().map(|subject| format!("{subject}>"));
            keys.chain(subjects).chain(Word::WORDS.iter().map(|word| (*word).to_owned())).collect()
        }
    };
    all.into_iter().filter(|text| text.starts_with(prefix) && text != prefix).collect()
}

/// A description of the values of a key.
fn value_form(key: &str) -> &'static str {
    KEYS.iter().find(|(name, _)| *name == key).map_or("", |(_, values)| values)
}

fn example_value(subject: &str) -> &'static str {
    match subject {
        "rtt" => "20ms",
        "subflows" => "1",
        _ => "1M",
    }
}

fn unknown(word: &str) -> String {
    let keys = KEYS.iter().map(|(key, _)| *key);
    let all: Vec<&str> = keys.chain([Subject::WORDS, Word::WORDS].concat()).collect();
    let nearest = all.iter().map(|known| (strsim::levenshtein(word, known), *known)).min();
    match nearest {
        Some((steps, known)) if steps <= 2 && steps < known.len() => {
            format!("`{word}` is unknown; did you mean `{known}`?")
        }
        _ => format!("`{word}` is unknown; known are {}", all.join(", ")),
    }
}
