// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the name of a method, as users choose one, to a detector.

use mpwatch_model::bottleneck::MethodName;

use super::concordance::Concordance;
use super::dcw::Dcw;
use super::dwc::Dwc;
use super::ese::{Ese, Parameters, Reading};
use super::rfc8382::Rfc8382;
use super::{Detector, Method};

impl Detector {
    /// A detector by this method.
    pub(crate) fn by(method: MethodName) -> Self {
        Self::by_with_alpha(method, Parameters::default().alpha)
    }

    fn by_with_alpha(method: MethodName, alpha: f64) -> Self {
        let ese = |reading| Box::new(Ese::new(Parameters { alpha, reading, ..Parameters::default() }));
        let method: Box<dyn Method + Send> = match method {
            MethodName::Concordance => Box::<Concordance>::default(),
            MethodName::Ese => ese(Reading::Else),
            MethodName::EseLiteral => ese(Reading::Literal),
            MethodName::Rfc8382 => Box::<Rfc8382>::default(),
            MethodName::Dcw => Box::<Dcw>::default(),
            MethodName::Dwc => Box::<Dwc>::default(),
        };
        Self::with(method)
    }
}

/// A method with its parameters, as compared with others on the same samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contestant {
    /// Its name in tables.
    pub(crate) name: String,
    method: MethodName,
    alpha: f64,
}

impl Contestant {
    /// Other thresholds of Table III of `[MPTCP-D]`, beside its best one, which is the usual one here.
    const ALPHAS: [f64; 3] = [1.1, 2.3, 3.4];

    /// Every method, and those of MPTCP-D with each threshold that it was published with (as in `ese@1.1`).
    pub(crate) fn all() -> Vec<Self> {
        let usual = Parameters::default().alpha;
        let plain = MethodName::ALL.iter().map(|&method| Self {
            name: method.word().to_owned(),
            method,
            alpha: usual,
        });
        let others = [MethodName::Ese, MethodName::EseLiteral].into_iter().flat_map(|method| {
            let named = move |alpha| Self { name: format!("{}@{alpha}", method.word()), method, alpha };
            Self::ALPHAS.map(named)
        });
        plain.chain(others).collect()
    }

    /// A detector by this method.
    pub(crate) fn detector(&self) -> Detector {
        Detector::by_with_alpha(self.method, self.alpha)
    }
}
