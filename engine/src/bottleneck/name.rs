// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the name of a method, as users choose one, to a detector.

use mpwatch_model::bottleneck::DetectionMethod;

use super::concordance::Concordance;
use super::dcw::Dcw;
use super::detector::Detector;
use super::dwc::Dwc;
use super::ese::{Ese, Parameters, Reading};
use super::method::Method;
use super::rfc8382::Rfc8382;

impl Detector {
    /// A detector by this method.
    pub fn by(method: DetectionMethod) -> Self {
        Self::by_with_alpha(method, Parameters::default().alpha)
    }

    fn by_with_alpha(method: DetectionMethod, alpha: f64) -> Self {
        let ese = |reading| Box::new(Ese::new(Parameters { alpha, reading, ..Parameters::default() }));
        let method: Box<dyn Method + Send> = match method {
            DetectionMethod::Concordance => Box::<Concordance>::default(),
            DetectionMethod::Ese => ese(Reading::Else),
            DetectionMethod::EseLiteral => ese(Reading::Literal),
            DetectionMethod::Rfc8382 => Box::<Rfc8382>::default(),
            DetectionMethod::Dcw => Box::<Dcw>::default(),
            DetectionMethod::Dwc => Box::<Dwc>::default(),
        };
        Self::with(method)
    }
}

/// A method with its parameters, as compared with others on the same samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Contestant {
    /// Its name in tables.
    pub name: String,
    method: DetectionMethod,
    alpha: f64,
}

impl Contestant {
    /// Other thresholds of Table III of `[MPTCP-D]`, beside its best one, which is the usual one here.
    const ALPHAS: [f64; 3] = [1.1, 2.3, 3.4];

    /// Every method, and those of MPTCP-D with each threshold that it was published with (as in `ese@1.1`).
    pub fn all() -> Vec<Self> {
        let usual = Parameters::default().alpha;
        let plain = DetectionMethod::ALL.iter().map(|&method| Self {
            name: method.as_str().to_owned(),
            method,
            alpha: usual,
        });
        let others = [DetectionMethod::Ese, DetectionMethod::EseLiteral].into_iter().flat_map(|method| {
            let named = move |alpha| Self { name: format!("{}@{alpha}", method.as_str()), method, alpha };
            Self::ALPHAS.map(named)
        });
        plain.chain(others).collect()
    }

    /// A detector by this method.
    pub fn detector(&self) -> Detector {
        Detector::by_with_alpha(self.method, self.alpha)
    }
}
