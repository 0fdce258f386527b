//! The server's address, and connections to it from chosen addresses of this machine.
//!
//! The server shares its limits by the address of a client. All of 127.0.0.0/8 is this machine, so
//! that each client here binds an address of its own before it connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// The address of all normal clients.
pub(crate) const NORMAL: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The addresses of attackers follow it.
const FIRST_ATTACKER: u8 = 3;

/// Returns the address of an attacker.
pub(crate) fn attacker(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, FIRST_ATTACKER + number))
}

/// The listeners beside that for HTTP: the variable with the address, the variable with the file of
/// the token that senders stand for, and the beginning of the line that tells the address.
pub(crate) const LISTENERS: [(&str, Option<&str>, &str); 5] = [
    (
        "LOGMILL_SYSLOG__TCP",
        Some("LOGMILL_SYSLOG__TOKEN_FILE"),
        "syslog over TCP: ",
    ),
    (
        "LOGMILL_RELP__LISTEN",
        Some("LOGMILL_RELP__TOKEN_FILE"),
        "RELP: ",
    ),
    (
        "LOGMILL_FLUENT__LISTEN",
        Some("LOGMILL_FLUENT__TOKEN_FILE"),
        "Fluent: ",
    ),
    ("LOGMILL_SERVER__OTLP_GRPC", None, "OTLP exporters (gRPC): "),
    ("LOGMILL_SERVER__MONGO", None, "MongoDB clients: "),
];

/// The place of that for MongoDB's drivers.
pub(crate) const MONGO: usize = 4;

/// A connection with or without TLS.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub(crate) type Connection = Box<dyn Io>;

/// A server as its clients reach it.
#[derive(Clone)]
pub(crate) struct Door {
    address: SocketAddr,
    /// The other listeners, in the order of [`LISTENERS`].
    listeners: Vec<SocketAddr>,
    tls: Option<Arc<ClientConfig>>,
}

impl Door {
    /// Takes the address of a server and those of its other listeners, and the certificate
    /// that it shows if it speaks TLS.
    pub(crate) fn new(
        address: &str,
        listeners: Vec<SocketAddr>,
        certificate: Option<&Path>,
    ) -> Self {
        Self {
            address: address.parse().expect("an address"),
            listeners,
            tls: certificate.map(trusting),
        }
    }

    /// Returns the value of `Host`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// Connects without the handshake of TLS.
    pub(crate) async fn tcp(&self, from: IpAddr) -> io::Result<TcpStream> {
        tcp_to(self.address, from).await
    }

    /// Connects to another listener without the handshake of TLS.
    pub(crate) async fn listener(&self, which: usize, from: IpAddr) -> io::Result<TcpStream> {
        tcp_to(self.listeners[which], from).await
    }

    pub(crate) async fn connect(&self, from: IpAddr) -> io::Result<Connection> {
        let stream = self.tcp(from).await?;
        self.greeted(stream).await
    }

    /// Connects to the listener for MongoDB's drivers.
    pub(crate) async fn driver(&self, from: IpAddr) -> io::Result<Connection> {
        let stream = self.listener(MONGO, from).await?;
        self.greeted(stream).await
    }

    async fn greeted(&self, stream: TcpStream) -> io::Result<Connection> {
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(config) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(localhost(), stream).await?;
                Ok(Box::new(stream))
            }
        }
    }

    /// Returns the first message of a handshake of TLS.
    pub(crate) fn client_hello(&self) -> Vec<u8> {
        let config = self.tls.as_ref().expect("BUG: only asked of TLS");
        let mut client =
            ClientConnection::new(Arc::clone(config), localhost()).expect("a configuration");
        let mut hello = Vec::new();
        client.write_tls(&mut hello).expect("written to memory");
        hello
    }
}

async fn tcp_to(address: SocketAddr, from: IpAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}

fn trusting(certificate: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::from_pem_file(certificate).expect("a certificate");
    roots.add(read).expect("a certificate to trust");
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocol versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    // A resumed session would spare the server what a new client costs it.
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}
