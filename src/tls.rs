//! TLS of the listeners: TLS 1.2 and 1.3 by `rustls`, with its default cipher suites.
//!
//! # Invariants
//! * A connection is served with the certificate that was in force when it began. A later change of
//!   the files does not touch it.
//! * Files that cannot be used leave the certificate before them in force, with an error in the
//!   log: a certificate and its key are two files, and one of them is written first.
//! * A certificate that has expired, or expires within [`EXPIRY_WARNED`], is in the log each day.
//! * A client's certificate counts only if an authority of `tls.client_ca` signed it. It names the
//!   user in its common name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::DateTime;
use parking_lot::{Mutex, RwLock};
use ring::digest::{Context, SHA256};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error as TlsError, InconsistentKeys};
use secrecy::{ExposeSecret, SecretSlice};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::parse_x509_certificate;
use zeroize::Zeroizing;

use crate::config;
use crate::failure::{Failure, Result};

/// Interval at which the files are read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time before its end from which a certificate is warned of.
const EXPIRY_WARNED: Duration = Duration::from_secs(14 * 24 * 3600);
const DAY_S: i64 = 24 * 3600;
/// Protocol above TLS (RFC 7301). A client that offers others only is refused: it would take bytes
/// of this protocol for its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alpn {
    Http,
    /// gRPC is HTTP/2 (RFC 9113, section 3.3).
    Grpc,
    Postgres,
    Mongo,
    /// The protocols of log shippers have no registered name, and their clients offer none. With
    /// names of their own a browser, which offers those of HTTP, is refused.
    Syslog,
    Relp,
    Fluent,
}

impl Alpn {
    /// Returns the registered name of the protocol.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http => b"http/1.1",
            Self::Grpc => b"h2",
            Self::Postgres => b"postgresql",
            Self::Mongo => b"mongodb",
            Self::Syslog => b"syslog",
            Self::Relp => b"relp",
            Self::Fluent => b"fluent",
        }
    }
}

/// First byte of a connection of TLS: the content type of a handshake (RFC 8446, section 5.1).
pub(crate) const FIRST_BYTE: u8 = 22;

/// The certificate in force, and the files that it came from.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Files,
    /// The hash of the files at the last look; none when one could not be read.
    seen: Mutex<Option<[u8; 32]>>,
    current: RwLock<Arc<ServerConfig>>,
    validity: Mutex<Validity>,
}

/// The time for which a certificate is valid, seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Validity {
    from_s: i64,
    to_s: i64,
    /// The day of the last warning, counted from 1970.
    warned: Option<i64>,
}

#[derive(Debug, Clone)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// The bytes of the files.
struct Contents {
    cert: Vec<u8>,
    key: SecretSlice<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files of the configuration; `None` if it names none.
    ///
    /// # Errors
    /// If a file cannot be read or used, with its name.
    pub(crate) fn of(config: &config::Tls) -> Result<Option<Arc<Self>>> {
        let (Some(cert), Some(key)) = (&config.cert, &config.key) else {
            return Ok(None);
        };
        let files = Files {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: config.client_ca.clone(),
        };
        let contents = files.read()?;
        let (config, validity) = files.config(&contents)?;
        let this = Self {
            files,
            seen: Mutex::new(Some(contents.hash())),
            current: RwLock::new(Arc::new(config)),
            validity: Mutex::new(validity),
        };
        this.warn();
        Ok(Some(Arc::new(this)))
    }

    /// Reads the files every second and takes what has changed; never ends.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let this = Arc::clone(&self);
            // A panic is in the log already; the next look may succeed.
            let _ignored = tokio::task::spawn_blocking(move || this.look()).await;
        }
    }

    /// Reads the files, and takes them if their bytes have changed. Their times would not tell: two
    /// changes may have the same.
    fn look(&self) {
        let mut seen = self.seen.lock();
        let contents = self.files.read();
        let hash = contents.as_ref().ok().map(Contents::hash);
        if hash == *seen {
            self.warn();
            return;
        }
        *seen = hash;
        match contents.and_then(|contents| self.files.config(&contents)) {
            Ok((config, validity)) => {
                *self.current.write() = Arc::new(config);
                *self.validity.lock() = validity;
                tracing::info!("the TLS certificate was read anew");
                self.warn();
            }
            Err(error) => {
                tracing::error!(%error, "the changed TLS files cannot be used; the certificate before them stays in force");
            }
        }
    }

    /// Warns of a certificate that is not valid, or not for long.
    fn warn(&self) {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if let Some(warning) = self.validity.lock().warning(now_s) {
            let file = self.files.cert.display();
            tracing::warn!(%file, "{warning}");
        }
    }

    /// Makes the handshake of a connection. Returns the stream, and the user that the client's
    /// certificate names.
    ///
    /// # Errors
    /// If the handshake fails.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: S,
        protocol: Alpn,
    ) -> io::Result<(TlsStream<S>, Option<Arc<str>>)> {
        let mut config = ServerConfig::clone(&self.current.read());
        config.alpn_protocols = vec![protocol.name().to_vec()];
        let stream = TlsAcceptor::from(Arc::new(config)).accept(socket).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let user = certificates.and_then(<[_]>::first).and_then(common_name);
        Ok((stream, user))
    }
}

impl Validity {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(certificate).ok()?;
        Some(Self {
            from_s: parsed.validity().not_before.timestamp(),
            to_s: parsed.validity().not_after.timestamp(),
            warned: None,
        })
    }

    /// Returns the warning of a day, once.
    fn warning(&mut self, now_s: i64) -> Option<String> {
        let date = |at_s| {
            let at = DateTime::from_timestamp(at_s, 0).unwrap_or_default();
            at.format("%F %R UTC").to_string()
        };
        let soon = i64::try_from(EXPIRY_WARNED.as_secs()).unwrap_or(i64::MAX);
        let warning = match () {
            () if now_s > self.to_s => {
                format!(
                    "the TLS certificate expired on {}: clients refuse it; replace the file",
                    date(self.to_s)
                )
            }
            () if now_s < self.from_s => {
                format!(
                    "the TLS certificate is not valid before {}: clients refuse it; replace the file",
                    date(self.from_s)
                )
            }
            () if now_s > self.to_s - soon => {
                format!(
                    "the TLS certificate expires on {}; replace the file before",
                    date(self.to_s)
                )
            }
            () => return None,
        };
        let today = now_s.div_euclid(DAY_S);
        (self.warned.replace(today) != Some(today)).then_some(warning)
    }
}

impl Contents {
    fn hash(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        let ca = self.client_ca.as_deref().unwrap_or_default();
        for file in [&*self.cert, self.key.expose_secret(), ca] {
            context.update(&(file.len() as u64).to_be_bytes());
            context.update(file);
        }
        let hash = context.finish();
        hash.as_ref().try_into().expect("BUG: SHA-256 has 32 bytes")
    }
}

impl Files {
    fn read(&self) -> Result<Contents> {
        let read = |file: &PathBuf| std::fs::read(file).map_err(|e| wrong(file, "readable", e));
        Ok(Contents {
            cert: read(&self.cert)?,
            key: SecretSlice::from(read(&self.key)?),
            client_ca: self.client_ca.as_ref().map(read).transpose()?,
        })
    }

    fn config(&self, contents: &Contents) -> Result<(ServerConfig, Validity)> {
        let certificates = certificates(&self.cert, &contents.cert)?;
        let validity = certificates.first().and_then(Validity::of);
        let validity = validity
            .ok_or_else(|| wrong(&self.cert, "a certificate", "its dates cannot be read"))?;
        let key = PrivateKeyDer::from_pem_slice(contents.key.expose_secret())
            .map(Zeroizing::new)
            .map_err(|e| wrong(&self.key, "a private key in PEM", e))?;
        // The signer keeps the key in a form of its own; the decoded file is cleared.
        let signer = any_supported_type(&key)
            .map_err(|e| wrong(&self.key, "a private key of a known kind", e))?;
        let certified = CertifiedKey::new(certificates, signer);
        match certified.keys_match() {
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(e) => return Err(wrong(&self.cert, "the certificate of the key", e)),
        }
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(&self.cert, "usable", e))?;
        let builder = match self.client_ca.as_ref().zip(contents.client_ca.as_ref()) {
            None => builder.with_no_client_auth(),
            Some((file, text)) => {
                let mut roots = RootCertStore::empty();
                for authority in self::certificates(file, text)? {
                    let added = roots.add(authority);
                    added.map_err(|e| wrong(file, "an authority's certificate", e))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                // A client without a certificate logs in by other means.
                let verifier = verifier.allow_unauthenticated().build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|e| wrong(file, "an authority's certificate", e))?,
                )
            }
        };
        let config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        Ok((config, validity))
    }
}

/// Reads the certificates of a file in PEM.
///
/// # Errors
/// If the text of the file holds none.
pub(crate) fn certificates(file: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|e| wrong(file, "a certificate in PEM", e))?;
    match read.is_empty() {
        true => Err(wrong(file, "a certificate in PEM", "it holds none")),
        false => Ok(read),
    }
}

pub(crate) fn wrong(file: &Path, expected: &str, why: impl std::fmt::Display) -> Failure {
    Failure::config(format!("{}: not {expected}: {why}", file.display()))
}

fn common_name(certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let (name, None) = (names.next()?, names.next()) else {
        return None;
    };
    name.as_str().ok().map(Arc::from)
}

#[cfg(test)]
mod tests;
