// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutexes that outlive a panic: their values are replaced as a whole, so a panic leaves none half written.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
