//! The checks of a scanner: versions, cipher suites, compression, names, dates, sessions, and the
//! certificates of clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, SupportedProtocolVersion};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::hello::{Hello, Reply, SSL_3_0, TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3};
use super::{Authority, trusting};
use crate::support::{Home, Server, run};

/// TLS 1.2: ECDHE with AES-256-GCM, AES-128-GCM and ChaCha20-Poly1305, for a certificate of ECDSA.
pub(super) const OF_TLS_1_2: [u16; 3] = [0xc02b, 0xc02c, 0xcca9];
/// TLS 1.3: the three suites without those whose tags are short.
pub(super) const OF_TLS_1_3: [u16; 3] = [0x1301, 0x1302, 0x1303];

/// A server with a certificate of `authority`.
pub(super) struct Secure {
    pub(super) server: Server,
    pub(super) home: Home,
    pub(super) authority: Authority,
    _dir: tempfile::TempDir,
}

impl Secure {
    pub(super) fn start() -> Self {
        Self::start_trusting(None)
    }

    /// Starts a server that takes the certificates of an authority for logins.
    fn start_trusting(clients: Option<&Authority>) -> Self {
        let (home, authority) = (Home::new(), Authority::new());
        let dir = tempfile::tempdir().expect("a directory");
        authority.renew(dir.path());
        Self::serve(home, authority, dir, clients)
    }

    fn serve(
        home: Home,
        authority: Authority,
        dir: tempfile::TempDir,
        clients: Option<&Authority>,
    ) -> Self {
        let file = |name: &str| dir.path().join(name).display().to_string();
        let (cert, key, ca) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
        let mut environment = vec![("LOGMILL_TLS__CERT", &*cert), ("LOGMILL_TLS__KEY", &key)];
        if let Some(clients) = clients {
            std::fs::write(&ca, &clients.certificate).expect("written");
            environment.push(("LOGMILL_TLS__CLIENT_CA", &ca));
        }
        let server = Server::start_with(&home.data, &environment);
        Self {
            server,
            home,
            authority,
            _dir: dir,
        }
    }

    /// Returns the configuration of a client of these versions.
    fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        trusting(&self.authority.certificate, versions).with_no_client_auth()
    }
}

impl Authority {
    /// Returns the certificate and the key of a client, signed by this authority.
    fn signs(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("signed");
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM");
        (certificate.der().clone(), key)
    }
}

/// Sends a request and reads to the end. Returns the answer and the way of the handshake.
fn ask(
    server: &Server,
    config: &Arc<ClientConfig>,
    request: &str,
) -> std::io::Result<(String, HandshakeKind, Option<Vec<u8>>)> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name);
    let mut connection = connection.expect("a configuration");
    let mut socket = TcpStream::connect(&server.address)?;
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    let host = &server.address;
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    // A server may end a connection without a last message; the text tells whether it is whole.
    let read = stream.read_to_string(&mut answer);
    if answer.is_empty() {
        read?;
    }
    let kind = connection.handshake_kind().expect("a handshake");
    Ok((answer, kind, connection.alpn_protocol().map(<[u8]>::to_vec)))
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_nothing_older() {
    let secure = Secure::start();
    let suites: Vec<u16> = (0..=0xff).chain(0xc000..=0xc0ff).chain([0x1301]).collect();
    for (version, expected) in [
        (SSL_3_0, None),
        (TLS_1_0, None),
        (TLS_1_1, None),
        (TLS_1_2, Some(TLS_1_2)),
        (TLS_1_3, Some(TLS_1_3)),
        (0x0305, None),
    ] {
        let hello = Hello {
            version,
            suites: suites.clone(),
            compressions: vec![0],
        };
        let spoken = match hello.send(&secure.server.address) {
            Reply::Hello { version, .. } => Some(version),
            Reply::Alert(_) | Reply::Closed => None,
        };
        assert_eq!(spoken, expected, "{version:#06x}");
    }
    // SSL 2.0 has another first byte; its hello is answered like any other that is not TLS.
    let answer = secure.server.raw_whole("\u{0}.\u{1}\u{0}\u{2}\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

/// Returns the cipher suites that a server takes, of every number that a suite has, each offered
/// alone; of all 65,536 with `LOGMILL_FULL`.
fn taken(server: &Server, version: u16) -> Vec<u16> {
    let is_full = std::env::var_os("LOGMILL_FULL").is_some();
    let is_assigned = |number: u16| {
        let first = number >> 8;
        matches!(
            first,
            0 | 0x13 | 0x16 | 0x56 | 0xc0 | 0xc1 | 0xcc | 0xd0 | 0xfe
        )
    };
    let mut taken = Vec::new();
    let mut asked = 0;
    for suite in (0..=u16::MAX).filter(|n| is_full || is_assigned(*n)) {
        asked += 1;
        if let Reply::Hello { suite: chosen, .. } = Hello::of(version, suite).send(&server.address)
        {
            assert_eq!(chosen, suite);
            taken.push(suite);
        }
    }
    println!("{asked} cipher suites offered, {} taken", taken.len());
    taken
}

pub(super) fn taken_of_tls_1_2(server: &Server) -> Vec<u16> {
    taken(server, TLS_1_2)
}

#[test]
fn of_all_cipher_suites_only_those_with_forward_secrecy_are_taken() {
    let secure = Secure::start();
    assert_eq!(taken(&secure.server, TLS_1_2), OF_TLS_1_2);
    assert_eq!(taken(&secure.server, TLS_1_3), OF_TLS_1_3);
}

#[test]
fn nothing_is_compressed() {
    let secure = Secure::start();
    let mut hello = Hello::of(TLS_1_2, OF_TLS_1_2[0]);
    hello.compressions = vec![1, 64, 0];
    let reply = hello.send(&secure.server.address);
    assert!(
        matches!(reply, Reply::Hello { compression: 0, .. }),
        "{reply:?}"
    );
    hello.compressions = vec![1, 64];
    let reply = hello.send(&secure.server.address);
    assert!(!matches!(reply, Reply::Hello { .. }), "{reply:?}");
}

#[test]
fn a_session_is_resumed_and_another_protocol_is_refused() {
    let secure = Secure::start();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = Arc::new(secure.client(&[version]));
        let asked = |config| ask(&secure.server, config, "GET /health").expect("an answer");
        let (answer, first, protocol) = asked(&config);
        assert!(answer.ends_with("ok\n"), "{answer}");
        assert_eq!(
            (first, protocol),
            (HandshakeKind::Full, None),
            "{version:?}"
        );
        let (answer, again, _) = asked(&config);
        assert!(answer.ends_with("ok\n"), "{answer}");
        assert_eq!(again, HandshakeKind::Resumed, "{version:?}");
        // A stranger's session is none.
        let (_, other, _) = asked(&Arc::new(secure.client(&[version])));
        assert_eq!(other, HandshakeKind::Full);
        let offers = |protocols: &[&str]| {
            let mut config = secure.client(&[version]);
            config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
            ask(&secure.server, &Arc::new(config), "GET /health").map(|(_, _, taken)| taken)
        };
        let taken = offers(&["h2", "http/1.1"]).expect("one of them is spoken");
        assert_eq!(taken.as_deref(), Some(&b"http/1.1"[..]));
        let refused = offers(&["smtp", "ftp"]).expect_err("none of them is spoken");
        assert!(
            refused.to_string().contains("NoApplicationProtocol"),
            "{refused}"
        );
    }
}

#[test]
fn a_certificate_of_a_client_counts_if_its_authority_is_the_configured_one() {
    let (clients, strangers) = (Authority::new(), Authority::new());
    let secure = Secure::start_trusting(Some(&clients));
    let data = &secure.home.data;
    let password = secure.home.file("password", "a-password-of-ann\n");
    let add = ["user", "add", "ann", "--role", "read", "--password-file"];
    run(&[&add[..], &[&password, "--data", data]].concat()).code(0);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let shows = |authority: &Authority, name: &str| {
            let (certificate, key) = authority.signs(name);
            let builder = trusting(&secure.authority.certificate, &[version]);
            let config = builder.with_client_auth_cert(vec![certificate], key);
            let config = Arc::new(config.expect("a pair"));
            ask(&secure.server, &config, "GET /api/v1/streams").map(|(answer, ..)| answer)
        };
        let status = |answer: std::io::Result<String>| {
            let answer = answer.expect("an answer");
            answer.get(9..12).expect("a status").to_owned()
        };
        assert_eq!(status(shows(&clients, "ann")), "200", "{version:?}");
        assert_eq!(status(shows(&clients, "bob")), "401", "no such user");
        assert!(shows(&strangers, "ann").is_err(), "another authority's");
        // The authority of the server is none for clients.
        assert!(shows(&secure.authority, "ann").is_err());
        let nothing = Arc::new(secure.client(&[version]));
        let answer = ask(&secure.server, &nothing, "GET /api/v1/streams");
        assert_eq!(status(answer.map(|(answer, ..)| answer)), "401");
    }
}

#[test]
fn a_self_signed_certificate_is_for_its_names_and_for_servers_alone() {
    let home = Home::new();
    let out = home.path("tls");
    let names = ["--name", "logs.example.org", "--name", "192.0.2.7"];
    let args = [&["tls", "self-signed", "--out", &out], &names[..]].concat();
    run(&args).code(0);
    let (cert, key) = (format!("{out}/cert.pem"), format!("{out}/key.pem"));
    let mode = std::fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let der = CertificateDer::from_pem_file(&cert).expect("PEM");
    let (_, parsed) = parse_x509_certificate(&der).expect("a certificate");
    let names = parsed
        .subject_alternative_name()
        .expect("once")
        .expect("names");
    assert_eq!(
        names.value.general_names,
        [
            GeneralName::DNSName("logs.example.org"),
            GeneralName::IPAddress(&[192, 0, 2, 7])
        ]
    );
    let usage = parsed.key_usage().expect("once").expect("a usage").value;
    assert!(usage.digital_signature() && !usage.key_cert_sign() && !usage.crl_sign());
    let extended = parsed
        .extended_key_usage()
        .expect("once")
        .expect("one")
        .value;
    assert!(extended.server_auth && !extended.client_auth && !extended.any);
    assert!(!parsed.is_ca());
    let validity = parsed.validity();
    let days = (validity.not_after.timestamp() - validity.not_before.timestamp()) / 86_400;
    assert!(days <= 398, "{days} days: browsers accept no more");
    // A certificate that may be in use is not replaced.
    let before = std::fs::read(&key).expect("a key");
    let refused = run(&args).code(1);
    assert!(
        refused.stderr.contains("not replaced"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read(&key).expect("a key"), before);
}

#[test]
fn the_log_warns_of_a_certificate_that_ends_soon_or_has_ended() {
    for (days, expected) in [
        (-1, "the TLS certificate expired on"),
        (13, "the TLS certificate expires on"),
        (30, ""),
    ] {
        let (home, authority) = (Home::new(), Authority::new());
        let dir = tempfile::tempdir().expect("a directory");
        authority.renew_for(dir.path(), days);
        let secure = Secure::serve(home, authority, dir, None);
        let log = secure.server.log();
        let warns = log.contains("the TLS certificate");
        assert!(
            log.contains(expected) && warns != expected.is_empty(),
            "{days}: {log}"
        );
    }
}

impl Authority {
    /// Writes a certificate that ends in so many days.
    fn renew_for(&self, dir: &Path, days: i64) {
        use chrono::Datelike;
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let date = |days| {
            let at = chrono::Utc::now() + chrono::TimeDelta::days(days);
            rcgen::date_time_ymd(at.year(), at.month() as u8, at.day() as u8)
        };
        (parameters.not_before, parameters.not_after) = (date(-100), date(days));
        self.write(dir, &parameters);
    }
}
