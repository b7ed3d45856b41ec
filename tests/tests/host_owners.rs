// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners of accepted connections where several processes listen on one port (`SO_REUSEPORT`), as servers with a process for each CPU do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::PORT;
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Observer, may_run_as_root, number, skip, text};
use socket2::{Domain, Protocol, Socket, Type};

const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECTIONS: usize = 40;
const PAYLOAD: [u8; 200] = [7; 200];
/// Accepts connections one after the other, and prints the client's port and the number of received bytes of each.
const SERVER: &str = "
import socket, sys
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(('0.0.0.0', int(sys.argv[1])))
listener.listen(64)
print('ready', flush=True)
while True:
    connection, (_, port) = listener.accept()
    received = 0
    while data := connection.recv(4096):
        received += len(data)
    connection.close()
    print(port, received, flush=True)
";

/// A server process. Dropping it ends it.
struct Server {
    process: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(lab: &Topology) -> Self {
        // nsenter replaces itself by the server, so the child is the server.
        let mut process = Command::new("nsenter")
            .arg(format!("--net={}", lab.server().path().display()))
            .args(["python3", "-c", SERVER, &PORT.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let server = Self { process, lines: Arc::clone(&lines) };
        std::thread::spawn(move || {
            output.map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        });
        poll_until("a server to listen", TIMEOUT, || (!server.lines().is_empty()).then_some(())).unwrap();
        server
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The client's ports of the connections that this server has served.
    fn ports(&self) -> Vec<String> {
        let bytes = format!(" {}", PAYLOAD.len());
        self.lines().iter().filter_map(|line| Some(line.strip_suffix(&bytes)?.to_owned())).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn connect_once(lab: &Topology) {
    let server = SocketAddr::new(lab.path(0).unwrap().server_address(), PORT);
    lab.client()
        .enter(|| {
            let mut socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket.connect(&server.into()).unwrap();
            socket.write_all(&PAYLOAD).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            assert_eq!(socket.read(&mut [0; 16]).unwrap(), 0, "the server closes");
        })
        .unwrap();
}

#[test]
fn each_of_two_processes_that_share_a_port_owns_what_it_has_accepted() {
    if !may_run_as_root() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("this test needs python3 (apt-get install python3)");
    }
    let lab = Topology::disjoint(&[LinkSpec::default()]).unwrap();
    let observer = Observer::start(&[]);
    let servers = [Server::start(&lab), Server::start(&lab)];
    (0..CONNECTIONS).for_each(|_| connect_once(&lab));
    poll_until("all connections to be served", TIMEOUT, || {
        (servers.iter().map(|server| server.ports().len()).sum::<usize>() == CONNECTIONS).then_some(())
    })
    .unwrap();
    let of_server = |server: &Server| {
        let pid = u64::from(server.process.id());
        server.ports().into_iter().map(move |port| (port, pid)).collect::<Vec<_>>()
    };
    let expected: BTreeMap<String, u64> = servers.iter().flat_map(of_server).collect();
    assert!(
        servers.iter().all(|server| !server.ports().is_empty()),
        "the kernel spreads connections: {expected:?}"
    );
    let report = observer.finish_after_close(&lab);
    let owners: BTreeMap<String, u64> = report
        .connections_in(lab.server().name())
        .into_iter()
        .map(|connection| {
            assert_eq!(text(&connection["process"], "comm"), "python3", "{connection:#}");
            let port = text(connection, "remote").rsplit(':').next().unwrap().to_owned();
            (port, number(&connection["process"], "pid"))
        })
        .collect();
    assert_eq!(owners, expected);
}
