// SPDX-License-Identifier: MIT OR Apache-2.0
//! The methods by name, and the variants of them that benches compare.

use mpwatch_model::flow::bottleneck::DetectionMethod;

use super::concordance::Concordance;
use super::detector::Detector;
use super::method::Method;
use super::published::{Dcw, Dwc, Ese, Parameters, Reading, Rfc8382};

impl Detector {
    /// A detector that uses this method.
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

/// A method with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its name in tables, as in `dcw` and `ese@1.1`.
    pub name: String,
    method: DetectionMethod,
    alpha: f64,
}

impl Variant {
    /// The other thresholds in Table III of `[MPTCP-D]`; the default is the best one.
    const ALPHAS: [f64; 3] = [1.1, 2.3, 3.4];

    /// Every method with its default parameters, and those of MPTCP-D with every published threshold.
    pub fn all() -> Vec<Self> {
        let alpha = Parameters::default().alpha;
        let defaults = DetectionMethod::ALL.iter().map(|&method| Self {
            name: method.as_str().to_owned(),
            method,
            alpha,
        });
        let others = [DetectionMethod::Ese, DetectionMethod::EseLiteral].into_iter().flat_map(|method| {
            let named = move |alpha| Self { name: format!("{}@{alpha}", method.as_str()), method, alpha };
            Self::ALPHAS.map(named)
        });
        defaults.chain(others).collect()
    }

    /// A detector that uses this variant and evaluates at every interval.
    pub fn detector(&self) -> Detector {
        Detector::by_with_alpha(self.method, self.alpha)
    }
}
