// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap of the C library, which Rust and SQLite use. The module is in this crate because it needs `unsafe`.

/// Returns free pages of the heap to the kernel. glibc by itself returns only pages at the end of the heap, where a small allocation is almost
/// always in use: after a burst of connections, most of the heap was free and stayed resident. Costs a few milliseconds for a heap of 100 MB.
/// Does nothing with other C libraries, which return memory by themselves.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, has no preconditions, and locks the heap itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(target_env = "gnu")]
#[cfg(test)]
mod tests {
    fn anonymous_kb() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn pages_between_allocations_in_use_are_returned() {
        let burst: Vec<Vec<u8>> = (0..3_000).map(|_| vec![1; 16 << 10]).collect();
        let kept: Vec<Vec<u8>> =
            burst.into_iter().enumerate().filter_map(|(n, block)| (n % 50 == 49).then_some(block)).collect();
        let before = anonymous_kb();
        super::trim();
        let after = anonymous_kb();
        assert!(after + 20_000 < before, "{before} kB, then {after} kB");
        assert_eq!(kept.len(), 60);
    }
}
