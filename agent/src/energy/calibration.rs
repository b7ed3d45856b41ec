// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `mpwatch calibrate` has measured: the file that keeps it, and whether it is of this machine as it is set up now.
//!
//! A power curve holds for one processor with one microcode, governor, turbo and SMT setting. The kernel release is kept to be
//! shown; it decides nothing.

use std::fs;
use std::io;
use std::path::Path;

use mpwatch_model::energy::power::MeasuredZone;
use serde::{Deserialize, Serialize};

/// Where the file is unless told otherwise.
pub(crate) const PATH: &str = "/var/lib/mpwatch/power.toml";
/// Version of the file's form.
const SCHEMA: u32 = 1;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Version of this form.
    pub(crate) schema: u32,
    /// When it was measured, RFC 3339.
    pub(crate) measured_at: String,
    /// On what.
    pub(crate) machine: Configuration,
    /// Zones that count.
    #[serde(rename = "zone")]
    pub(crate) zones: Vec<MeasuredZone>,
}

/// What the power curve of a machine depends on. `None`: the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Configuration {
    /// `model name` of the processor.
    pub(crate) cpu_model: Option<String>,
    /// Microcode.
    pub(crate) microcode: Option<String>,
    /// CPUs online.
    pub(crate) cpus: u32,
    /// Frequency governor of the first CPU.
    pub(crate) governor: Option<String>,
    /// Whether turbo is allowed.
    pub(crate) turbo: Option<bool>,
    /// Whether simultaneous multithreading is active.
    pub(crate) smt: Option<bool>,
    /// Release of the kernel; not compared.
    pub(crate) kernel: Option<String>,
}

/// What came of looking for a calibration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loaded {
    /// It is of this machine as it is set up now.
    Fits(Vec<MeasuredZone>),
    /// There is no file.
    Missing,
    /// It was measured on another machine or another setting: each difference as a phrase.
    Differs(Vec<String>),
    /// It cannot be read, and why.
    Unusable(String),
}

impl Loaded {
    /// Reads a file and holds it against the machine.
    pub(crate) fn from_file(path: &Path, now: &Configuration) -> Self {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::Missing,
            Err(error) => return Self::Unusable(format!("{}: {error}", path.display())),
        };
        match File::parse(&text) {
            Err(reason) => Self::Unusable(format!("{}: {reason}", path.display())),
            Ok(file) => match file.machine.differences(now) {
                differences if differences.is_empty() => Self::Fits(file.zones),
                differences => Self::Differs(differences),
            },
        }
    }
}

impl File {
    /// For what was measured now.
    pub(crate) fn new(measured_at: String, machine: Configuration, zones: Vec<MeasuredZone>) -> Self {
        Self { schema: SCHEMA, measured_at, machine, zones }
    }

    /// From text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.schema != SCHEMA {
            let advice = "run `mpwatch calibrate` again";
            return Err(format!("has form {}, this mpwatch reads form {SCHEMA}: {advice}", file.schema));
        }
        Ok(file)
    }

    /// As text.
    pub(crate) fn text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// Writes it whole or not at all.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let draft = path.with_extension("toml.new");
        fs::write(&draft, self.text()?)?;
        Ok(fs::rename(&draft, path)?)
    }
}

impl Configuration {
    /// Of this machine.
    pub(crate) fn of_this_machine(cpus: u32) -> Self {
        Self::read(Path::new("/proc"), Path::new("/sys"), cpus)
    }

    /// Of the machine whose `/proc` and `/sys` these are.
    fn read(proc: &Path, sys: &Path, cpus: u32) -> Self {
        let text = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let cpuinfo = text(&proc.join("cpuinfo")).unwrap_or_default();
        let field = |name: &str| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
        };
        let cpu = sys.join("devices/system/cpu");
        let flag = |name: &str| text(&cpu.join(name)).map(|value| value == "1");
        Self {
            cpu_model: field("model name"),
            microcode: field("microcode"),
            cpus,
            governor: text(&cpu.join("cpu0/cpufreq/scaling_governor")),
            turbo: flag("intel_pstate/no_turbo").map(|off| !off).or_else(|| flag("cpufreq/boost")),
            smt: flag("smt/active"),
            kernel: text(&proc.join("sys/kernel/osrelease")),
        }
    }

    /// In what the machine differs now from what it was; empty: in nothing that counts.
    fn differences(&self, now: &Self) -> Vec<String> {
        fn shown<T: ToString>(value: Option<&T>) -> String {
            value.map_or("not known".to_owned(), T::to_string)
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

#[cfg(test)]
mod tests {
    use mpwatch_engine::energy::calibration::Calibration;
    use mpwatch_model::energy::power::CurvePoint;

    use super::*;

    fn file() -> File {
        let machine = Configuration {
            cpu_model: Some("AMD EPYC 8024P 8-Core Processor".into()),
            microcode: Some("0xaa00215".into()),
            cpus: 16,
            governor: Some("performance".into()),
            turbo: Some(true),
            smt: Some(true),
            kernel: Some("6.12.30".into()),
        };
        let knots = vec![CurvePoint { busy: 0.0, watts: 17.7 }, CurvePoint { busy: 1.0, watts: 46.7 }];
        let zone =
            MeasuredZone { name: "package-0".into(), idle_watts: 17.68, idle_sigma_watts: 0.04, knots };
        File::new("2026-03-01T12:00:00Z".into(), machine, vec![zone])
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/power.toml");
        file().save(&path).unwrap();
        assert_eq!(File::parse(&fs::read_to_string(&path).unwrap()), Ok(file()));
        let Loaded::Fits(zones) = Loaded::from_file(&path, &file().machine) else { panic!("does not fit") };
        let calibration = Calibration::of(&zones);
        let zone = calibration.zone("package-0").unwrap();
        assert_eq!((zone.idle_uw, zone.sigma_uw), (17_680_000, 40_000));
        assert_eq!(calibration.zone("package-1"), None);
    }

    #[test]
    fn another_setting_is_another_machine_but_another_kernel_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.toml");
        file().save(&path).unwrap();
        let mut now = file().machine;
        now.kernel = Some("7.0.0".into());
        assert!(matches!(Loaded::from_file(&path, &now), Loaded::Fits(_)));
        now.governor = Some("powersave".into());
        now.turbo = None;
        let expected = [
            "governor: calibrated with performance, now powersave",
            "turbo: calibrated with true, now not known",
        ];
        assert_eq!(Loaded::from_file(&path, &now), Loaded::Differs(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.toml");
        assert_eq!(Loaded::from_file(&path, &Configuration::default()), Loaded::Missing);
        for (text, part) in
            [("schema = 1\nx = 2", "x"), ("schema = 2", "measured_at"), ("nonsense", "nonsense")]
        {
            fs::write(&path, text).unwrap();
            let Loaded::Unusable(why) = Loaded::from_file(&path, &Configuration::default()) else {
                panic!("{text}")
            };
            assert!(why.contains(part) && why.contains("power.toml"), "{why}");
        }
        let later = file().text().unwrap().replace("schema = 1", "schema = 9");
        assert!(File::parse(&later).unwrap_err().contains("mpwatch calibrate"));
    }

    #[test]
    fn a_configuration_is_read_from_proc_and_sys() {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nmicrocode\t: 0x2b\n"),
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let found = Configuration::read(&root.path().join("proc"), &root.path().join("sys"), 4);
        assert_eq!((found.turbo, found.smt, found.cpus), (Some(false), Some(false), 4));
        assert_eq!(
            (found.cpu_model.as_deref(), found.governor.as_deref()),
            (Some("Some CPU"), Some("schedutil"))
        );
    }
}
