// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers `mptcpd`, the congestion control of `[MPTCP-D]`, with the kernel. `congestion/*.bpf.c` implements it.

use libbpf_rs::{Link, MapCore, MapType, Object, ObjectBuilder};

use crate::error::{TracerError, bpf_error};
use crate::support::{CongestionSupport, KernelSupport};

/// Name of the congestion control in `TCP_CONGESTION` and `net.ipv4.tcp_congestion_control`.
pub const NAME: &str = "mptcpd";
/// Name of the BPF map with one group of subflows per connection.
const GROUPS: &str = "groups";
/// Flag of libbpf and of the kernel for a struct_ops that is registered by a link.
const BPF_F_LINK: u32 = 1 << 13;

/// The congestion control cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum CongestionError {
    /// The kernel lacks these types or functions.
    #[error("this kernel cannot register a congestion control in BPF: it has no {}", .0.join(", "))]
    Unsupported(Vec<String>),
    /// The kernel already has a congestion control of this name.
    #[error("a congestion control named `{NAME}` is registered already")]
    Registered,
    /// The kernel's BTF cannot be read, a capability is missing, or the kernel refused the registration.
    #[error(transparent)]
    Kernel(#[from] TracerError),
}

/// Keeps `mptcpd` registered. Sockets that use it keep it until they close.
#[derive(Debug)]
pub struct Registration {
    link: Link,
    has_link: bool,
    object: Object,
}

impl Registration {
    /// Registers `mptcpd` for all network namespaces.
    pub fn new() -> Result<Self, CongestionError> {
        let support = KernelSupport::from_running_kernel().map_err(TracerError::from)?.congestion;
        if !support.missing.is_empty() {
            return Err(CongestionError::Unsupported(support.missing));
        }
        let opened = ObjectBuilder::default().open_memory(crate::abi::CONGESTION);
        let mut object = opened.map_err(bpf_error("open the congestion control"))?;
        if !support.has_link {
            for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
                let flags = map.map_flags() & !BPF_F_LINK;
                map.set_map_flags(flags).map_err(bpf_error("configure the congestion control"))?;
            }
        }
        let mut object = object.load().map_err(bpf_error("load the congestion control"))?;
        let found = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
        let mut map =
            found.ok_or(CongestionError::Unsupported(vec![CongestionSupport::STRUCT_OPS.to_owned()]))?;
        let link = map.attach_struct_ops().map_err(explain)?;
        Ok(Self { link, has_link: support.has_link, object })
    }

    /// Whether the kernel unregisters `mptcpd` when this process is killed. Otherwise only dropping this value unregisters it.
    pub fn ends_with_process(&self) -> bool {
        self.has_link
    }

    /// Number of MPTCP connections with a group of subflows in the kernel, in all namespaces.
    pub fn connections(&self) -> Result<usize, CongestionError> {
        let groups = crate::tracer::object::map(&self.object, GROUPS)?;
        Ok(groups.keys().count())
    }

    /// Unregisters `mptcpd`, as dropping does. Does not detach the link: kernels before 6.11 refuse this, and kernels before 6.4 have no link.
    pub fn end(self) {
        drop(self.link);
    }
}

fn explain(error: libbpf_rs::Error) -> CongestionError {
    if error.kind() == libbpf_rs::ErrorKind::AlreadyExists {
        return CongestionError::Registered;
    }
    bpf_error("register the congestion control")(error).into()
}
