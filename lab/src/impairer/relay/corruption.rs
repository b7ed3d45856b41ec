// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the payload of a TCP segment as a middlebox does: TCP's checksum stays correct, so only MPTCP's own checksum (RFC 8684 section
//! 3.3.1) detects the change. No I/O.

const ETHERNET: usize = 14;
const CHECKSUM: usize = 16;

/// Counts segments with payload and changes the payload of one segment.
#[derive(Debug, Default)]
pub(super) struct Corrupter {
    passed: u32,
}

impl Corrupter {
    /// Changes the frame if it is the `nth` segment with payload, counted from 1. Returns whether the frame was changed.
    pub(super) fn pass(&mut self, frame: &mut [u8], nth: u32) -> bool {
        let Some((tcp, payload)) = segment(frame).filter(|_| self.passed < nth) else { return false };
        self.passed += 1;
        if self.passed < nth {
            return false;
        }
        corrupt(&mut frame[tcp..], payload - tcp);
        true
    }
}

/// Offsets of the TCP header and of the payload in a frame. `None`: the frame is not TCP, or has less than two bytes of payload.
fn segment(frame: &[u8]) -> Option<(usize, usize)> {
    const TCP: u8 = 6;
    let number = |at: usize| Some(usize::from(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?)));
    let (tcp, end, protocol) = match frame.get(12..14)? {
        [0x08, 0x00] => {
            (ETHERNET + usize::from(frame.get(ETHERNET)? & 15) * 4, ETHERNET + number(16)?, frame.get(23)?)
        }
        [0x86, 0xdd] => (ETHERNET + 40, ETHERNET + 40 + number(18)?, frame.get(20)?),
        _ => return None,
    };
    let payload = tcp + usize::from(frame.get(tcp + 12)? >> 4) * 4;
    (*protocol == TCP && end <= frame.len() && payload + 2 <= end).then_some((tcp, payload))
}

/// Changes the first 16-bit word of the payload, and TCP's checksum accordingly (RFC 1624, equation 3).
fn corrupt(tcp: &mut [u8], payload: usize) {
    let word = |tcp: &[u8], at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let old = word(tcp, payload);
    // Does not invert all bits: in ones' complement 0 equals 0xffff, so MPTCP's checksum would not detect the change of 0 to 0xffff.
    let new = old ^ 0x0101;
    let checksum = !add(add(!word(tcp, CHECKSUM), !old), new);
    tcp[payload..payload + 2].copy_from_slice(&new.to_be_bytes());
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Ones' complement addition.
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 frame without options, with this payload. The checksum leaves out the pseudo header, which does not change.
    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + 40];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[ETHERNET] = 0x45;
        frame[16..18].copy_from_slice(&u16::try_from(40 + payload.len()).unwrap().to_be_bytes());
        frame[23] = 6;
        frame[ETHERNET + 20 + 12] = 5 << 4;
        frame.extend_from_slice(payload);
        let checksum = !sum(&frame[ETHERNET + 20..]);
        frame[ETHERNET + 36..ETHERNET + 38].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    fn sum(bytes: &[u8]) -> u16 {
        bytes.chunks(2).map(|word| u16::from_be_bytes([word[0], word[1]])).fold(0, add)
    }

    #[test]
    fn payload_changes_and_the_checksum_stays_right() {
        for payload in [[0, 0, 1, 2], [0xff, 0xff, 3, 4], [0x12, 0x34, 0, 0], [0xfe, 0xfe, 0, 1]] {
            let mut changed = frame(&payload);
            assert!(Corrupter::default().pass(&mut changed, 1));
            assert_ne!(changed, frame(&payload));
            assert_eq!(sum(&changed[ETHERNET + 20..]), 0xffff, "{payload:?}");
            assert_ne!(sum(&changed[ETHERNET + 40..]), sum(&payload), "MPTCP's checksum shows it");
        }
    }

    #[test]
    fn one_segment_with_payload_is_changed() {
        let mut corrupter = Corrupter::default();
        let mut changed = |payload: &[u8], nth| corrupter.pass(&mut frame(payload), nth);
        assert_eq!([(); 6].map(|()| changed(&[1, 2, 3, 4], 3)), [false, false, true, false, false, false]);
        assert_eq!([(); 6].map(|()| changed(&[], 9)), [false; 6], "without payload");
        assert_eq!([(); 6].map(|()| changed(&[1, 2], 0)), [false; 6]);
    }
}
