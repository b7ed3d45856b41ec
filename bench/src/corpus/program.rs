// SPDX-License-Identifier: MIT OR Apache-2.0
//! A method that is another program: it reads samples and prints verdicts, as JSON lines (docs/corpus.md).

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::SampleBatch;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bottleneck::truth::Time;
use crate::corpus::judge::{Judge, PairResult};
use crate::corpus::recording::Subflow;

/// A running program.
pub(crate) struct Program {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    known: std::collections::BTreeSet<SubflowId>,
}

/// A line that the program prints.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Pair {
        a: SubflowId,
        b: SubflowId,
        verdict: Verdict,
        probability: Option<f64>,
        #[serde(default)]
        capped: bool,
    },
    Evaluated(Time),
}

impl Program {
    /// Starts a program without arguments.
    pub(crate) fn start(program: &Path) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", program.display());
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (input, output) =
            child.stdin.take().zip(child.stdout.take()).ok_or("the program has no pipes")?;
        let known = std::collections::BTreeSet::new();
        Ok(Self { child, input: BufWriter::new(input), output: BufReader::new(output), known })
    }

    fn send(&mut self, line: &Value) -> Result<(), String> {
        writeln!(self.input, "{line}").map_err(|error| format!("the program does not read: {error}"))
    }
}

impl Judge for Program {
    fn add(&mut self, subflow: &Subflow, batch: &SampleBatch) -> Result<(), String> {
        if self.known.insert(subflow.id) {
            let Subflow { id, connection, is_mptcp, path, mss, .. } = subflow;
            self.send(&json!({"subflow": {"id": id, "connection": connection, "mptcp": is_mptcp,
                "local": path.local, "remote": path.remote, "mss": mss}}))?;
        }
        self.send(&json!({"samples": batch}))
    }

    fn evaluate(&mut self, now: Time) -> Result<Vec<PairResult>, String> {
        self.send(&json!({"evaluate": now}))?;
        self.input.flush().map_err(|error| format!("the program does not read: {error}"))?;
        let mut results = Vec::new();
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
            if length == 0 {
                return Err("the program ended before it answered `evaluate`".to_owned());
            }
            match serde_json::from_str(&line)
                .map_err(|error| format!("the program printed {line:?}: {error}"))?
            {
                Answer::Evaluated(time) if time == now => return Ok(results),
                Answer::Evaluated(time) => {
                    return Err(format!("the program evaluated {time} instead of {now}"));
                }
                Answer::Pair { a, b, verdict, probability, capped: is_capped } => {
                    let pair = (a.min(b), a.max(b));
                    results.push(PairResult { pair, verdict, probability, is_capped });
                }
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the program has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
