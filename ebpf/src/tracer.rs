// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and attaches our programs and reads what they have to tell. Holds no flow state: that is in the kernel's sockets
//! below and in the agent's tracker above.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramMut, RingBuffer, RingBufferBuilder,
};
use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::event::{KernelEvent, Traces};
use mpwatch_model::host::{KernelCounters, Losses, MappingErrors, MissingHook};
use mpwatch_model::unit::Bytes;

use crate::abi;
use crate::core_check;
use crate::decode;
use crate::excerpt::Excerpt;
use crate::iterator;
use crate::ledger::Ledger;
use crate::namespace::{self, Namespace};
use crate::program::{self, ProgramStats};
use crate::settings::configure;
use crate::support::{Attach, AttachPlan, HOOKS, Hook, KernelSupport, SupportError, VMLINUX_BTF};

pub use crate::settings::Settings;

/// What the kernel puts before each record of a ring (BPF_RINGBUF_HDR_SZ).
const RING_HEAD: usize = 8;

/// Why tracing could not begin.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// This kernel lacks something that mpwatch cannot do without.
    #[error("this kernel cannot be traced: {}. `mpwatch doctor` lists what is needed", .0.join("; "))]
    Unsupported(Vec<String>),
    /// Its BTF cannot be read.
    #[error(transparent)]
    Support(#[from] SupportError),
    /// The kernel refused for lack of privilege.
    #[error(
        "not permitted to {what}: run as root, or grant the capabilities with `setcap cap_bpf,cap_perfmon,cap_sys_admin,cap_sys_ptrace+ep mpwatch`"
    )]
    Permission {
        /// What was tried.
        what: String,
    },
    /// libbpf or the kernel refused for another reason.
    #[error("cannot {what}: {source}")]
    Bpf {
        /// What was tried.
        what: String,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// Reading failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

fn bpf_error(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> TracerError {
    let what = what.into();
    move |source| {
        if is_not_permitted(&source) {
            TracerError::Permission { what }
        } else {
            TracerError::Bpf { what, source }
        }
    }
}

/// EPERM is a missing capability; EACCES is the verifier's answer to a program that it does not accept. libbpf-rs has one kind for
/// both, and only its words tell them apart.
fn is_not_permitted(error: &libbpf_rs::Error) -> bool {
    let is_refused = format!("{error:#}").contains(&format!("os error {}", nix::libc::EACCES));
    error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_refused
}

/// Records waiting to be decoded, one after the other; kept from poll to poll.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Inbox {
    fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.lengths.push(record.len());
    }
}

/// The attached programs.
pub struct Tracer {
    rings: RingBuffer<'static>,
    overflow: RingBuffer<'static>,
    samples: RingBuffer<'static>,
    inbox: Rc<RefCell<Inbox>>,
    counters: MapHandle,
    ledger: Option<Ledger>,
    links: HashMap<&'static str, Link>,
    takes_samples: bool,
    plan: AttachPlan,
    records_received: u64,
    points: u64,
    points_bytes: u64,
    decode_errors: u64,
    namespaces_unreadable: u64,
    buffer: Vec<u8>,
    // Last: the links above are detached before their programs are closed.
    object: Object,
}

impl Tracer {
    /// Loads and attaches. From here on nothing that opens or closes on this machine goes unnoticed.
    pub fn start(settings: Settings) -> Result<Self, TracerError> {
        quiet_libbpf();
        let excerpt = Excerpt::of_this_kernel();
        let mut plan = AttachPlan::from_facts(&KernelSupport::of_excerpt(excerpt.as_ref())?);
        if !plan.obstacles.is_empty() {
            return Err(TracerError::Unsupported(plan.obstacles));
        }
        if !settings.ledger {
            plan.leave_out_ledger();
        }
        let object = match (load(&plan, settings, excerpt.as_ref()), &excerpt) {
            // Should the excerpt lack something, the whole does not.
            (Err(TracerError::Bpf { .. }), Some(_)) => load(&plan, settings, None),
            (loaded, _) => loaded,
        };
        let object = object.map_err(explain)?;
        link_called(&object, &plan)?;
        let mut links = attach(&object, &mut plan)?;
        if !plan.can_keep_ledger() {
            plan.leave_out_ledger();
            links.retain(|program, _| plan.programs.contains(program));
        }
        let ledger = plan.can_keep_ledger().then(|| Ledger::open(&object)).transpose()?;
        let inbox = Rc::new(RefCell::new(Inbox::default()));
        let rings = ring(&object, "events", &inbox)?;
        let overflow = ring(&object, "overflow", &inbox)?;
        let samples = ring(&object, "samples", &inbox)?;
        let counters = map(&object, "counters")?;
        Ok(Self {
            rings,
            overflow,
            samples,
            inbox,
            counters,
            ledger,
            links,
            takes_samples: settings.samples,
            plan,
            records_received: 0,
            points: 0,
            points_bytes: 0,
            decode_errors: 0,
            namespaces_unreadable: 0,
            buffer: Vec::new(),
            object,
        })
    }

    /// Takes in the connections of these namespaces that are older than the agent.
    pub fn adopt(&mut self, namespaces: &[Namespace]) {
        let Some(link) = self.links.get("adopt") else { return };
        let link = link.as_fd();
        let failed = |namespace: &&Namespace| match namespace::inside(namespace, || iterator::run(link)) {
            // One that has gone meanwhile has no connections left.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            Ok(()) => false,
        };
        let unreadable = namespaces.iter().filter(failed).count();
        self.namespaces_unreadable += unreadable as u64;
    }

    /// Looks through the open files of all processes for owners that are not known yet.
    pub fn find_owners(&self) -> Result<(), TracerError> {
        let Some(link) = self.links.get("find_owners") else { return Ok(()) };
        iterator::run(link.as_fd())
            .map_err(|source| TracerError::Io { what: "look through open files", source })
    }

    /// Waits at most `timeout` for final records and hands them on.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        match self.rings.poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(bpf_error("read the ring buffer")(error));
            }
            _ => {}
        }
        self.deliver(sink);
        self.deliver_samples(sink)
    }

    /// Reads every subflow and every connection as they are now (of those that are as they were, only that they are); then the final records that came meanwhile, so that a flow
    /// which ended during the reading is told as ended.
    pub fn snapshot(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        for program in ["read_connections", "read_subflows"] {
            let Some(link) = self.links.get(program) else { continue };
            let mut errors = 0;
            iterator::for_each(link.as_fd(), &mut self.buffer, |record| match decode::record(record) {
                Ok(event) => sink(&event),
                Err(_) => errors += 1,
            })
            .map_err(|source| TracerError::Io { what: "read a snapshot", source })?;
            self.decode_errors += errors;
        }
        self.rings.consume().map_err(bpf_error("read the ring buffer"))?;
        self.overflow.consume().map_err(bpf_error("read the overflow ring"))?;
        self.deliver(sink);
        self.deliver_samples(sink)
    }

    /// Host-wide counters and losses since the start.
    pub fn counters(&self) -> Result<(KernelCounters, Losses), TracerError> {
        let values = self.summed_counters()?;
        let of = |which: u32| values[which as usize];
        let programs = self.programs()?;
        let measured = program::measured(&programs);
        let counters = KernelCounters {
            records: of(abi::MPW_COUNT_RING_RECORDS),
            records_received: self.records_received,
            mappings_sent: of(abi::MPW_COUNT_MAPPINGS_SENT),
            mappings_received: of(abi::MPW_COUNT_MAPPINGS_RECEIVED),
            data_acks: of(abi::MPW_COUNT_DATA_ACKS),
            data_acked_bytes: Bytes(of(abi::MPW_COUNT_DATA_ACKED_BYTES)),
            mapping_problems: MappingErrors {
                invalid: of(abi::MPW_COUNT_MAPPING_INVALID),
                bad_checksum: of(abi::MPW_COUNT_MAPPING_BAD_CSUM),
                no_dss: of(abi::MPW_COUNT_MAPPING_NODSS),
                dummy: of(abi::MPW_COUNT_MAPPING_DUMMY),
            },
            synack_retransmits: of(abi::MPW_COUNT_SYNACK_RETRANSMITS),
            points: self.points,
            points_bytes: Bytes(self.points_bytes),
            program_runs: measured.map(|(runs, _)| runs),
            program_time: measured.map(|(_, time)| time),
        };
        let lost = of(abi::MPW_COUNT_RECORDS_LOST);
        let losses = Losses {
            ring_full_recovered: of(abi::MPW_COUNT_RING_FULL).saturating_sub(lost),
            records_lost: lost,
            lost_bytes_sent: Bytes(of(abi::MPW_COUNT_LOST_BYTES_SENT)),
            lost_bytes_received: Bytes(of(abi::MPW_COUNT_LOST_BYTES_RECEIVED)),
            storage_failed: of(abi::MPW_COUNT_STORAGE_FAILED),
            ledger_full: of(abi::MPW_COUNT_COSTS_FULL),
            points_lost: of(abi::MPW_COUNT_POINTS_LOST),
            events_missed: program::events_missed(&programs),
            decode_errors: self.decode_errors,
            namespaces_unreadable: self.namespaces_unreadable,
            ..Losses::default()
        };
        Ok((counters, losses))
    }

    /// Where the accounts of each CPU stand, the lowest first. Empty: there is no ledger.
    pub fn cpus(&self) -> Result<Vec<CpuAccounts>, TracerError> {
        self.ledger
            .as_ref()
            .map_or(Ok(Vec::new()), |ledger| ledger.settle(&self.object))
            .map_err(bpf_error("read the CPU ledger"))
    }

    /// What this kernel lacks or refused.
    pub fn missing(&self) -> &[MissingHook] {
        &self.plan.missing
    }

    /// The kernel's account of each of our programs, in the order in which they were loaded.
    pub fn programs(&self) -> Result<Vec<(String, ProgramStats)>, TracerError> {
        program::stats(&self.object)
            .map_err(|source| TracerError::Io { what: "ask the kernel about our programs", source })
    }

    /// What can be known with the attached hooks.
    pub fn traces(&self) -> Traces {
        let traces = self.plan.traces();
        Traces { samples: traces.samples && self.takes_samples, ..traces }
    }

    fn summed_counters(&self) -> Result<[u64; abi::MPW_COUNTERS as usize], TracerError> {
        let per_cpu = self.counters.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let per_cpu = per_cpu.map_err(bpf_error("read the counters"))?;
        let mut sums = [0; abi::MPW_COUNTERS as usize];
        for cpu in per_cpu.iter().flatten() {
            let Ok(counters) = bytemuck::try_pod_read_unaligned::<abi::mpw_counters>(cpu) else { continue };
            for (sum, value) in sums.iter_mut().zip(counters.values) {
                *sum += value;
            }
        }
        Ok(sums)
    }

    /// Samples are no records: what is counted as received are those.
    fn deliver_samples(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        self.samples.consume().map_err(bpf_error("read the ring of samples"))?;
        let received = self.records_received;
        let bytes: usize = self.inbox.borrow().lengths.iter().map(|length| RING_HEAD + length).sum();
        self.points_bytes += bytes as u64;
        let mut points = 0;
        self.deliver(&mut |event| {
            if let KernelEvent::Samples(samples) = event {
                points += samples.samples.len() as u64;
            }
            sink(event);
        });
        self.points += points;
        self.records_received = received;
        Ok(())
    }

    fn deliver(&mut self, sink: &mut dyn FnMut(&KernelEvent)) {
        let mut inbox = self.inbox.borrow_mut();
        self.records_received += inbox.lengths.len() as u64;
        let mut rest = &inbox.bytes[..];
        for &length in &inbox.lengths {
            let (record, behind) = rest.split_at(length);
            rest = behind;
            match decode::record(record) {
                Ok(event) => sink(&event),
                Err(_) => self.decode_errors += 1,
            }
        }
        inbox.bytes.clear();
        inbox.lengths.clear();
    }
}

fn load(plan: &AttachPlan, settings: Settings, excerpt: Option<&Excerpt>) -> Result<Object, TracerError> {
    let cannot_open = || bpf_error("open the BPF object");
    let mut builder = ObjectBuilder::default();
    if let Some(excerpt) = excerpt {
        builder.btf_custom_path(excerpt.path()).map_err(cannot_open())?;
    }
    let mut object = builder.open_memory(crate::OBJECT).map_err(cannot_open())?;
    for mut program in object.progs_mut() {
        let planned = plan.programs.iter().any(|name| program.name() == *name);
        program.set_autoload(planned);
    }
    configure(&mut object, settings, plan.can_keep_ledger()).map_err(bpf_error("set up the BPF object"))?;
    object.load().map_err(bpf_error("load the BPF programs"))
}

/// A refusal by the verifier says little to a user. If a field is missing that we cannot do without, that is why.
fn explain(error: TracerError) -> TracerError {
    if let TracerError::Bpf { .. } = &error
        && let Ok(report) = core_check::check_file(Path::new(VMLINUX_BTF))
        && !report.unguarded_missing.is_empty()
    {
        let lacked = |field| format!("its BTF has no {field}");
        return TracerError::Unsupported(report.unguarded_missing.iter().map(lacked).collect());
    }
    error
}

/// Makes the programs that others go on to known to them.
fn link_called(object: &Object, plan: &AttachPlan) -> Result<(), TracerError> {
    for hook in HOOKS.iter().filter(|hook| plan.programs.contains(&hook.program)) {
        let Attach::Called { array } = hook.attach else { continue };
        let program = find_program(object, hook).map_err(bpf_error("find a program"))?;
        let entry = program.as_fd().as_raw_fd().to_ne_bytes();
        let put = map(object, array)?.update(&0_u32.to_ne_bytes(), &entry, MapFlags::ANY);
        put.map_err(bpf_error(format!("put {} into {array}", hook.program)))?;
    }
    Ok(())
}

fn planned(plan: &AttachPlan) -> Vec<&'static Hook> {
    let attached = HOOKS.iter().filter(|hook| !matches!(hook.attach, Attach::Run | Attach::Called { .. }));
    attached.filter(|hook| plan.programs.contains(&hook.program)).collect()
}

/// Attaches in the order of [`HOOKS`]. An optional hook that the kernel refuses leaves the plan.
fn attach(object: &Object, plan: &mut AttachPlan) -> Result<HashMap<&'static str, Link>, TracerError> {
    let mut links = HashMap::new();
    for hook in planned(plan) {
        match attach_one(object, hook) {
            Ok(link) => {
                links.insert(hook.program, link);
            }
            Err(source) if hook.required => {
                return Err(bpf_error(format!("attach to {}", hook.target))(source));
            }
            Err(source) => plan.refuse(hook, &format!("refused by the kernel: {source}")),
        }
    }
    Ok(links)
}

fn find_program<'a>(object: &'a Object, hook: &Hook) -> libbpf_rs::Result<ProgramMut<'a>> {
    object.progs_mut().find(|program| program.name() == hook.program).ok_or_else(|| {
        libbpf_rs::Error::from(io::Error::other(format!("no program {} in the object", hook.program)))
    })
}

fn attach_one(object: &Object, hook: &Hook) -> libbpf_rs::Result<Link> {
    let program = find_program(object, hook)?;
    match hook.attach {
        Attach::Tracepoint | Attach::Iterator | Attach::Run | Attach::Called { .. } => program.attach(),
        Attach::StorageIterator { map } => {
            let map = object.maps().find(|candidate| candidate.name() == map);
            let map = map.ok_or_else(|| {
                libbpf_rs::Error::from(io::Error::other("the iterator's map is not in the object"))
            })?;
            program.attach_iter(map.as_fd())
        }
    }
}

pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle, TracerError> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| libbpf_rs::Error::from(io::Error::other("it is not in the object")));
    map.and_then(|map| MapHandle::try_from(&map)).map_err(bpf_error(format!("find the map {name}")))
}

fn ring(object: &Object, name: &str, inbox: &Rc<RefCell<Inbox>>) -> Result<RingBuffer<'static>, TracerError> {
    let map = map(object, name)?;
    let inbox = Rc::clone(inbox);
    let mut builder = RingBufferBuilder::new();
    let receive = move |record: &[u8]| {
        inbox.borrow_mut().push(record);
        0
    };
    builder.add(&map, receive).map_err(bpf_error(format!("open the ring {name}")))?;
    builder.build().map_err(bpf_error(format!("open the ring {name}")))
}

/// libbpf's own messages are for us, not for users: they show with `MPWATCH_LIBBPF_LOG=1`. No callback rather than one that throws them
/// away: formatting thousands of them for nobody took more than a third of a start's instructions (development build, callgrind).
pub(crate) fn quiet_libbpf() {
    if std::env::var_os("MPWATCH_LIBBPF_LOG").is_none() {
        libbpf_rs::set_print(None);
    }
}

/// For tests and benches that need to wait on the ring themselves.
impl AsRawFd for Tracer {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.rings.epoll_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::ErrorExt as _;

    #[test]
    fn a_program_that_the_verifier_refuses_is_no_lack_of_permission() {
        let error = |code| libbpf_rs::Error::from_raw_os_error(code).context("failed to load");
        assert!(is_not_permitted(&error(nix::libc::EPERM)));
        assert!(!is_not_permitted(&error(nix::libc::EACCES)));
        assert!(!is_not_permitted(&error(nix::libc::EINVAL)));
    }
}
