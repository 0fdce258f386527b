//! TLS of the listeners: TLS 1.2 and 1.3 by `rustls`, with its default cipher suites.
//!
//! # Invariants
//! * A connection is served with the certificate that was in force when it began. A later change of
//!   the files does not touch it.
//! * Files that cannot be used leave the certificate before them in force, with an error in the
//!   log: a certificate and its key are two files, and one of them is written first.
//! * A client's certificate counts only if an authority of `tls.client_ca` signed it. It names the
//!   user in its common name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use ring::digest::{Context, SHA256};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use secrecy::{ExposeSecret, SecretSlice};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::parse_x509_certificate;

use crate::config;
use crate::failure::{Failure, Result};

/// Interval at which the files are read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time of a handshake.
pub(crate) const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// First byte of a connection of TLS: the content type of a handshake (RFC 8446, section 5.1).
pub(crate) const FIRST_BYTE: u8 = 22;

/// The certificate in force, and the files that it came from.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Files,
    /// The hash of the files at the last look; none when one could not be read.
    seen: Mutex<Option<[u8; 32]>>,
    current: RwLock<Arc<ServerConfig>>,
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
        let config = files.config(&contents)?;
        Ok(Some(Arc::new(Self {
            files,
            seen: Mutex::new(Some(contents.hash())),
            current: RwLock::new(Arc::new(config)),
        })))
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
            return;
        }
        *seen = hash;
        match contents.and_then(|contents| self.files.config(&contents)) {
            Ok(config) => {
                *self.current.write() = Arc::new(config);
                tracing::info!("the TLS certificate was read anew");
            }
            Err(error) => {
                tracing::error!(%error, "the changed TLS files cannot be used; the certificate before them stays in force");
            }
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
    ) -> io::Result<(TlsStream<S>, Option<Arc<str>>)> {
        let config = Arc::clone(&self.current.read());
        let stream = TlsAcceptor::from(config).accept(socket).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let user = certificates.and_then(<[_]>::first).and_then(common_name);
        Ok((stream, user))
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

    fn config(&self, contents: &Contents) -> Result<ServerConfig> {
        let certificates = certificates(&self.cert, &contents.cert)?;
        let key = PrivateKeyDer::from_pem_slice(contents.key.expose_secret())
            .map_err(|e| wrong(&self.key, "a private key in PEM", e))?;
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
        let config = builder.with_single_cert(certificates, key);
        config.map_err(|e| wrong(&self.cert, "the certificate of the key", e))
    }
}

fn certificates(file: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|e| wrong(file, "a certificate in PEM", e))?;
    match read.is_empty() {
        true => Err(wrong(file, "a certificate in PEM", "it holds none")),
        false => Ok(read),
    }
}

fn wrong(file: &Path, expected: &str, why: impl std::fmt::Display) -> Failure {
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
