// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs real programs in the namespaces of a run. For MPTCP, `mptcpize` starts them and replaces their TCP sockets by MPTCP sockets.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mpwatch_lab::random::Random;
use mpwatch_lab::traffic::{PORT, Transport};
use mpwatch_lab::{Namespace, poll_until};
use tempfile::TempDir;

use crate::experiment::{Application, Program};
use crate::network::RunningNetwork;
use crate::outcome::Outcome;
use crate::programs::{Needed, Skip, path_of, require as require_programs};

/// Maximum time from the start of a server until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Checks that the necessary programs exist, and installs missing programs.
pub(super) fn require(application: &Application) -> Result<(), Skip> {
    let needed = |program, package| Needed { program, package };
    let mut all = vec![needed("mptcpize", "mptcpize")];
    all.extend(match application.program {
        Program::Redis => [needed("redis-server", "redis-server"), needed("redis-benchmark", "redis-tools")],
        Program::Rsync => [needed("rsync", "rsync"), needed("rsync", "rsync")],
        Program::Nginx => [needed("nginx", "nginx-light"), needed("curl", "curl")],
    });
    require_programs(&all)
}

/// Starts the server, waits until it listens, and starts the client on a thread.
pub(super) fn start(
    application: Application,
    network: &RunningNetwork,
) -> anyhow::Result<JoinHandle<anyhow::Result<Outcome>>> {
    let RunningNetwork::Paths(topology) = network else { bail!("applications run between two hosts") };
    let server = SocketAddr::new(topology.path(0)?.server_address(), PORT);
    let run = ApplicationRun { application, server, files: tempfile::tempdir()? };
    run.prepare()?;
    let server_process = ServerProcess(run.start(topology.server(), &run.server_arguments())?);
    wait_for_listener(topology.server())?;
    let client = run.start(topology.client(), &run.client_arguments())?;
    // The thread owns the server and its files, so they exist until the client has ended.
    Ok(thread::spawn(move || run.wait(client, server_process)))
}

/// The process of a server. It is killed when the value is dropped.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Errors are ignored: the process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct ApplicationRun {
    application: Application,
    server: SocketAddr,
    files: TempDir,
}

impl ApplicationRun {
    /// Writes the configuration of the server, and the file that the server transfers.
    fn prepare(&self) -> anyhow::Result<()> {
        let (folder, IpAddr::V4(address)) = (self.files.path(), self.server.ip()) else {
            bail!("no IPv4 path")
        };
        let at = folder.display();
        let configuration = match self.application.program {
            Program::Redis => return Ok(()),
            Program::Rsync => format!(
                "address = {address}\nport = {PORT}\nuse chroot = no\nuid = 0\ngid = 0\npid file = {at}/pid\nlog file = {at}/log\n[files]\npath = {at}\nread only = yes\n"
            ),
            Program::Nginx => format!(
                "user root;\ndaemon off;\nmaster_process off;\nworker_processes 1;\npid {at}/pid;\nerror_log {at}/log;\nevents {{}}\n\
                 http {{\n access_log off;\n sendfile on;\n client_body_temp_path {at}/t1; proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3;\n \
                 uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;\n server {{ listen {address}:{PORT}; root {at}; }}\n}}\n"
            ),
        };
        fs::write(folder.join("conf"), configuration)?;
        write_random(&folder.join("file"), self.application.amount)
    }

    fn server_arguments(&self) -> Vec<String> {
        let folder = self.files.path().display();
        let line = match self.application.program {
            Program::Redis => format!(
                "redis-server --bind {} --port {PORT} --protected-mode no --appendonly no --dir {folder} --save",
                self.server.ip()
            ),
            Program::Rsync => format!("rsync --daemon --no-detach --config={folder}/conf"),
            Program::Nginx => format!("nginx -c {folder}/conf -e {folder}/log"),
        };
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        // `--save ""` disables snapshots on disk.
        words.extend((self.application.program == Program::Redis).then(String::new));
        words
    }

    fn client_arguments(&self) -> Vec<String> {
        let (folder, server, amount) = (self.files.path().display(), self.server, self.application.amount);
        let line = match self.application.program {
            Program::Redis => {
                format!(
                    "redis-benchmark -h {} -p {PORT} -n {amount} -c 4 -d 64 -t set,get --csv",
                    server.ip()
                )
            }
            Program::Rsync => format!("rsync --whole-file rsync://{server}/files/file {folder}/copy"),
            Program::Nginx => format!(
                "curl --silent --show-error --fail --output {folder}/copy --write-out %{{time_total}} http://{server}/file"
            ),
        };
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn start(&self, namespace: &Namespace, words: &[String]) -> anyhow::Result<Child> {
        let program = words[0].clone();
        let path = path_of(&program).with_context(|| format!("the program {program} is gone"))?;
        let mut command = match self.application.transport {
            Transport::Tcp => Command::new(&path),
            Transport::Mptcp => {
                let mut command = Command::new("mptcpize");
                command.arg("run").arg(&path);
                command
            }
        };
        command.args(&words[1..]).current_dir(self.files.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        namespace.enter(|| command.spawn())?.with_context(|| format!("cannot start {program}"))
    }

    fn wait(self, client: Child, server: ServerProcess) -> anyhow::Result<Outcome> {
        let began = Instant::now();
        let output = client.wait_with_output()?;
        let seconds = began.elapsed().as_secs_f64();
        drop(server);
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "the client failed: {} {}", errors.trim(), text.trim());
        let (seconds, payload, requests) = match self.application.program {
            Program::Redis => (seconds, None, Some(requests_per_second(&text)?)),
            Program::Rsync => (seconds, Some(self.copied()?), None),
            Program::Nginx => (text.trim().parse()?, Some(self.copied()?), None),
        };
        let rates = payload.map(|bytes| bytes * 8.0 / seconds).into_iter().collect();
        Ok(Outcome { payload, seconds, completion: vec![seconds], rates, expected: 1, requests })
    }

    /// Number of bytes that arrived. Fails if they differ from the sent file.
    fn copied(&self) -> anyhow::Result<f64> {
        let [sent, arrived] = ["file", "copy"].map(|name| fs::read(self.files.path().join(name)));
        let (sent, arrived) = (sent?, arrived?);
        ensure!(
            sent == arrived,
            "the file that arrived ({} bytes) differs from the file that was sent ({} bytes)",
            arrived.len(),
            sent.len()
        );
        Ok(arrived.len() as f64)
    }
}

/// Writes a file of random bytes, which cannot be compressed.
fn write_random(path: &Path, bytes: u64) -> anyhow::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut random = Random::new(1);
    for _ in 0..bytes.div_ceil(8) {
        file.write_all(&random.bits().to_le_bytes())?;
    }
    Ok(file.flush()?)
}

fn wait_for_listener(server: &Namespace) -> anyhow::Result<()> {
    let port = format!(":{PORT:04X}");
    let listens = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        words.get(1).is_some_and(|local| local.ends_with(&port)) && words.get(3) == Some(&LISTEN)
    };
    let table = || server.enter(|| fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default());
    let found = || table().is_ok_and(|table| table.lines().any(listens)).then_some(());
    Ok(poll_until("the application's server to listen", START_TIMEOUT, found)?)
}

/// The mean rate over the tests of `redis-benchmark --csv`. A line is `"SET","12345.6",...`; since Redis 6.2, a header line comes first.
fn requests_per_second(csv: &str) -> anyhow::Result<f64> {
    let second = |line: &str| line.split(',').nth(1)?.trim_matches('"').parse::<f64>().ok();
    let rates: Vec<f64> = csv.lines().filter_map(second).collect();
    ensure!(!rates.is_empty(), "redis-benchmark reported no rate: {csv}");
    Ok(rates.iter().sum::<f64>() / rates.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_redis_is_the_mean_of_its_tests() {
        let csv = "\"test\",\"rps\",\"avg\"\n\"SET\",\"100.0\",\"1\"\n\"GET\",\"300.0\",\"1\"\n";
        assert!((requests_per_second(csv).unwrap() - 200.0).abs() < 1e-9);
        assert!(requests_per_second("").is_err());
    }
}
