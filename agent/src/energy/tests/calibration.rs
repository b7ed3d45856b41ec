// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a calibration, and the machine to which it applies.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use mpwatch_engine::energy::calibration::Calibration;
use mpwatch_model::host::energy::power::{CurvePoint, MeasuredZone};

use crate::energy::calibration::{MachineSetup, PowerFile, load};
use crate::system::procfs::folder_with;

fn file() -> PowerFile {
    let machine = MachineSetup {
        cpu_model: Some("AMD EPYC 8024P 8-Core Processor".into()),
        microcode: Some("0xaa00215".into()),
        cpus: 16,
        governor: Some("performance".into()),
        turbo: Some(true),
        smt: Some(true),
        kernel: Some("6.12.30".into()),
    };
    let knots = vec![CurvePoint { busy: 0.0, watts: 17.7 }, CurvePoint { busy: 1.0, watts: 46.7 }];
    let zone = MeasuredZone {
        name: "package-0".into(),
        idle_watts: 17.68,
        idle_sigma_watts: 0.04,
        is_fitted: false,
        knots,
    };
    PowerFile::new("2026-03-01T12:00:00Z".into(), machine, vec![zone])
}

#[test]
fn a_saved_file_is_loaded_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/power.toml");
    file().save(&path).unwrap();
    assert_eq!(PowerFile::parse(&fs::read_to_string(&path).unwrap()), Ok(file()));
    let calibration = Calibration::from_zones(&load(&path, &file().machine).unwrap());
    let zone = calibration.zone("package-0").unwrap();
    assert_eq!((zone.idle_uw, zone.sigma_uw), (17_680_000, 40_000));
    assert_eq!(calibration.zone("package-1"), None);
}

#[test]
fn a_link_in_the_folder_is_replaced_and_not_followed() {
    let directory = folder_with(&[("precious", "data"), ("new/other", "")]);
    for link in ["power.toml", "power.toml.new"] {
        symlink("../precious", directory.path().join("new").join(link)).unwrap();
    }
    let path = directory.path().join("new/power.toml");
    file().save(&path).unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("precious")).unwrap(), "data");
    let found = fs::symlink_metadata(&path).unwrap();
    assert_eq!((found.is_file(), found.permissions().mode() & 0o777), (true, 0o644));
}

#[test]
fn another_governor_invalidates_the_curve_and_another_kernel_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("power.toml");
    file().save(&path).unwrap();
    let mut now = file().machine;
    now.kernel = Some("7.0.0".into());
    assert!(load(&path, &now).is_ok());
    now.governor = Some("powersave".into());
    now.turbo = None;
    let expected =
        ["governor: calibrated with performance, now powersave", "turbo: calibrated with true, now unknown"];
    let error = load(&path, &now).unwrap_err();
    assert!(error.contains(&expected.join("; ")), "{error}");
}

#[test]
fn a_missing_file_is_empty_and_an_invalid_one_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("power.toml");
    assert_eq!(load(&path, &MachineSetup::default()), Ok(Vec::new()));
    for (text, part) in [("schema = 1\nx = 2", "x"), ("schema = 2", "measured_at"), ("nonsense", "nonsense")]
    {
        fs::write(&path, text).unwrap();
        let error = load(&path, &MachineSetup::default()).unwrap_err();
        assert!(error.contains(part) && error.contains("power.toml"), "{error}");
    }
    let later = file().text().unwrap().replace("schema = 1", "schema = 9");
    assert!(PowerFile::parse(&later).unwrap_err().contains("mpwatch calibrate"));
}

#[test]
fn the_machine_setup_is_read_from_proc_and_sys() {
    let root = folder_with(&[
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nmicrocode\t: 0x2b\n"),
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
    ]);
    let found = MachineSetup::read(&root.path().join("proc"), &root.path().join("sys"), 4);
    assert_eq!((found.turbo, found.smt, found.cpus), (Some(false), Some(false), 4));
    assert_eq!(
        (found.cpu_model.as_deref(), found.governor.as_deref()),
        (Some("Some CPU"), Some("schedutil"))
    );
}
