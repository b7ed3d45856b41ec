// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both ends of some connections in databases, and their export over OTLP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_store::{Limits, Store};

use crate::{CommandOutput, mpwatch};

/// Writes a database of a host with these connections.
pub fn database(folder: &Path, host: &str, connections: Vec<Connection>) -> PathBuf {
    let path = folder.join(format!("{host}.db"));
    let store = Store::open(&path, &Limits::none()).unwrap();
    let mut snapshot = fixture::snapshot(connections);
    (snapshot.host.name, snapshot.host.boot_id) = (host.to_owned(), format!("boot of {host}"));
    store.deliver(&Arc::new(snapshot));
    store.close();
    path
}

/// Exports a database to a port of this host.
pub fn export(db: &Path, port: u16, more: &[&str]) -> CommandOutput {
    let url = format!("http://127.0.0.1:{port}");
    mpwatch(&[&["export", "otlp", "--db", db.to_str().unwrap(), "--url", &url], more].concat())
}

/// The clients' ends of five closed connections and of an open one, and the servers' ends of the closed ones.
pub fn both_ends() -> (Vec<Connection>, Vec<Connection>) {
    let mut clients: Vec<Connection> = (1..=5).map(fixture::closed).collect();
    let servers: Vec<Connection> = clients
        .iter()
        .map(|client| {
            let mut server = client.clone();
            (server.token, server.remote_token) = (client.remote_token, client.token);
            (server.role, server.id.token) = (Some(Role::Server), client.remote_token.unwrap());
            server
        })
        .collect();
    let mut open = fixture::connection(6, 2);
    open.age_s = 60.0;
    clients.push(open);
    (clients, servers)
}
