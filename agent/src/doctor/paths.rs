// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch doctor --paths`: whether the configuration of each network namespace allows a second path.

use mpwatch_engine::why;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::why::answer::{Cause, Certainty, Place};
use mpwatch_model::why::facts::{Listener, Namespace};

use super::check::Check;
use crate::cli::ANY_PEER;
use crate::why::parse_peer;

/// The checks of this namespace and of all others that have endpoints or MPTCP sockets. `peer`: an address or a name, whose routes are checked too, or [`ANY_PEER`].
pub(super) fn check(peer: &str) -> anyhow::Result<Vec<Check>> {
    let peer = if peer == ANY_PEER { None } else { Some(parse_peer(peer)?.0) };
    let is_used = |here: &Namespace| {
        !here.endpoints.is_empty()
            || here.connections.iter().any(|connection| connection.token.is_some())
            || here.listeners.iter().any(|listener| listener.mptcp)
    };
    let facts = crate::why::read(None, peer, is_used)?;
    Ok(facts.iter().flat_map(|here| namespace(here, &why::check(here, peer))).collect())
}

fn namespace(here: &Namespace, found: &why::Configuration) -> Vec<Check> {
    let name = printable(&here.name);
    let limits = here.limits.unwrap_or_default();
    let limits =
        format!("limits: subflows {}, add_addr_accepted {}", limits.subflows, limits.add_addr_accepted);
    let mut checks = judged(&name, limits, &found.general);
    for (endpoint, causes) in &found.endpoints {
        checks.extend(judged(&name, printable(endpoint).into_owned(), causes));
    }
    checks.extend(listeners(here).map(|text| Check::ok(name.as_ref(), text)));
    checks
}

/// A check that passed, or one for each cause. `what`: what was checked.
fn judged(name: &str, what: String, causes: &[Cause]) -> Vec<Check> {
    if causes.is_empty() {
        return vec![Check::ok(name, what)];
    }
    causes.iter().map(|cause| warning(name, cause)).collect()
}

fn warning(name: &str, cause: &Cause) -> Check {
    let likely = if cause.certainty == Certainty::Likely { " (likely)" } else { "" };
    let advice = cause.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
    let check = Check::warn(name, format!("{}{likely}{advice}", printable(&cause.sentence)));
    let here = cause.fix.iter().filter(|fix| fix.on == Place::Here);
    let commands: Vec<String> = here.map(|fix| printable(&fix.command).into_owned()).collect();
    if commands.is_empty() { check } else { check.fix(commands.join(" && ")) }
}

/// The listening sockets, without sockets of the loopback interface.
fn listeners(here: &Namespace) -> Option<String> {
    const MAX: usize = 16;
    let shown = |listener: &Listener| {
        let protocol = if listener.mptcp { "MPTCP" } else { "TCP" };
        let program = listener.program.as_deref().map(|program| format!(" ({})", printable(program)));
        format!("{} {protocol}{}", listener.address, program.unwrap_or_default())
    };
    let open: Vec<String> = {
        let open = here.listeners.iter().filter(|listener| !listener.address.ip().is_loopback());
        open.map(shown).collect()
    };
    let more = open.len().saturating_sub(MAX);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    (!open.is_empty()).then(|| format!("listeners: {}{more}", open[..open.len().min(MAX)].join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_the_network_have_their_protocol_and_program() {
        let listener = |address: &str, mptcp, program: Option<&str>| Listener {
            address: address.parse().unwrap(),
            mptcp,
            program: program.map(str::to_owned),
        };
        let open = vec![
            listener("0.0.0.0:80", false, Some("nginx")),
            listener("[::]:443", true, None),
            listener("127.0.0.1:631", false, Some("cupsd")),
        ];
        let here = Namespace { listeners: open, ..Namespace::default() };
        assert_eq!(listeners(&here).unwrap(), "listeners: 0.0.0.0:80 TCP (nginx), [::]:443 MPTCP");
        assert_eq!(listeners(&Namespace::default()), None);
    }
}
