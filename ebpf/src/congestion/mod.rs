// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers `mptcpd`, the congestion control of `[MPTCP-D]`, with the kernel. `congestion/*.bpf.c` is the control itself.

use std::mem::size_of;

use libbpf_rs::{Link, MapCore, MapType, Object, ObjectBuilder, OpenObject, ProgramInput};

use crate::abi::mpw_congestion_step;
use crate::error::{TracerError, bpf_error};
use crate::log::quiet_libbpf;
use crate::support::{CongestionSupport, KernelSupport};

/// Its name, as in `TCP_CONGESTION` and `net.ipv4.tcp_congestion_control`.
pub const NAME: &str = "mptcpd";
/// The map of connections.
const GROUPS: &str = "groups";
/// The program that only a test runs.
const STEP: &str = "mptcpd_step";
/// libbpf's and the kernel's flag of a struct_ops that is registered by a link.
const BPF_F_LINK: u32 = 1 << 13;

/// Why it cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum CongestionError {
    /// The kernel lacks these.
    #[error("this kernel cannot register a congestion control in BPF: it has no {}", .0.join(", "))]
    Unsupported(Vec<String>),
    /// The kernel has one of this name.
    #[error("a congestion control named `{NAME}` is registered already")]
    Registered,
    /// Its BTF cannot be read, a capability is missing, or the kernel refused.
    #[error(transparent)]
    Kernel(#[from] TracerError),
}

/// `mptcpd` is registered as long as this exists. Sockets that use it keep it until they close.
#[derive(Debug)]
pub struct Registration {
    link: Link,
    has_link: bool,
    object: Object,
}

impl Registration {
    /// Registers it for all network namespaces.
    ///
    /// # Errors
    /// [`CongestionError`].
    pub fn new() -> Result<Self, CongestionError> {
        let support = KernelSupport::of_this_kernel().map_err(TracerError::from)?.congestion;
        if !support.missing.is_empty() {
            return Err(CongestionError::Unsupported(support.missing));
        }
        let mut object = open(|program| program != STEP)?;
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

    /// Whether the kernel unregisters it even if this process is killed. Otherwise only an orderly end does.
    pub fn ends_with_process(&self) -> bool {
        self.has_link
    }

    /// Number of MPTCP connections of which the kernel keeps a group of subflows, in all namespaces.
    ///
    /// # Errors
    /// If the map cannot be found.
    pub fn connections(&self) -> Result<usize, CongestionError> {
        let groups = crate::object::map(&self.object, GROUPS)?;
        Ok(groups.keys().count())
    }

    /// Unregisters it, as dropping this does. Not by detaching the link: kernels before 6.11 refuse that, and those before 6.4 have none.
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

fn open(is_wanted: impl Fn(&std::ffi::OsStr) -> bool) -> Result<OpenObject, TracerError> {
    let opened = ObjectBuilder::default().open_memory(crate::abi::CONGESTION);
    let mut object = opened.map_err(bpf_error("open the congestion control"))?;
    for mut program in object.progs_mut() {
        let is_wanted = is_wanted(program.name());
        program.set_autoload(is_wanted);
    }
    Ok(object)
}

/// One step of the arithmetic: what goes in, and what the kernel computes. The units are as in the reference, `tests/src/mptcpd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// In: rate of the connection's other subflows.
    pub others_rate: u64,
    /// In: window in segments.
    pub cwnd: u32,
    /// In: RTT in microseconds.
    pub rtt_us: u32,
    /// In: the lowest RTT of the connection in microseconds.
    pub min_rtt_us: u32,
    /// In: segments that the ACK acknowledges.
    pub acked: u32,
    /// In and out: part of a segment that the window has yet to grow by.
    pub credit: u64,
    /// Out: rate of this subflow.
    pub rate: u64,
    /// Out: increase per acknowledged segment.
    pub increase: u64,
    /// Out: segments that the window grows.
    pub growth: u32,
}

/// The arithmetic in the kernel, to compare it with the reference.
#[derive(Debug)]
pub struct Arithmetic {
    object: Object,
}

impl Arithmetic {
    /// Loads it; registers nothing.
    ///
    /// # Errors
    /// If the kernel refuses, or cannot run a program for user space.
    pub fn load() -> Result<Self, CongestionError> {
        quiet_libbpf();
        let mut object = open(|program| program == STEP)?;
        for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
            map.set_autocreate(false).map_err(bpf_error("configure the congestion control"))?;
        }
        let object = object.load().map_err(bpf_error("load the congestion control's arithmetic"))?;
        Ok(Self { object })
    }

    /// Runs one step.
    ///
    /// # Errors
    /// If the kernel refuses to run it.
    pub fn run(&self, step: &Step) -> Result<Step, CongestionError> {
        let mut context = mpw_congestion_step {
            others_rate: step.others_rate,
            credit: step.credit,
            cwnd: step.cwnd,
            rtt_us: step.rtt_us,
            min_rtt_us: step.min_rtt_us,
            acked: step.acked,
            ..mpw_congestion_step::default()
        };
        let mut programs = self.object.progs_mut();
        let program = programs.find(|program| program.name() == STEP);
        let program = program.ok_or_else(|| CongestionError::Unsupported(vec![STEP.to_owned()]))?;
        let bytes = bytemuck::bytes_of_mut(&mut context);
        debug_assert_eq!(bytes.len(), size_of::<mpw_congestion_step>());
        let input = ProgramInput { context_in: Some(bytes), ..ProgramInput::default() };
        program.test_run(input).map_err(bpf_error("run the congestion control's arithmetic"))?;
        let mpw_congestion_step { credit, rate, increase, growth, .. } = context;
        Ok(Step { credit, rate, increase, growth, ..*step })
    }
}
