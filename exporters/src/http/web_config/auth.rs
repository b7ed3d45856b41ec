// SPDX-License-Identifier: MIT OR Apache-2.0
//! User names and passwords. bcrypt takes tens of milliseconds, so it runs on a separate thread, one at a time, and matches are cached.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest;
use tokio::sync::Semaphore;

/// Verified instead for an unknown user, so that the response time does not reveal which users exist.
const UNKNOWN_USER_HASH: &str = "$2b$10$5s0x6UdLD1iy4Vc/f1TdSO6lHx3dNqDLsJ3KeBcmq3tJOoNzJ1g0e";
/// Maximum number of cached passwords: one for each user, and more after changes.
const MAX_CACHED: usize = 100;

/// The users and their password hashes.
pub(in crate::http) struct Users {
    hashes: BTreeMap<String, String>,
    /// Digests of user names, hashes and passwords that matched.
    verified: Mutex<HashSet<[u8; 32]>>,
    /// Allows one verification at a time.
    permit: Semaphore,
}

impl Users {
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Self, String> {
        for (user, hash) in &hashes {
            if user.contains(':') {
                return Err(format!(
                    "basic_auth_users: `{user}` contains a colon, which basic auth does not allow"
                ));
            }
            if let Err(error) = hash.parse::<bcrypt::HashParts>() {
                return Err(format!(
                    "basic_auth_users: the password of `{user}` is not a bcrypt hash: {error}"
                ));
            }
        }
        Ok(Self { hashes, verified: Mutex::default(), permit: Semaphore::new(1) })
    }

    /// Whether an `Authorization` header has the name and password of a user.
    pub(in crate::http) async fn allow(&self, header: Option<&str>) -> bool {
        let Some((user, password)) = header.and_then(decode) else { return false };
        let hash = self.hashes.get(&user).cloned();
        let is_known = hash.is_some();
        let hash = hash.unwrap_or_else(|| UNKNOWN_USER_HASH.to_owned());
        let digest = digest_of(&[&user, &hash, &password]);
        if self.verified().contains(&digest) {
            return true;
        }
        let Ok(_permit) = self.permit.acquire().await else { return false };
        let verification =
            tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash).unwrap_or(false));
        let is_correct = is_known && verification.await.unwrap_or(false);
        if is_correct {
            let mut verified = self.verified();
            if verified.len() >= MAX_CACHED {
                verified.clear();
            }
            verified.insert(digest);
        }
        is_correct
    }

    fn verified(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn invalid_hashes_and_user_names_are_rejected() {
        let users = |user: &str, hash: &str| Users::new(BTreeMap::from([(user.to_owned(), hash.to_owned())]));
        assert!(users("a", UNKNOWN_USER_HASH).is_ok());
        assert!(users("a", "secret").is_err());
        assert!(users("a:b", UNKNOWN_USER_HASH).is_err());
    }

    #[test]
    fn the_authorization_header_is_decoded() {
        assert_eq!(decode("Basic YTpiOmM="), Some(("a".to_owned(), "b:c".to_owned())));
        for invalid in ["Basic", "Bearer YTpiOmM=", "Basic ///", "Basic YQ==", "Basic \u{fc}"] {
            assert_eq!(decode(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn different_parts_with_the_same_concatenation_have_different_digests() {
        assert_ne!(digest_of(&["ab", "c"]), digest_of(&["a", "bc"]));
    }
}
