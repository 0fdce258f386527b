//! The certificate of a running server changes under load, and no request fails.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::support::{Home, PATIENCE, Server};

/// An authority that the clients trust.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(["authority".to_owned()]).expect("a name");
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
        let parameters = CertificateParams::new(names).expect("names");
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
