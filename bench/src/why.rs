// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates docs/why.md from the table of causes. A test fails if the file is not current.

use std::fmt::Write as _;

use mpwatch_engine::why::table::{CAUSES, Group, Row};
use mpwatch_model::why::answer::Place;

const INTRODUCTION: &str = "\
# Why is there no second path?

<!-- Generated from engine/src/why/table.rs by tests/tests/unit/docs_generated.rs. Change the table there, or the text in bench/src/why.rs, then
     run MPWATCH_BLESS=1 cargo test --workspace --test unit docs_generated -->

| question | command |
|---|---|
| Is MPTCP enabled here, and can a new connection get a second path? | `mpwatch why` without open MPTCP connections |
| What would a connection to this server meet? | `mpwatch why SERVER` before it exists |
| Does my program use MPTCP? | `mpwatch why --process NAME` while it is connected |
| Did the connection fall back to TCP, and why? | `mpwatch why SERVER`, or `mpwatch why ID` |
| Why has it only one subflow? | `mpwatch why ID`; then on the server `mpwatch why CLIENT` |
| Are endpoints, limits, routes and addresses right, without traffic? | `mpwatch doctor --paths SERVER` |
| Which programs listen, with MPTCP or TCP? | `mpwatch doctor --paths` |
| How many clients of each program got MPTCP? | the metric `mpwatch_listener_accepted_connections_total` (plain TCP: with `--tcp`) |
| Which subflows exist, and what does each carry? | `mpwatch show ID` |
| Which addresses were announced or removed, which joins failed? | `mpwatch show ID` (timeline) |
| Which counters of the kernel show it? | `mpwatch why --json` (evidence) |

```
# mpwatch why 10.1.2.2
10.1.1.2:54314 -> 10.1.2.2:5201: one subflow
  why         this host allows no subflow besides the initial one
  evidence    limits: subflows 0
  fix         ip mptcp limits set subflows 2
```

Run the command after `fix` as root, open a **new** connection, and ask again: the next obstacle may appear. `fix (peer)` is for the other
end. No cause found means that none of the conditions below holds; it does not exclude other causes.

* `mpwatch why` reads configuration, counters, routes and the kernel's socket tables. It traces nothing, changes nothing, and needs no daemon.
  This network namespace needs no privilege (before Linux 6.13, recognizing subflows needs `cap_net_admin`); other namespaces need root.
* Without an argument it explains all MPTCP connections in all namespaces that it may enter. `--netns NAME` selects one. Connections with the
  same answer are grouped.
* *likely* marks a cause that is derived from counters of the whole namespace, which other connections may have raised since it was created,
  or from the exclusion of other causes. If a certain cause exists, likely causes are not printed. Only open connections are explained: a
  failed join leaves no trace but the counters.
* `mpwatch doctor --paths` checks each endpoint by itself, so it also finds a broken one if another one works. With a peer it checks the
  routes and the reverse path filter too. It checks this namespace and all others with endpoints or MPTCP sockets.
* A running mpwatch asks the same about each MPTCP connection without a second path, once, when it is 3 s old or idle. Findings, reports,
  `cause` in JSON and database, and `mpwatch_findings` have the first cause. The daemon, which gives up the right to enter other network
  namespaces, has the causes of its own one only; `top` and `record` have all.
* A connection that is about to close is left out. Which end opened a connection is judged by the listening sockets.
* Not found: the end of a second path that worked before (`mpwatch show ID` has it), a path manager in user space that makes wrong decisions,
  limits that are reached, TCP MD5, and the reasons for which a second path is slow or carries little.

## JSON
`--json` prints `{\"schema\": 1, \"answers\": [...]}`. Each answer has `netns`, `connections` (at most 10, as `local -> remote`; empty: a new
connection), `count`, `peer` (`null` if connections are listed, or for any peer), `state`, and [`causes`](json.md#cause), most important first.
";

/// docs/why.md.
pub fn why_md() -> String {
    let mut out = INTRODUCTION.to_owned();
    for group in Group::ALL {
        let _ = write!(out, "\n## {}\n\n| cause | meaning | what to do |\n|---|---|---|\n", group.as_str());
        for row in CAUSES.iter().filter(|row| row.group == group) {
            let _ = writeln!(out, "| `{}` | {} | {} |", row.id, with_names(row.sentence), remedy(row));
        }
    }
    out
}

/// The commands, or the advice.
fn remedy(row: &Row) -> String {
    let commands = row.fix.iter().map(|(place, command)| {
        let place = if *place == Place::Peer { "at the peer: " } else { "" };
        format!("{place}`{}`", with_names(command))
    });
    row.advice.map(str::to_owned).into_iter().chain(commands).collect::<Vec<_>>().join("; ")
}

/// Names in braces as capitals, the way manuals write variables.
fn with_names(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let name = match name {
            "via" => "via GATEWAY ".to_owned(),
            "ip" => "ip".to_owned(),
            "kernel" => "path_manager=kernel".to_owned(),
            name => name.to_uppercase(),
        };
        out + &name + rest
    })
}
