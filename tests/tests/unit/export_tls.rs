// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports over TLS: mpwatch checks the server's certificate, sends a client certificate and secrets from files, and never prints a secret.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use mpwatch_fixtures as fixture;
use mpwatch_store::{Limits, Store};
use mpwatch_tests::scripted_server::{Answer, Request, read, reply};
use mpwatch_tests::{CommandOutput, mpwatch};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A certificate authority, and files with the certificates that it signed.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key`.
    fn sign(&self, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new([host.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// A server with the certificate `server` that answers every request with 200 and requires a client certificate.
    fn serve(&self) -> (u16, Receiver<Request>) {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("ca.pem")).unwrap()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let chain = vec![CertificateDer::from_pem_file(self.file("server.pem")).unwrap()];
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(chain, PrivateKeyDer::from_pem_file(self.file("server.key")).unwrap())
            .unwrap();
        let (config, (sender, requests)) = (Arc::new(config), channel());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let Some(request) = read(&mut stream) else { continue };
                if sender.send(request).is_err() {
                    return;
                }
                reply(&mut stream, Answer::Status(200, ""));
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        (port, requests)
    }
}

fn database(folder: &Path) -> PathBuf {
    let path = folder.join("flows.db");
    let store = Store::open(&path, &Limits::none()).unwrap();
    store.deliver(&Arc::new(fixture::snapshot(vec![fixture::closed(1)])));
    store.close();
    path
}

fn export(db: &Path, port: u16, files: &[(&str, PathBuf)]) -> CommandOutput {
    let url = format!("https://localhost:{port}");
    let fixed = ["export", "otlp", "--resend", "--retry-max-time", "100ms", "--timeout", "5s", "--db"];
    let mut arguments: Vec<&str> = [&fixed[..], &[db.to_str().unwrap(), "--url", &url]].concat();
    for (option, file) in files {
        arguments.extend([*option, file.to_str().unwrap()]);
    }
    mpwatch(&arguments)
}

#[test]
fn certificates_are_checked_on_both_sides_and_secrets_are_never_shown() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.sign("server", "localhost");
    authority.sign("client", "client");
    other.sign("client", "client");
    let secret = authority.file("secret");
    fs::write(&secret, "hunter2\n").unwrap();
    let db = database(authority.folder.path());
    let (port, requests) = authority.serve();
    let ca = ("--ca-file", authority.file("ca.pem"));
    let client =
        |of: &Authority| [("--cert-file", of.file("client.pem")), ("--key-file", of.file("client.key"))];
    let token = ("--token-file", secret.clone());
    let good = [&[ca.clone(), token.clone()][..], &client(&authority)].concat();
    let outcome = export(&db, port, &good);
    assert!(outcome.code == Some(0) && outcome.stderr.contains("sent 1 connections"), "{outcome:?}");
    let request = requests.recv().unwrap();
    assert!(request.head.contains("authorization: Bearer hunter2\r\n"), "{}", request.head);
    for (files, word) in [
        ([&[ca.clone(), token.clone()][..], &client(&other)].concat(), "no complete answer"),
        (vec![ca.clone(), token.clone()], "no complete answer"),
        (
            [&[("--ca-file", other.file("ca.pem")), token.clone()][..], &client(&authority)].concat(),
            "certificate",
        ),
        (vec![("--ca-file", secret.clone())], "no certificate in PEM format"),
        (vec![ca.clone(), ("--token-file", authority.file("missing"))], "cannot read"),
        (
            [
                &[ca.clone()][..],
                &[("--cert-file", authority.file("client.pem")), ("--key-file", secret.clone())],
            ]
            .concat(),
            "no private key",
        ),
    ] {
        let outcome = export(&db, port, &files);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
        assert!(!outcome.stderr.contains("hunter2"), "{outcome:?}");
    }
    assert!(requests.try_recv().is_err(), "nothing reached the server");
    // The server has a certificate for another name.
    authority.sign("server", "elsewhere");
    let (port, requests) = authority.serve();
    let outcome = export(&db, port, &good);
    assert!(outcome.code == Some(1) && outcome.stderr.contains("certificate"), "{outcome:?}");
    assert!(requests.try_recv().is_err());
}

#[test]
fn the_configuration_shows_names_of_files_and_no_secret() {
    let folder = TempDir::new().unwrap();
    let (secret, config) = (folder.path().join("secret"), folder.path().join("mpwatch.toml"));
    fs::write(&secret, "hunter2").unwrap();
    let file = secret.to_str().unwrap();
    let tables = format!(
        "[export.clickhouse]\nurl = \"http://clickhouse:8123\"\nuser = \"me\"\npassword_file = \"{file}\"\n\
         [export.otlp]\nurl = \"http://collector:4318\"\ntoken_file = \"{file}\"\n"
    );
    fs::write(&config, &tables).unwrap();
    let run = |what: &str| mpwatch(&["config", what, "--config", config.to_str().unwrap()]);
    let shown = run("show");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains(file) && !shown.stdout.contains("hunter2"), "{shown:?}");
    assert_eq!(run("check").code, Some(0));
    fs::write(&config, tables.replace(file, "/nowhere/secret")).unwrap();
    let refused = run("check");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("[export.clickhouse]") && refused.stderr.contains("/nowhere/secret"),
        "{refused:?}"
    );
}
