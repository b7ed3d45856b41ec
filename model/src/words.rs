// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enumerations with a word for each value: its name in JSON, in the store, in filters, as a label and on the command line.

/// Declares an enumeration with `= "word"` after each value; `ALL`, `WORDS`, `as_str`, `from_word` and `next` follow from it.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $value:ident = $word:tt,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$doc])* $value,)* }

        #[allow(dead_code, reason = "not every enumeration needs all of these")]
        impl $name {
            /// All values, in the order of their declaration.
            $vis const ALL: [Self; Self::WORDS.len()] = [$(Self::$value),*];
            /// The words of all values.
            $vis const WORDS: &[&str] = &[$($word),*];

            /// Its word.
            $vis const fn as_str(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            /// The next value; after the last value, the first.
            #[must_use]
            $vis fn next(self) -> Self {
                Self::ALL[(self as usize + 1) % Self::ALL.len()]
            }

            /// The value with this word.
            $vis fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == word)
            }
        }
    };
}

/// As [`words!`], for an enumeration that is part of the JSON.
macro_rules! json_words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $value:ident = $word:tt,)* }) => {
        $crate::words! {
            $(#[$meta])*
            #[derive(Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
            $vis enum $name { $($(#[$doc])* #[serde(rename = $word)] $value = $word,)* }
        }
    };
}
pub(crate) use json_words;
