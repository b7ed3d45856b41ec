// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates methods by name, and defines the variants of methods that benches compare.

use mpwatch_engine::bottleneck::{Concordance, Detector, Method};
use mpwatch_model::flow::bottleneck::DetectionMethod;

use super::dcw::Dcw;
use super::dwc::Dwc;
use super::ese::{Ese, Parameters, Reading};
use super::rfc8382::Rfc8382;

/// Creates a method with its default parameters.
pub fn new(method: DetectionMethod) -> Box<dyn Method + Send> {
    with_alpha(method, Parameters::default().alpha)
}

fn with_alpha(method: DetectionMethod, alpha: f64) -> Box<dyn Method + Send> {
    let ese = |reading| Box::new(Ese::new(Parameters { alpha, reading, ..Parameters::default() }));
    match method {
        DetectionMethod::Concordance => Box::<Concordance>::default(),
        DetectionMethod::Ese => ese(Reading::Else),
        DetectionMethod::EseLiteral => ese(Reading::Literal),
        DetectionMethod::Rfc8382 => Box::<Rfc8382>::default(),
        DetectionMethod::Dcw => Box::<Dcw>::default(),
        DetectionMethod::Dwc => Box::<Dwc>::default(),
    }
}

/// A method with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The name in tables, for example `dcw` or `ese@1.1`.
    pub name: String,
    method: DetectionMethod,
    alpha: f64,
}

impl Variant {
    /// The thresholds in Table III of `[MPTCP-D]` except the best threshold, which is the default.
    const ALPHAS: [f64; 3] = [1.1, 2.3, 3.4];

    /// All methods with their default parameters, mpwatch's own method first; then both readings of ESE with other thresholds.
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

    /// A detector that uses this variant. It evaluates at every interval, without backoff.
    pub fn detector(&self) -> Detector {
        Detector::with_method(with_alpha(self.method, self.alpha))
    }
}
