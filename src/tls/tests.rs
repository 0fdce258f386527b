use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::*;

/// A certificate and its key in PEM.
struct Pair {
    cert: String,
    key: String,
}

fn parameters(name: &str) -> (CertificateParams, KeyPair) {
    let mut parameters = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    parameters.distinguished_name.push(DnType::CommonName, name);
    (parameters, KeyPair::generate().expect("a key"))
}

fn self_signed(name: &str) -> Pair {
    let (parameters, key) = parameters(name);
    let cert = parameters.self_signed(&key).expect("signed");
    Pair {
        cert: cert.pem(),
        key: key.serialize_pem(),
    }
}

/// Returns the certificate of an authority, and one that it signed.
fn authority(client: &str) -> (String, Pair) {
    let (mut of_ca, ca_key) = parameters("authority");
    of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = of_ca.self_signed(&ca_key).expect("signed");
    let issuer = Issuer::new(of_ca, ca_key);
    let (of_client, key) = parameters(client);
    let cert = of_client.signed_by(&key, &issuer).expect("signed");
    let pair = Pair {
        cert: cert.pem(),
        key: key.serialize_pem(),
    };
    (ca.pem(), pair)
}

fn written(server: &Pair, ca: Option<&str>) -> (tempfile::TempDir, Arc<Tls>) {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let config = config::Tls {
        cert: Some(write("cert.pem", &server.cert)),
        key: Some(write("key.pem", &server.key)),
        client_ca: ca.map(|ca| write("ca.pem", ca)),
    };
    let tls = Tls::of(&config).expect("valid").expect("configured");
    (dir, tls)
}

/// Connects; returns the user that the server finds in the client's certificate.
async fn connect(tls: &Tls, trusted: &str, own: Option<&Pair>) -> io::Result<Option<Arc<str>>> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(cert.expect("PEM")).expect("an authority");
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let certs = certificates(Path::new("own"), pair.cert.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(certs, key).expect("a pair")
        }
    };
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let (client, server) = tokio::join!(connector.connect(name, near), tls.accept(far, Alpn::Http));
    client?;
    server.map(|(_, user)| user)
}

#[tokio::test]
async fn a_client_is_the_user_of_a_certificate_that_the_authority_signed() {
    let server = self_signed("server");
    let (ca, ann) = authority("ann");
    let (_, stranger) = authority("ann");
    let (_dir, tls) = written(&server, Some(&ca));
    let connected = async |own| connect(&tls, &server.cert, own).await;
    assert_eq!(
        connected(Some(&ann)).await.expect("admitted").as_deref(),
        Some("ann")
    );
    assert_eq!(connected(None).await.expect("without a certificate"), None);
    assert!(
        connected(Some(&stranger)).await.is_err(),
        "another authority's"
    );
    // Without client_ca no certificate is asked for, and none is a login.
    let (_dir, plain) = written(&server, None);
    assert_eq!(
        connect(&plain, &server.cert, Some(&ann))
            .await
            .expect("admitted"),
        None
    );
}

#[tokio::test]
async fn changed_files_are_taken_whatever_their_times_say() {
    let (first, second) = (self_signed("first"), self_signed("second"));
    let (dir, tls) = written(&first, None);
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        let time = std::fs::metadata(&path)
            .and_then(|m| m.modified())
            .expect("its time");
        std::fs::write(&path, text).expect("written");
        let file = std::fs::File::options()
            .append(true)
            .open(&path)
            .expect("open");
        file.set_modified(time).expect("the same time");
        tls.look();
    };
    assert!(connect(&tls, &first.cert, None).await.is_ok());
    put("cert.pem", &second.cert);
    assert!(
        connect(&tls, &first.cert, None).await.is_ok(),
        "the key is still the first one's"
    );
    put("key.pem", &second.key);
    assert!(connect(&tls, &second.cert, None).await.is_ok());
    assert!(connect(&tls, &first.cert, None).await.is_err());
    put("key.pem", "nonsense");
    assert!(connect(&tls, &second.cert, None).await.is_ok());
}

#[test]
fn a_certificate_is_warned_of_from_two_weeks_before_its_end_once_a_day() {
    let mut validity = Validity {
        from_s: 100 * DAY_S,
        to_s: 200 * DAY_S,
        warned: None,
    };
    let mut said = |now_s| validity.warning(now_s).unwrap_or_default();
    assert!(said(99 * DAY_S).contains("is not valid before 1970-04-11"));
    for quiet in [100 * DAY_S, 150 * DAY_S, 186 * DAY_S] {
        assert_eq!(said(quiet), "", "{quiet}");
    }
    assert!(said(186 * DAY_S + 1).contains("expires on 1970-07-20"));
    assert_eq!(said(186 * DAY_S + 3600), "", "the same day");
    assert!(said(187 * DAY_S).contains("expires on"), "the next day");
    assert!(said(200 * DAY_S + 1).contains("expired on"));
    assert_eq!(said(200 * DAY_S + 2), "");
}

#[test]
fn the_dates_are_those_of_the_certificate() {
    let (mut parameters, key) = parameters("dates");
    parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2027, 1, 1);
    let cert = parameters.self_signed(&key).expect("signed");
    let validity = Validity::of(cert.der()).expect("dates");
    assert_eq!(
        (validity.from_s, validity.to_s),
        (1_767_225_600, 1_798_761_600)
    );
}
