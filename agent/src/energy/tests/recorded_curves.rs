// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power against load of five real machines, each with the load on all cores and on some cores.
//!
//! Recorded by the project codecarbon (MIT), `codecarbon/data/hardware/cpu_load_profiling`, 2025-01-14, with RAPL over 30 s
//! per load. Power is energy divided by duration, in milliwatts. Load is in permille of all CPUs. Without a record at zero
//! load, the first record gives the idle power. The curves are not linear: most are concave, the Intel curves of all cores rise steeply in
//! their middle, and the AMD curves fall when the power limit is reached.

use mpwatch_lab::raplsim::{PowerModel, RecordedCurve};

use super::SECOND;

const EPYC_8024P_ALL: RecordedCurve = RecordedCurve {
    name: "AMD EPYC 8024P, all cores",
    cpus: 16,
    samples: &[
        (6, 18_262),
        (100, 29_198),
        (200, 38_564),
        (300, 41_709),
        (403, 43_074),
        (500, 47_565),
        (646, 48_696),
        (702, 49_241),
        (800, 50_872),
        (894, 46_074),
        (1000, 46_247),
    ],
};
const EPYC_8024P_SOME: RecordedCurve = RecordedCurve {
    name: "AMD EPYC 8024P, some cores",
    cpus: 16,
    samples: &[
        (0, 17_680),
        (68, 37_545),
        (186, 41_587),
        (248, 43_458),
        (373, 47_154),
        (503, 49_331),
        (562, 49_883),
        (716, 51_296),
        (781, 45_567),
        (875, 46_499),
        (1000, 46_741),
    ],
};
const THREADRIPPER_1950X_ALL: RecordedCurve = RecordedCurve {
    name: "AMD Ryzen Threadripper 1950X, all cores",
    cpus: 32,
    samples: &[
        (28, 42_659),
        (139, 62_021),
        (232, 78_331),
        (364, 105_615),
        (448, 127_580),
        (531, 143_254),
        (660, 172_510),
        (721, 170_357),
        (831, 169_241),
        (917, 166_887),
        (997, 167_087),
    ],
};
const THREADRIPPER_1950X_SOME: RecordedCurve = RecordedCurve {
    name: "AMD Ryzen Threadripper 1950X, some cores",
    cpus: 32,
    samples: &[
        (50, 44_384),
        (122, 75_670),
        (229, 92_435),
        (322, 122_297),
        (414, 146_484),
        (520, 174_706),
        (640, 173_433),
        (731, 169_560),
        (801, 167_463),
        (925, 166_107),
        (1000, 165_324),
    ],
};
const E3_1240V2_ALL: RecordedCurve = RecordedCurve {
    name: "Intel Xeon E3-1240 v2, all cores",
    cpus: 8,
    samples: &[
        (25, 5465),
        (125, 6833),
        (218, 8108),
        (325, 9441),
        (412, 14_067),
        (513, 23_953),
        (608, 29_496),
        (713, 44_501),
        (802, 47_160),
        (889, 48_366),
        (1000, 49_408),
    ],
};
const E3_1240V2_SOME: RecordedCurve = RecordedCurve {
    name: "Intel Xeon E3-1240 v2, some cores",
    cpus: 8,
    samples: &[
        (25, 5672),
        (137, 21_062),
        (253, 29_369),
        (388, 36_632),
        (500, 42_762),
        (608, 44_519),
        (762, 46_784),
        (887, 47_666),
        (1000, 49_647),
    ],
};
const E3_1240V2_SECOND_ALL: RecordedCurve = RecordedCurve {
    name: "Intel Xeon E3-1240 v2, a second machine, all cores",
    cpus: 8,
    samples: &[
        (25, 7454),
        (103, 10_071),
        (213, 12_700),
        (316, 15_114),
        (413, 23_824),
        (519, 35_877),
        (620, 58_319),
        (700, 86_107),
        (800, 91_677),
        (846, 93_404),
        (896, 89_222),
    ],
};
const E3_1240V2_SECOND_SOME: RecordedCurve = RecordedCurve {
    name: "Intel Xeon E3-1240 v2, a second machine, some cores",
    cpus: 8,
    samples: &[
        (13, 7548),
        (138, 38_511),
        (250, 55_280),
        (388, 69_526),
        (513, 81_555),
        (600, 85_413),
        (709, 88_418),
        (889, 93_573),
        (1000, 96_601),
    ],
};
const E5_2620V3_ALL: RecordedCurve = RecordedCurve {
    name: "Intel Xeon E5-2620 v3, all cores",
    cpus: 24,
    samples: &[
        (0, 15_914),
        (100, 30_740),
        (200, 38_200),
        (300, 44_718),
        (405, 62_178),
        (502, 61_487),
        (600, 75_761),
        (699, 111_754),
        (808, 115_752),
        (897, 117_417),
        (996, 104_971),
    ],
};
const E5_2620V3_SOME: RecordedCurve = RecordedCurve {
    name: "Intel Xeon E5-2620 v3, some cores",
    cpus: 24,
    samples: &[
        (0, 15_702),
        (87, 34_608),
        (170, 39_509),
        (290, 49_530),
        (379, 49_939),
        (500, 66_978),
        (587, 71_536),
        (667, 71_909),
        (792, 75_635),
        (875, 79_047),
        (1000, 96_267),
    ],
};

/// All ten curves.
pub(super) const RECORDED_CURVES: [RecordedCurve; 10] = [
    EPYC_8024P_ALL,
    EPYC_8024P_SOME,
    THREADRIPPER_1950X_ALL,
    THREADRIPPER_1950X_SOME,
    E3_1240V2_ALL,
    E3_1240V2_SOME,
    E3_1240V2_SECOND_ALL,
    E3_1240V2_SECOND_SOME,
    E5_2620V3_ALL,
    E5_2620V3_SOME,
];

#[test]
fn every_curve_has_increasing_loads_and_plausible_power() {
    for curve in RECORDED_CURVES {
        assert!(curve.samples.len() >= 9, "{}", curve.name);
        assert!(curve.samples.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", curve.name);
        let is_plausible = |(load, power): &(u32, u32)| *load <= 1000 && (5_000..200_000).contains(power);
        assert!(curve.samples.iter().all(is_plausible), "{}", curve.name);
    }
}

#[test]
fn a_recorded_model_follows_the_samples_of_its_curve() {
    for curve in RECORDED_CURVES {
        let (load, power) = curve.samples[3];
        let busy = u64::from(load) * u64::from(curve.cpus) * (SECOND.0 / 1000);
        let energy = PowerModel::Recorded(curve).energy(busy, curve.cpus, SECOND.0);
        assert_eq!(energy, u128::from(power) * u128::from(SECOND.0), "{}", curve.name);
    }
}
