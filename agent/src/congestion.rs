// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers the congestion control `mptcpd`, for `control congestion` and the daemon, and explains in words for users what failed.

use mpwatch_ebpf::congestion::{CongestionError, NAME, Registration};
use mpwatch_ebpf::support::SupportError;
use mpwatch_ebpf::tracer::TracerError;

use crate::error::{Failure, KERNEL, PERMISSION, RUNTIME};

/// Registers it until the value is dropped.
pub(crate) fn register() -> Result<Registration, Failure> {
    Registration::new().map_err(|error| explain(&error))
}

/// What failed, why, and what to do.
pub(crate) fn explain(error: &CongestionError) -> Failure {
    let (code, advice) = match error {
        CongestionError::Unsupported(_) => (
            KERNEL,
            "boot a kernel with CONFIG_BPF_JIT=y and CONFIG_DEBUG_INFO_BTF=y; `mpwatch doctor` checks this",
        ),
        CongestionError::Registered => (
            RUNTIME,
            "another `mpwatch control congestion` or a daemon with control.congestion = true registered it, and one is enough: sockets of all namespaces can select it. On Linux before 6.4 it also stays if its process was killed, until the next boot",
        ),
        CongestionError::Kernel(TracerError::Support(SupportError::NoBtf { .. })) => {
            (KERNEL, "boot a kernel with BTF; `mpwatch doctor` checks this")
        }
        CongestionError::Kernel(TracerError::Permission { .. }) => {
            return Failure { code: PERMISSION, message: error.to_string() };
        }
        CongestionError::Kernel(_) => (
            RUNTIME,
            "`mpwatch doctor` checks what the kernel needs; MPWATCH_LIBBPF_LOG=1 shows its messages",
        ),
    };
    Failure { code, message: format!("{error}; {advice}") }
}

/// What was done, and how a socket selects it.
pub(crate) fn usage(registration: &Registration) -> String {
    let end = if registration.ends_with_process() {
        "Ctrl-C unregisters it; sockets that use it keep it until they close."
    } else {
        "Ctrl-C or SIGTERM unregisters it; sockets that use it keep it until they close. This kernel (before 6.4) does not unregister it if this \
         process is killed."
    };
    format!(
        "The congestion control `{NAME}` is registered, in all network namespaces. Only what selects it uses it:
  one socket       setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, \"{NAME}\", 6) before connect() or on the listener
  one namespace    sysctl net.ipv4.tcp_congestion_control={NAME}
  one destination  ip route change PREFIX ... congctl {NAME}
{end}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_exit_code_and_advice() {
        let lacks = explain(&CongestionError::Unsupported(vec!["tcp_slow_start".to_owned()]));
        assert_eq!(lacks.code, KERNEL);
        assert!(lacks.message.contains("it has no tcp_slow_start; boot a kernel"), "{lacks}");
        let twice = explain(&CongestionError::Registered);
        assert_eq!(twice.code, RUNTIME);
        assert!(twice.message.contains("registered already; another `mpwatch"), "{twice}");
        let denied = explain(&TracerError::Permission { what: "load it".to_owned() }.into());
        assert_eq!(denied.code, PERMISSION);
    }
}
