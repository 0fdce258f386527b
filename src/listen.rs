//! Listeners: their addresses, and the accept loop that all protocols share.
//!
//! # Invariants
//! * A listener that other machines can reach asks for a login, and encrypts its connections or
//!   was told not to.
//! * All listeners together serve at most `server.connections_max` connections ([`accept`]).
//! * A connection whose client reads nothing of an answer for `server.answer_time_max` is closed,
//!   and its query ends ([`socket`]).

pub(crate) mod accept;
mod buffered;
mod handshake;
mod socket;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use crate::failure::{FAILED, Failure, Result};
use crate::serve::{Service, Serving, Stop};
use crate::tls::Tls;
use accept::Accept;
pub(crate) use accept::Beyond;
pub(crate) use buffered::BufferedSocket;
pub(crate) use handshake::within_handshake;
use socket::Socket;

/// Connections that the kernel keeps until they are accepted, if its own limit allows them
/// (`net.core.somaxconn`, 4,096 on Linux). It drops the first packet of one beyond them, which the
/// client sends again after a second.
const BACKLOG: u32 = 4096;

/// Silence after which the kernel asks a client for a sign of life, where its protocol does not:
/// the first time, and then at each interval. It gives up after [`KEEP_ALIVE_RETRIES`].
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_RETRIES: u32 = 4;
/// Interval at which a client that has sent a part of its first bytes is looked at again.
const PEEK_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of datagrams that the kernel keeps until they are read, if its own limit allows them
/// (`net.core.rmem_max`, 208 KiB on Linux).
const DATAGRAM_BYTES_KEPT: usize = 16 << 20;

/// The address of a listener as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The option of the command line that sets it: `--http`.
    option: &'static str,
    named: String,
    address: SocketAddr,
}

impl Address {
    /// Returns its IP address.
    pub(crate) fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// Parses the address of an option; `None` for `off`.
    ///
    /// # Errors
    /// If it is neither an address nor `off`.
    pub(crate) fn parse(option: &'static str, named: &str, port: u16) -> Result<Option<Self>> {
        if named == "off" {
            return Ok(None);
        }
        let numbers = named.replace("localhost", "127.0.0.1");
        let parsed = numbers.parse().ok();
        let parsed = parsed.or_else(|| format!("{numbers}:{port}").parse().ok());
        let address = parsed.ok_or_else(|| {
            let message = format!("{option} {named}: write it as 127.0.0.1:{port}, or as off");
            Failure::usage(message)
        })?;
        Ok(Some(Self {
            option,
            named: named.to_owned(),
            address,
        }))
    }

    /// Binds the listener.
    ///
    /// # Errors
    /// If the address is taken. If other machines can reach it and the store is open, or the
    /// connections would not be encrypted.
    pub(crate) fn bind(&self, serving: &Serving) -> Result<TcpListener> {
        self.bind_checked(serving, serving.tls.is_some(), bind)
    }

    /// Binds a socket for datagrams.
    ///
    /// # Errors
    /// As [`Address::bind`]. Datagrams are not encrypted.
    pub(crate) fn bind_datagrams(&self, serving: &Serving) -> Result<UdpSocket> {
        self.bind_checked(serving, false, bind_datagrams)
    }

    fn bind_checked<S>(
        &self,
        serving: &Serving,
        is_encrypted: bool,
        bind: impl FnOnce(SocketAddr) -> io::Result<S>,
    ) -> Result<S> {
        if !self.address.ip().is_loopback() {
            self.check_exposed(serving, is_encrypted)?;
            serving.access.close();
        }
        let bound = serving.runtime.block_on(async { bind(self.address) });
        bound.map_err(|e| Failure::new(FAILED, format!("cannot listen at {}: {e}", self.address)))
    }

    /// Checks that a listener beyond this machine asks for a login and is encrypted.
    fn check_exposed(&self, serving: &Serving, is_encrypted: bool) -> Result<()> {
        let mut missing = Vec::new();
        if serving.access.accounts().is_empty() {
            missing.push(
                "the store has no users: run `logmill user add NAME --role admin --data DIR`",
            );
        }
        if !is_encrypted && !serving.config.server.insecure_plaintext {
            missing.push(match serving.tls.is_some() {
                true => "datagrams are not encrypted: use TCP with TLS, or accept plain text with --insecure-plaintext",
                false => "there is no certificate: run `logmill tls self-signed` and add its output to logmill.toml, or accept plain text with --insecure-plaintext",
            });
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Failure::config(format!(
                "{} {}: other machines can reach this address; {}",
                self.option,
                self.named,
                missing.join("; ")
            ))),
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A server that starts again need not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind_datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    SockRef::from(&socket).set_recv_buffer_size(DATAGRAM_BYTES_KEPT)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// Returns the address at which clients on this machine reach a listener.
pub(crate) fn local_address(mut bound: SocketAddr) -> SocketAddr {
    match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => bound.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => bound.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    bound
}

/// A protocol that a listener speaks.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// Serves a connection until it ends, or until the server stops.
    fn serve(self: Arc<Self>, accepted: Accepted) -> impl Future<Output = ()> + Send;

    /// Serves a connection beyond a limit: one request at most. Sets `has_request` once the client
    /// has sent it.
    fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        has_request: Arc<AtomicBool>,
    ) -> impl Future<Output = ()> + Send;
}

/// A socket with or without TLS.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) client: SocketAddr,
    /// The address of this server that the client connected to.
    pub(crate) local: SocketAddr,
}

/// The peer of a connection; of HTTP, an extension of each of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) ends: Ends,
    /// The connection is encrypted.
    pub(crate) is_tls: bool,
    /// The user that its certificate names.
    pub(crate) user: Option<Arc<str>>,
}

/// A connection of which no byte was read yet.
#[derive(Debug)]
pub(crate) struct Accepted {
    socket: TcpStream,
    client: SocketAddr,
    answer_time_max: Duration,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) stop: Stop,
}

impl Accepted {
    /// Returns the ends of the connection; `None` if it has broken.
    pub(crate) fn ends(&self) -> Option<Ends> {
        Some(Ends {
            client: self.client,
            local: self.socket.local_addr().ok()?,
        })
    }

    /// Lets the kernel close the connection if the machine of the client has gone.
    pub(crate) fn keep_alive(&self) {
        let often = TcpKeepalive::new()
            .with_time(KEEP_ALIVE_AFTER)
            .with_interval(KEEP_ALIVE_INTERVAL)
            .with_retries(KEEP_ALIVE_RETRIES);
        if let Err(error) = SockRef::from(&self.socket).set_tcp_keepalive(&often) {
            tracing::debug!(%error, "could not set SO_KEEPALIVE");
        }
    }

    /// Waits for the first byte and leaves it in the socket; `None` if the client sends none.
    pub(crate) async fn first_byte(&self) -> Option<u8> {
        let mut first = [0];
        let read = self.socket.peek(&mut first).await.ok()?;
        (read == 1).then_some(first[0])
    }

    /// Waits until it is known whether the connection begins with these bytes, and leaves them in
    /// the socket; `None` if the client sends none.
    pub(crate) async fn begins_with(&self, bytes: &[u8]) -> Option<bool> {
        let mut first = vec![0; bytes.len()];
        loop {
            let read = self.socket.peek(&mut first).await.ok()?;
            if read == 0 {
                return None;
            }
            if first[..read] != bytes[..read] {
                return Some(false);
            }
            if read == bytes.len() {
                return Some(true);
            }
            // A peek returns at once while there are any bytes.
            tokio::time::sleep(PEEK_INTERVAL).await;
        }
    }

    /// Returns the socket, which fails if the client stops reading.
    pub(crate) fn into_socket(self) -> Socket<TcpStream> {
        Socket::new(self.socket, self.answer_time_max)
    }
}

/// A bound listener as a service.
pub(crate) struct Listener<P> {
    name: &'static str,
    serving: Arc<Serving>,
    accept: Accept<P>,
    listener: TcpListener,
}

impl<P: Protocol> Listener<P> {
    /// Creates the service of a bound listener; `name` is that of its protocol.
    pub(crate) fn new(
        name: &'static str,
        serving: &Arc<Serving>,
        listener: TcpListener,
        protocol: P,
    ) -> Self {
        Self {
            name,
            serving: Arc::clone(serving),
            accept: Accept::new(Arc::new(protocol), serving),
            listener,
        }
    }
}

impl<P: Protocol> Service for Listener<P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(self: Box<Self>) -> Result<()> {
        let runtime = self.serving.runtime.clone();
        runtime.block_on(self.accept.run(&self.listener));
        Ok(())
    }
}
