// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enumerations with a word for each value. The word is used in JSON, the store, filters, labels and the command line.

/// Declares an enumeration with `= "word"` after each value; the macro defines `ALL`, `WORDS`, `as_str`, `from_word` and `next`.
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

            /// The word of the value.
            $vis const fn as_str(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            /// The next value; after the last value, the first.
            #[must_use]
            $vis fn next(self) -> Self {
                Self::ALL[(self as usize + 1) % Self::ALL.len()]
            }

            /// The value with this word. `None`: there is no such value.
            $vis fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == word)
            }
        }
    };
}

/// Like [`words!`], for an enumeration that is used in JSON. A text after `=>` describes the value.
macro_rules! json_words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $value:ident = $word:tt,)* }) => {
        $crate::words! {
            $(#[$meta])*
            #[derive(Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
            $vis enum $name { $($(#[$doc])* #[serde(rename = $word)] $value = $word,)* }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $value:ident = $word:tt => $text:literal,)* }) => {
        json_words! { $(#[$meta])* $vis enum $name { $($(#[$doc])* $value = $word,)* } }

        impl $name {
            /// A short description of the value.
            $vis const fn description(self) -> &'static str {
                [$($text),*][self as usize]
            }
        }
    };
}
pub(crate) use json_words;
