// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `./dev bench`.

use crate::effort::Effort;
use crate::subjects::{SUBJECTS, Subject};
use crate::{bottleneck, corpus, elimination, fleet, machine, soak, store};

const USAGE: &str =
    "Usage: ./dev bench [overhead|bystander|ledger|peers|snapshot|scale|connections|idle|scrape|detection|tui]...
                   [--rounds N] [--quick]
       ./dev bench store [CONNECTIONS]
       ./dev bench fleet [--hosts N]... [--connections N]
       ./dev bench soak [--minutes N] [--connections N] [--jobs N] [--record] [--store-size MIB] [--output FOLDER]
       ./dev bench elimination [--connections N]... [--only WORD] [--rounds N] [--options OPTIONS]
       ./dev bench bottleneck [OPTIONS]
       ./dev corpus [OPTIONS]";

/// Whether these arguments request a measurement that needs root, because it creates namespaces or traces the kernel.
pub fn needs_root(arguments: &[String]) -> bool {
    let is_unprivileged = arguments.first().is_some_and(|first| ["store", "fleet"].contains(&first.as_str()))
        || arguments.starts_with(&["corpus".to_owned(), "score".to_owned()]);
    let is_offline = |two: &[String]| two[0] == "--only" && ["score", "fit"].contains(&two[1].as_str());
    !is_unprivileged && !arguments.windows(2).any(is_offline)
}

/// Runs the requested measurements and prints each result as soon as it is ready. Fails on wrong usage.
pub fn run(arguments: impl Iterator<Item = String>, mut print: impl FnMut(&str)) -> Result<(), String> {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "bottleneck").is_some() {
        return bottleneck::run(arguments, print);
    }
    if arguments.next_if(|first| first == "corpus").is_some() {
        return corpus::run(arguments, print);
    }
    if arguments.next_if(|first| first == "store").is_some() {
        return store::run(arguments, print).map_err(|error| format!("{error}\n{USAGE}"));
    }
    if arguments.next_if(|first| first == "fleet").is_some() {
        return fleet::run(arguments, print).map_err(|error| format!("{error}\n{USAGE}"));
    }
    if arguments.next_if(|first| first == "soak").is_some() {
        return soak::run(arguments, print).map_err(|error| format!("{error}\n{USAGE}"));
    }
    if arguments.next_if(|first| first == "elimination").is_some() {
        return elimination::run(arguments, print).map_err(|error| format!("{error}\n{USAGE}"));
    }
    let request = Request::parse(arguments).map_err(|error| format!("{error}\n{USAGE}"))?;
    print(&format!("{}\nLoad average before: {}.\n", machine::description(), machine::load_average()));
    for (name, subject) in &request.subjects {
        print(&format!("\n## {name}\n\n{}", subject(request.effort)));
    }
    print(&format!("\nLoad average after: {}.\n", machine::load_average()));
    Ok(())
}

/// The parsed command line.
#[derive(Debug)]
struct Request {
    subjects: Vec<(&'static str, Subject)>,
    effort: Effort,
}

impl Request {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut request = Self { subjects: Vec::new(), effort: Effort::FULL };
        let mut rounds = None;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => request.effort = Effort::QUICK,
                "--rounds" => {
                    let number = arguments.next().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
                    rounds = Some(number.ok_or("--rounds needs a number above 0")?);
                }
                name => match SUBJECTS.iter().find(|(subject, _)| *subject == name) {
                    Some(subject) => request.subjects.push(*subject),
                    None => return Err(format!("no subject or option `{name}`")),
                },
            }
        }
        if request.subjects.is_empty() {
            request.subjects = SUBJECTS.to_vec();
        }
        request.effort.rounds = rounds.unwrap_or(request.effort.rounds);
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Request, String> {
        Request::parse(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn subjects_and_options_are_checked() {
        assert_eq!(parse(&[]).unwrap().subjects.len(), SUBJECTS.len());
        let request = parse(&["--rounds", "3", "overhead", "--quick"]).unwrap();
        assert_eq!((request.effort.rounds, request.subjects[0].0), (3, "overhead"));
        for wrong in [&["overheads"][..], &["--rounds"], &["--rounds", "0"], &["--round", "3"]] {
            assert!(parse(wrong).is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn subjects_that_trace_need_root() {
        let needs_root =
            |line: &str| needs_root(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert!(needs_root("") && needs_root("idle") && needs_root("bottleneck --only live"));
        assert!(
            !needs_root("store 1000")
                && needs_root("corpus --runs 5")
                && !needs_root("corpus score folder")
                && !needs_root("fleet --hosts 10")
                && !needs_root("bottleneck --grid ci --only score")
        );
    }
}
