// SPDX-License-Identifier: MIT OR Apache-2.0
//! The methods by name, as users choose one.

use super::concordance::Concordance;
use super::dcw::Dcw;
use super::dwc::Dwc;
use super::ese::{Ese, Parameters, Reading};
use super::rfc8382::Rfc8382;
use super::{Detector, Method};

/// A way to find shared bottlenecks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MethodName {
    /// mpwatch's own: concordance of queueing delays, and rates that take from one another
    #[default]
    Concordance,
    /// Extra subflow elimination of MPTCP-D; who sets the reference stays
    Ese,
    /// The same as printed in the paper: who sets the reference is closed by it
    EseLiteral,
    /// RFC 8382: statistics of delay over 17.5 s
    Rfc8382,
    /// Wavelet-denoised correlation of delays over 13 s
    Dcw,
    /// Losses of several subflows within a round trip
    Dwc,
}

impl MethodName {
    /// All of them.
    pub(crate) const ALL: &[Self] =
        &[Self::Concordance, Self::Ese, Self::EseLiteral, Self::Rfc8382, Self::Dcw, Self::Dwc];

    /// The word for it on a command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Concordance => "concordance",
            Self::Ese => "ese",
            Self::EseLiteral => "ese-literal",
            Self::Rfc8382 => "rfc8382",
            Self::Dcw => "dcw",
            Self::Dwc => "dwc",
        }
    }

    /// What it goes by.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Concordance => {
                "mpwatch's own: concordance of queueing delays, and rates that take from one another"
            }
            Self::Ese => "Extra subflow elimination of MPTCP-D; who sets the reference stays",
            Self::EseLiteral => "The same as printed in the paper: who sets the reference is closed by it",
            Self::Rfc8382 => "Statistics of delay over 17.5 s",
            Self::Dcw => "Wavelet-denoised correlation of delays over 13 s",
            Self::Dwc => "Losses of several subflows within a round trip",
        }
    }

    /// A detector by this method.
    pub(crate) fn detector(self) -> Detector {
        self.with_alpha(Parameters::default().alpha)
    }

    fn with_alpha(self, alpha: f64) -> Detector {
        let ese = |reading| Box::new(Ese::new(Parameters { alpha, reading, ..Parameters::default() }));
        let method: Box<dyn Method + Send> = match self {
            Self::Concordance => Box::<Concordance>::default(),
            Self::Ese => ese(Reading::Else),
            Self::EseLiteral => ese(Reading::Literal),
            Self::Rfc8382 => Box::<Rfc8382>::default(),
            Self::Dcw => Box::<Dcw>::default(),
            Self::Dwc => Box::<Dwc>::default(),
        };
        Detector::with(method)
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
        self.method.with_alpha(self.alpha)
    }
}
