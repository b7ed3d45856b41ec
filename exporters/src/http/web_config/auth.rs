// SPDX-License-Identifier: MIT OR Apache-2.0
//! User names and passwords. bcrypt takes tens of milliseconds, so passwords are checked on a separate thread, one at a time, and correct
//! passwords are cached. The limit on clients bounds the queue.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest;
use tokio::sync::Semaphore;

/// Maximum number of cached passwords. Each user has one, and each change of a password adds one.
const MAX_CACHED: usize = 100;

pub(in crate::http) struct Users {
    hashes: BTreeMap<String, String>,
    /// Digests of user names, hashes and passwords that matched.
    verified: Mutex<HashSet<[u8; 32]>>,
    /// Allows one check at a time.
    permit: Arc<Semaphore>,
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
        Ok(Self { hashes, verified: Mutex::default(), permit: Arc::new(Semaphore::new(1)) })
    }

    /// Whether an `Authorization` header has the name and password of a user. If the name is unknown, the password is compared with the hash of
    /// an existing user, always the same user for the same name. The response time therefore does not reveal which users exist.
    pub(in crate::http) async fn allow(&self, header: Option<&str>) -> bool {
        let Some((user, password)) = header.and_then(decode) else { return false };
        let known = self.hashes.get(&user);
        let place = usize::from(digest_of(&[&user])[0]) % self.hashes.len().max(1);
        let Some(hash) = known.or_else(|| self.hashes.values().nth(place)).cloned() else { return false };
        let is_known = known.is_some();
        let digest = digest_of(&[&user, &hash, &password]);
        if self.verified().contains(&digest) {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.permit).acquire_owned().await else { return false };
        // The thread holds the permit until the check ends, even if the client has left. After a wrong password it sleeps as long as the check
        // took, so that guessing uses at most half a CPU.
        let check = move || {
            let began = Instant::now();
            let is_correct = bcrypt::verify(password, &hash).unwrap_or(false) && is_known;
            if !is_correct {
                std::thread::sleep(began.elapsed());
            }
            drop(permit);
            is_correct
        };
        let is_correct = tokio::task::spawn_blocking(check).await.unwrap_or(false);
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
    use std::time::Duration;

    use super::*;

    const HASH: &str = "$2b$10$5s0x6UdLD1iy4Vc/f1TdSO6lHx3dNqDLsJ3KeBcmq3tJOoNzJ1g0e";

    #[test]
    fn unknown_users_are_checked_too_and_one_password_at_a_time_even_if_clients_leave() {
        let users = Users::new(BTreeMap::from([("a".to_owned(), HASH.to_owned())])).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for user in ["a", "nobody"] {
                let header = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:wrong")));
                let answer = tokio::time::timeout(Duration::from_millis(1), users.allow(Some(&header)));
                assert!(answer.await.is_err(), "{user}: an answer without a check");
                assert_eq!(users.permit.available_permits(), 0, "{user}: the next check may start");
                drop(users.permit.acquire().await.unwrap());
            }
        });
    }

    #[test]
    fn invalid_hashes_and_user_names_are_rejected() {
        let users = |user: &str, hash: &str| Users::new(BTreeMap::from([(user.to_owned(), hash.to_owned())]));
        assert!(users("a", HASH).is_ok());
        assert!(users("a", "secret").is_err());
        assert!(users("a:b", HASH).is_err());
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
