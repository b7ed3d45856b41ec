// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of `mpwatch calibrate`. It is valid for one processor with one microcode, number of CPUs, governor, turbo and SMT setting.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mpwatch_model::host::energy::power::MeasuredZone;
use mpwatch_model::host::setup::{cpu_model, cpuinfo_field};
use serde::{Deserialize, Serialize};

use crate::system::procfs::read_file;

/// Version of the file's format.
const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PowerFile {
    pub(crate) schema: u32,
    /// Time of the measurement, RFC 3339.
    pub(crate) measured_at: String,
    pub(crate) machine: MachineSetup,
    /// The zones that are part of the machine's total.
    #[serde(rename = "zone")]
    pub(crate) zones: Vec<MeasuredZone>,
}

/// Properties of a machine that its power curve depends on. `None`: unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MachineSetup {
    pub(crate) cpu_model: Option<String>,
    pub(crate) microcode: Option<String>,
    /// CPUs online.
    pub(crate) cpus: u32,
    /// Frequency governor of the first CPU.
    pub(crate) governor: Option<String>,
    pub(crate) turbo: Option<bool>,
    /// Whether simultaneous multithreading is active.
    pub(crate) smt: Option<bool>,
    /// Kernel release; not compared.
    pub(crate) kernel: Option<String>,
}

/// The zones of a file. Empty: there is no file. Fails if the file cannot be read or does not match the machine.
pub(crate) fn load(path: &Path, now: &MachineSetup) -> Result<Vec<MeasuredZone>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let file = PowerFile::parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))?;
    let differences = file.machine.differences(now);
    if differences.is_empty() {
        return Ok(file.zones);
    }
    let differences = differences.join("; ");
    Err(format!(
        "{} does not match this machine ({differences}); run `mpwatch calibrate` again",
        path.display()
    ))
}

impl PowerFile {
    pub(crate) fn new(measured_at: String, machine: MachineSetup, zones: Vec<MeasuredZone>) -> Self {
        Self { schema: SCHEMA, measured_at, machine, zones }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.schema != SCHEMA {
            let advice = "run `mpwatch calibrate` again";
            return Err(format!(
                "it has format {}, this mpwatch reads format {SCHEMA}: {advice}",
                file.schema
            ));
        }
        Ok(file)
    }

    pub(crate) fn text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// Replaces the file atomically.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // `tempfile` never opens an existing file: root must not follow a link that the service's user has put into the folder.
        let readable = fs::Permissions::from_mode(0o644);
        let mut draft = tempfile::Builder::new().permissions(readable).tempfile_in(folder)?;
        draft.write_all(self.text()?.as_bytes())?;
        draft.persist(path)?;
        Ok(())
    }
}

impl MachineSetup {
    pub(crate) fn from_system(cpus: u32) -> Self {
        Self::read(Path::new("/proc"), Path::new("/sys"), cpus)
    }

    pub(super) fn read(proc: &Path, sys: &Path, cpus: u32) -> Self {
        let cpuinfo = read_file(proc.join("cpuinfo")).unwrap_or_default();
        let cpu = sys.join("devices/system/cpu");
        let flag = |name: &str| read_file(cpu.join(name)).map(|value| value == "1");
        Self {
            cpu_model: cpu_model(&cpuinfo),
            microcode: cpuinfo_field(&cpuinfo, "microcode").map(str::to_owned),
            cpus,
            governor: read_file(cpu.join("cpu0/cpufreq/scaling_governor")),
            turbo: flag("intel_pstate/no_turbo").map(|off| !off).or_else(|| flag("cpufreq/boost")),
            smt: flag("smt/active"),
            kernel: read_file(proc.join("sys/kernel/osrelease")),
        }
    }

    /// Differences that invalidate the power curve, each as a phrase.
    fn differences(&self, now: &Self) -> Vec<String> {
        fn shown<T: ToString>(value: Option<&T>) -> String {
            value.map_or("unknown".to_owned(), T::to_string)
        }
        let compared = [
            ("CPU", shown(self.cpu_model.as_ref()), shown(now.cpu_model.as_ref())),
            ("microcode", shown(self.microcode.as_ref()), shown(now.microcode.as_ref())),
            ("number of CPUs", self.cpus.to_string(), now.cpus.to_string()),
            ("governor", shown(self.governor.as_ref()), shown(now.governor.as_ref())),
            ("turbo", shown(self.turbo.as_ref()), shown(now.turbo.as_ref())),
            ("SMT", shown(self.smt.as_ref()), shown(now.smt.as_ref())),
        ];
        let differ = compared.iter().filter(|(_, then, now)| then != now);
        differ.map(|(what, then, now)| format!("{what}: calibrated with {then}, now {now}")).collect()
    }
}
