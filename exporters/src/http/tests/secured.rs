// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests with TLS and basic auth.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use super::client::{connect, exchange, get, start_with};
use crate::http::server::{MAX_CLIENTS, Server};
use crate::http::site::MAX_CONCURRENT_SNAPSHOTS;
use crate::http::web_config::Access;

const USERS: &str = "basic_auth_users:\n  prometheus: ";
const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

/// A folder with a web-config file.
struct Folder(TempDir);

impl Folder {
    fn new(web_config: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("web.yml", web_config);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces the file atomically, as tools that rotate certificates do.
    fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    fn access(&self) -> Access {
        Access::from_file(&self.path("web.yml")).unwrap()
    }
}

fn hash(password: &str) -> String {
    // 4 is the minimum cost of bcrypt.
    bcrypt::hash(password, 4).unwrap()
}

fn login(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// Writes a certificate and key of the server into a folder.
    fn install(&self, folder: &Folder) {
        let (certificate, key) = self.sign("localhost");
        folder.write("server.key", &key.serialize_pem());
        folder.write("server.crt", &certificate.pem());
    }

    fn client(
        &self,
        identity: Option<(rcgen::Certificate, KeyPair)>,
        version: &'static SupportedProtocolVersion,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.0.der().to_vec())).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![certificate.der().clone()],
                    PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
                )
                .unwrap(),
        }
    }
}

/// A response over TLS, head and body.
fn get_tls(server: &Server, client: ClientConfig, headers: &str) -> io::Result<String> {
    let connection = ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, connect(server));
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n")?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

#[test]
fn requests_without_valid_credentials_get_401() {
    let folder = Folder::new(&format!("{USERS}{}\n", hash("right")));
    let (server, _) = start_with(folder.access());
    let wrong = [
        String::new(),
        login("prometheus", "wrong"),
        login("prometheus", ""),
        login("nobody", "right"),
        "Authorization: Basic x\r\n".to_owned(),
        "Authorization: Bearer right\r\n".to_owned(),
    ];
    for headers in &wrong {
        for path in ["/metrics", "/", "/healthz", "/api/v1/flows", "/nothing"] {
            let (head, body) = get(&server, path, headers);
            assert!(
                head.starts_with("http/1.1 401") && head.contains("www-authenticate: basic"),
                "{headers}: {head}"
            );
            assert!(!String::from_utf8_lossy(&body).contains("a_metric"));
        }
    }
    for _ in 0..2 {
        assert!(get(&server, "/metrics", &login("prometheus", "right")).0.starts_with("http/1.1 200"));
    }
}

#[test]
fn a_changed_password_is_required_immediately() {
    let folder = Folder::new(&format!("{USERS}{}\n", hash("old")));
    let (server, pages) = start_with(folder.access());
    assert!(get(&server, "/", &login("prometheus", "old")).0.starts_with("http/1.1 200"));
    folder.write("web.yml", "basic_auth_user: {}\n");
    assert!(
        get(&server, "/", &login("prometheus", "old")).0.starts_with("http/1.1 200"),
        "an invalid file changed the rules"
    );
    folder.write("web.yml", &format!("{USERS}{}\n", hash("new")));
    assert!(get(&server, "/", &login("prometheus", "old")).0.starts_with("http/1.1 401"));
    assert!(get(&server, "/", &login("prometheus", "new")).0.starts_with("http/1.1 200"));
    let reloads = pages.reloads.lock().unwrap();
    assert!(matches!(&reloads[..], [Err(error), Ok(())] if error.contains("basic_auth_user")), "{reloads:?}");
}

#[test]
fn a_file_that_is_being_written_does_not_switch_basic_auth_off() {
    let rules = format!("{USERS}{}\n", hash("right"));
    let folder = Folder::new(&rules);
    let (server, pages) = start_with(folder.access());
    let status = || get(&server, "/metrics", "").0[..12].to_owned();
    for part in ["", "# users\n", "basic_auth_users:\n"] {
        folder.write("web.yml", part);
        assert_eq!(status(), "http/1.1 401", "{part:?}");
    }
    folder.write("web.yml", &rules);
    assert_eq!(status(), "http/1.1 401");
    folder.write("web.yml", "basic_auth_users: {}\n");
    assert_eq!(status(), "http/1.1 200", "switched off on purpose");
    let reloads = pages.reloads.lock().unwrap();
    let advice = "write `basic_auth_users: {}`";
    assert!(
        matches!(&reloads[..], [Err(error), Err(_), Err(_), Ok(()), Ok(())] if error.contains(advice)),
        "{reloads:?}"
    );
}

#[test]
fn with_tls_plain_http_is_refused() {
    let authority = Authority::new();
    let folder = Folder::new(TLS);
    authority.install(&folder);
    let (server, _) = start_with(folder.access());
    for version in [&TLS12, &TLS13] {
        assert!(get_tls(&server, authority.client(None, version), "").unwrap().starts_with("HTTP/1.1 200"));
    }
    assert!(get_tls(&server, Authority::new().client(None, &TLS13), "").is_err(), "another authority");
    let plain = exchange(&server, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(!plain.starts_with(b"HTTP"), "plain HTTP was answered");
    // Clients that do not finish the handshake cannot lock out other clients.
    let _stuck: Vec<TcpStream> = (0..MAX_CLIENTS * 2).map(|_| connect(&server)).collect();
    assert!(get_tls(&server, authority.client(None, &TLS13), "").unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn the_minimum_tls_version_is_enforced() {
    let authority = Authority::new();
    let folder = Folder::new(&format!("{TLS}  min_version: TLS13\n{USERS}{}\n", hash("right")));
    authority.install(&folder);
    let (server, _) = start_with(folder.access());
    assert!(get_tls(&server, authority.client(None, &TLS12), "").is_err());
    let response = |headers: &str| get_tls(&server, authority.client(None, &TLS13), headers).unwrap();
    assert!(response("").starts_with("HTTP/1.1 401"));
    assert!(response(&login("prometheus", "right")).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_new_certificate_is_used_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let folder = Folder::new(TLS);
    old.install(&folder);
    let (server, _) = start_with(folder.access());
    assert!(get_tls(&server, old.client(None, &TLS13), "").is_ok());
    new.install(&folder);
    assert!(get_tls(&server, new.client(None, &TLS13), "").unwrap().starts_with("HTTP/1.1 200"));
    assert!(get_tls(&server, old.client(None, &TLS13), "").is_err());
}

#[test]
fn client_certificates_are_required_and_verified() {
    let authority = Authority::new();
    let web_config = |kind: &str| format!("{TLS}  client_auth_type: {kind}\n  client_ca_file: clients.crt\n");
    let folder = Folder::new(&web_config("RequireAndVerifyClientCert"));
    authority.install(&folder);
    folder.write("clients.crt", &authority.0.pem());
    let (server, _) = start_with(folder.access());
    let signed_by = |ca: &Authority| authority.client(Some(ca.sign("client")), &TLS12);
    assert!(get_tls(&server, signed_by(&authority), "").unwrap().starts_with("HTTP/1.1 200"));
    assert!(get_tls(&server, signed_by(&Authority::new()), "").is_err());
    assert!(get_tls(&server, authority.client(None, &TLS12), "").is_err());
    folder.write("web.yml", &web_config("VerifyClientCertIfGiven"));
    assert!(get_tls(&server, authority.client(None, &TLS12), "").unwrap().starts_with("HTTP/1.1 200"));
    assert!(get_tls(&server, signed_by(&Authority::new()), "").is_err());
}

#[test]
fn errors_name_the_file_or_key_that_is_wrong() {
    let error = |web_config: &str, prepare: &dyn Fn(&Folder)| {
        let folder = Folder::new(web_config);
        prepare(&folder);
        Access::from_file(&folder.path("web.yml")).err().expect("an error").to_string()
    };
    let nothing = |_: &Folder| ();
    assert!(error(TLS, &nothing).contains("server.crt"));
    assert!(error("basic_auth_users:\n  a: plain\n", &nothing).contains("not a bcrypt hash"));
    assert!(error("rate_limit: 5\n", &nothing).contains("rate_limit"));
    let mixed = |folder: &Folder| {
        let authority = Authority::new();
        authority.install(folder);
        folder.write("server.key", &authority.sign("localhost").1.serialize_pem());
    };
    assert!(error(TLS, &mixed).contains("certificate or key"));
    let key_only = |folder: &Folder| {
        Authority::new().install(folder);
        folder.write("server.crt", "nothing");
    };
    assert!(error(TLS, &key_only).contains("no certificate in PEM"));
    let no_authority = format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n");
    assert!(error(&no_authority, &|folder| Authority::new().install(folder)).contains("client_ca_file"));
    assert!(Access::from_file(Path::new("/nowhere/web.yml")).is_err());
}

#[test]
fn snapshots_are_served_to_a_limited_number_of_clients_at_a_time() {
    let folder = Folder::new(&format!("{USERS}{}\n", hash("right")));
    let (server, _) = start_with(folder.access());
    let right = login("prometheus", "right");
    assert!(get(&server, "/metrics", &right).0.starts_with("http/1.1 200"), "no cached password");
    let request = format!("GET /api/v1/flows HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{right}\r\n");
    let slow = |_| {
        let mut stream = connect(&server);
        stream.write_all(request.as_bytes()).unwrap();
        let mut start = [0; 15];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        stream
    };
    let slow: Vec<TcpStream> = (0..MAX_CONCURRENT_SNAPSHOTS).map(slow).collect();
    let (head, _) = get(&server, "/api/v1/flows", &right);
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert!(get(&server, "/metrics", &right).0.starts_with("http/1.1 200"), "a scrape waited");
    for mut stream in slow {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.ends_with(b"0,]}") && rest.len() > 32 << 20);
    }
    // The server sends a further snapshot once it notices that the slow clients have read everything.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !get(&server, "/api/v1/flows", &right).0.starts_with("http/1.1 200") {
        assert!(Instant::now() < deadline, "still refused");
    }
}
