//! Connections to peers, with TLS and without.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::failure::{Failure, Result};
use crate::tls::{certificates, wrong};

/// Time for a connection and its handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Silence after which the kernel asks for a sign of life, and its intervals. A machine that has
/// lost its power and is back does not know the connection, and is healthy.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;
/// Protocol above TLS (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// A socket with or without TLS.
pub(super) trait PeerSocket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PeerSocket for T {}

impl Connection for Box<dyn PeerSocket> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Opens connections to peers.
#[derive(Clone)]
pub(super) struct PeerConnector(TlsConnector);

impl PeerConnector {
    /// Returns a connector that trusts the certificates in `ca_file`, or those that public
    /// authorities signed.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(super) fn trusting(ca_file: Option<&Path>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        match ca_file {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(file) => {
                let text = std::fs::read(file).map_err(|e| wrong(file, "readable", e))?;
                for certificate in certificates(file, &text)? {
                    let added = roots.add(certificate);
                    added.map_err(|e| wrong(file, "a certificate to trust", e))?;
                }
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| Failure::config(format!("TLS of peers: {e}")))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    async fn connect(self, to: Uri) -> io::Result<TokioIo<Box<dyn PeerSocket>>> {
        let host = to.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_tls = to.scheme_str() == Some("https");
        let port = to.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let socket = TcpStream::connect((host, port)).await?;
        socket.set_nodelay(true)?;
        let often = TcpKeepalive::new()
            .with_time(KEEP_ALIVE_INTERVAL)
            .with_interval(KEEP_ALIVE_INTERVAL)
            .with_retries(KEEP_ALIVE_RETRIES);
        SockRef::from(&socket).set_tcp_keepalive(&often)?;
        if !is_tls {
            return Ok(TokioIo::new(Box::new(socket)));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let encrypted = self.0.connect(name, socket).await?;
        Ok(TokioIo::new(Box::new(encrypted)))
    }
}

impl Service<Uri> for PeerConnector {
    type Response = TokioIo<Box<dyn PeerSocket>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connected = tokio::time::timeout(CONNECT_WITHIN, self.clone().connect(to));
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not accept connections");
        Box::pin(async move { connected.await.unwrap_or_else(|_| Err(late())) })
    }
}
