// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers the congestion control `mptcpd`, and explains a failure to users.

use mpwatch_ebpf::congestion::CongestionError;
pub use mpwatch_ebpf::congestion::{NAME, Registration};
use mpwatch_ebpf::support::SupportError;
use mpwatch_ebpf::tracer::TracerError;

use super::kernel::ControlError;

/// Registers `mptcpd` until the value is dropped. Fails if `mptcpd` is already registered, or a kernel feature or capability is missing.
pub fn register() -> Result<Registration, ControlError> {
    Registration::new().map_err(|error| explain(&error))
}

/// Appends advice to the message of an error.
pub fn explain(error: &CongestionError) -> ControlError {
    let (variant, advice): (fn(String) -> ControlError, &str) = match error {
        CongestionError::Unsupported(_) => (
            ControlError::Unsupported,
            "boot a kernel with CONFIG_BPF_JIT=y and CONFIG_DEBUG_INFO_BTF=y; `mpwatch doctor` checks this",
        ),
        CongestionError::Registered => (
            ControlError::Failed,
            "another `mpwatch control congestion` or a daemon with control.congestion = true registered it. One registration serves all network namespaces. Before Linux 6.4, it stays registered until the next boot if that process was killed",
        ),
        CongestionError::Kernel(TracerError::Support(SupportError::NoBtf { .. })) => {
            (ControlError::Unsupported, "boot a kernel with BTF; `mpwatch doctor` checks this")
        }
        CongestionError::Kernel(TracerError::Permission { .. }) => {
            return ControlError::Permission(error.to_string());
        }
        CongestionError::Kernel(_) => (
            ControlError::Failed,
            "`mpwatch doctor` checks the features of the kernel; MPWATCH_LIBBPF_LOG=1 prints libbpf's messages",
        ),
    };
    variant(format!("{error}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_kind_and_advice() {
        let lacks = explain(&CongestionError::Unsupported(vec!["tcp_slow_start".to_owned()]));
        assert!(matches!(lacks, ControlError::Unsupported(_)));
        assert!(lacks.to_string().contains("it has no tcp_slow_start; boot a kernel"), "{lacks}");
        let twice = explain(&CongestionError::Registered);
        assert!(matches!(twice, ControlError::Failed(_)));
        assert!(twice.to_string().contains("registered already; another `mpwatch"), "{twice}");
        let denied = explain(&TracerError::Permission { what: "load it".to_owned() }.into());
        assert!(matches!(denied, ControlError::Permission(_)));
    }
}
