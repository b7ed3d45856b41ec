// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host-wide counters of the BPF programs.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::abi;
use crate::error::{TracerError, bpf_error};

/// Reads the counters. The result returns the sum over all CPUs of a counter of `enum mpw_counter`.
pub(crate) fn read(map: &MapHandle) -> Result<impl Fn(u32) -> u64, TracerError> {
    let per_cpu = map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let per_cpu = per_cpu.map_err(bpf_error("read the counters"))?;
    let mut sums = [0; abi::MPW_COUNTERS as usize];
    for cpu in per_cpu.iter().flatten() {
        let Ok(counters) = bytemuck::try_pod_read_unaligned::<abi::mpw_counters>(cpu) else { continue };
        sums.iter_mut().zip(counters.values).for_each(|(sum, value)| *sum += value);
    }
    Ok(move |counter| sums[counter as usize])
}
