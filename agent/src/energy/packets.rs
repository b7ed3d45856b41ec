// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that the kernel has received, from `/proc/net/softnet_stat`. The file has a line for each online CPU, whose first field is the
//! number of packets after GRO, in hexadecimal, modulo 2^32. Unlike other files below `/proc/net`, it covers all network namespaces.

use std::fs;

/// Counts packets since [`Self::start`].
#[derive(Default)]
pub(crate) struct PacketCounter {
    latest: Option<SoftnetCount>,
    total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SoftnetCount {
    cpus: usize,
    /// Packets of all CPUs, modulo 2^32.
    packets: u32,
}

impl PacketCounter {
    pub(crate) fn start() -> Self {
        let mut counter = Self::default();
        counter.read();
        counter
    }

    /// Packets since the start, without packets received between two readings if the number of online CPUs changed between them.
    pub(crate) fn read(&mut self) -> u64 {
        self.add(fs::read_to_string("/proc/net/softnet_stat").ok().as_deref().and_then(parse))
    }

    fn add(&mut self, now: Option<SoftnetCount>) -> u64 {
        if let (Some(before), Some(now)) = (self.latest, now)
            && before.cpus == now.cpus
        {
            self.total += u64::from(now.packets.wrapping_sub(before.packets));
        }
        self.latest = now.or(self.latest);
        self.total
    }
}

fn parse(text: &str) -> Option<SoftnetCount> {
    let mut reading = SoftnetCount { cpus: 0, packets: 0 };
    for line in text.lines() {
        let packets = u32::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
        reading.packets = reading.packets.wrapping_add(packets);
        reading.cpus += 1;
    }
    (reading.cpus > 0).then_some(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_all_cpus_add_up_even_if_a_counter_wraps_or_a_cpu_goes_offline() {
        let mut counter = PacketCounter::default();
        let mut read = |text: &str| counter.add(parse(text));
        assert_eq!(read("fffffff0 00000000\n00000010 00000000\n"), 0);
        assert_eq!(read("00000010 00000000\n00000018 00000000\n"), 0x28);
        assert_eq!(read("00000010 00000000\n"), 0x28);
        assert_eq!(read("00000020 00000000\n"), 0x38);
        assert_eq!(read("no number"), 0x38);
        assert_eq!(read("00000021"), 0x39);
    }

    #[test]
    fn the_kernel_has_the_file() {
        assert!(parse(&fs::read_to_string("/proc/net/softnet_stat").unwrap()).is_some());
    }
}
