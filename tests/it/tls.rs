//! TLS as a scanner sees it; and the certificate of a running server changes under load, and no
//! request fails.

mod checks;
mod hello;
mod openssl;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, SupportedProtocolVersion,
};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::support::{Home, PATIENCE, Server};

/// Sends the bytes of a request over TLS, to a server whose certificate is trusted. Returns the
/// whole answer, with its head.
pub(crate) fn exchange(address: &str, trusted: &str, request: &str) -> String {
    let config = trusting(trusted, rustls::DEFAULT_VERSIONS).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name);
    let mut connection = connection.expect("a configuration");
    let mut socket = TcpStream::connect(address).expect("the server listens");
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    // A server may close a connection without the last message of TLS.
    let read = stream.read_to_end(&mut answer);
    assert!(!answer.is_empty(), "no answer ({read:?}) to {request:?}");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns a client that trusts the certificates in a text of PEM.
fn trusting(
    trusted: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
}

/// An authority that the clients trust.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(["authority".to_owned()]).expect("a name");
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, "an authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(parameters, key);
        Self {
            issuer,
            certificate,
        }
    }

    /// Writes a new certificate and its key, in two steps as a renewal does.
    fn renew(&self, dir: &Path) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        self.write(dir, &CertificateParams::new(names).expect("names"));
    }

    fn write(&self, dir: &Path, parameters: &CertificateParams) {
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(dir.join("cert.pem"), certificate.pem()).expect("written");
        std::fs::write(dir.join("key.pem"), key.serialize_pem()).expect("written");
    }

    /// Returns a client that keeps its connections.
    fn client(&self) -> Agent {
        let root = Certificate::from_pem(self.certificate.as_bytes()).expect("PEM");
        let tls = TlsConfig::builder().root_certs(RootCerts::Specific([root].to_vec().into()));
        let config = Agent::config_builder().tls_config(tls.build());
        config.timeout_global(Some(PATIENCE)).build().into()
    }
}

#[test]
fn certificates_change_under_load_without_a_failed_request() {
    let reloads = std::env::var("LOGMILL_RELOADS").ok();
    let reloads: u64 = reloads.map_or(2, |n| n.parse().expect("a number"));
    let (home, authority) = (Home::new(), Authority::new());
    let dir = tempfile::tempdir().expect("a directory");
    authority.renew(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let server = Server::start_with(
        &home.data,
        &[("LOGMILL_TLS__CERT", &cert), ("LOGMILL_TLS__KEY", &key)],
    );
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let taken = || {
        server
            .log()
            .matches("the TLS certificate was read anew")
            .count() as u64
    };
    let url = format!("{}/api/v1/streams", server.url);
    std::thread::scope(|scope| {
        for keeps in [true, false] {
            let (authority, stop, asked, url) = (&authority, &stop, &asked, &url);
            scope.spawn(move || {
                let kept = authority.client();
                while !stop.load(Ordering::Relaxed) {
                    let client = if keeps {
                        kept.clone()
                    } else {
                        authority.client()
                    };
                    let answer = client.get(url).call();
                    assert_eq!(answer.expect("an answer").status(), 200);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for reload in 1..=reloads {
            authority.renew(dir.path());
            let until = Instant::now() + PATIENCE;
            while taken() < reload && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(taken() >= reloads, "{} of {reloads}", taken());
    assert!(asked.load(Ordering::Relaxed) > 10 * reloads, "{asked:?}");
    println!(
        "{} requests, {} reloads: none failed",
        asked.into_inner(),
        taken()
    );
}
