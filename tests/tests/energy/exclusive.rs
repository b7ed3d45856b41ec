// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock for tests that measure the whole machine.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Only one test at a time holds the returned guard.
pub(crate) fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}
