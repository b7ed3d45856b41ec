// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and passwords. A password is hashed once (bcrypt takes a CPU tens of milliseconds), on a thread beside the server and one at a
//! time; one that was right is known again by a digest.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest;
use tokio::sync::Semaphore;

/// Compared with where there is no such user, so that the time taken does not tell.
const NOBODY: &str = "$2b$10$5s0x6UdLD1iy4Vc/f1TdSO6lHx3dNqDLsJ3KeBcmq3tJOoNzJ1g0e";
/// Right passwords that are remembered; one for each user, and more after changes.
const REMEMBERED: usize = 100;

/// Those who may read.
pub(in crate::http) struct Users {
    hashes: BTreeMap<String, String>,
    right: Mutex<HashSet<[u8; 32]>>,
    /// One password at a time is hashed.
    turn: Arc<Semaphore>,
}

impl Users {
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Self, String> {
        for (user, hash) in &hashes {
            if user.contains(':') {
                return Err(format!(
                    "basic_auth_users: `{user}` holds a colon, and no browser could send it"
                ));
            }
            if let Err(error) = hash.parse::<bcrypt::HashParts>() {
                return Err(format!("basic_auth_users: what `{user}` has is no bcrypt hash: {error}"));
            }
        }
        Ok(Self { hashes, right: Mutex::default(), turn: Arc::new(Semaphore::new(1)) })
    }

    /// Whether the value of an `Authorization` header names a user with the right password.
    pub(in crate::http) async fn allow(&self, header: Option<&str>) -> bool {
        let Some((user, password)) = header.and_then(decode) else { return false };
        let hash = self.hashes.get(&user).cloned();
        let is_known = hash.is_some();
        let hash = hash.unwrap_or_else(|| NOBODY.to_owned());
        let digest = digest_of(&[&user, &hash, &password]);
        if self.right.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest) {
            return true;
        }
        let Ok(_turn) = self.turn.acquire().await else { return false };
        let compared = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash).unwrap_or(false));
        let is_right = is_known && compared.await.unwrap_or(false);
        if is_right {
            let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
            if right.len() >= REMEMBERED {
                right.clear();
            }
            right.insert(digest);
        }
        is_right
    }
}

fn decode(header: &str) -> Option<(String, String)> {
    let (scheme, value) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(value.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn digest_of(parts: &[&str]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashes_that_can_be_compared_are_taken() {
        let users = |user: &str, hash: &str| Users::new(BTreeMap::from([(user.to_owned(), hash.to_owned())]));
        assert!(users("a", NOBODY).is_ok());
        assert!(users("a", "secret").is_err());
        assert!(users("a:b", NOBODY).is_err());
    }

    #[test]
    fn a_header_is_read_as_browsers_write_it() {
        assert_eq!(decode("Basic YTpiOmM="), Some(("a".to_owned(), "b:c".to_owned())));
        for wrong in ["Basic", "Bearer YTpiOmM=", "Basic ///", "Basic YQ==", "Basic \u{fc}"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        assert_ne!(digest_of(&["ab", "c"]), digest_of(&["a", "bc"]));
    }
}
