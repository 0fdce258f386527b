//! The syslog listeners: datagrams (RFC 5426), connections in both framings of RFC 6587, and the
//! latter over TLS (RFC 5425).
//!
//! Syslog has no acknowledgement. A sender over TCP is not read from while the store does not take
//! its messages; datagrams beyond a bounded queue are dropped and counted.
//!
//! # Invariants
//! * A message is an item of its stream, whatever bytes it holds: an event, or quarantined.
//! * A connection of TCP speaks one framing, which its first byte decides: a message cannot
//!   contain another one of another framing.
//! * A request of HTTP stores nothing: a page in a browser on this machine can send one here.

mod datagrams;
mod framing;
mod tcp;

use std::net::SocketAddr;
use std::sync::Arc;

use ingest::Format;
use storage::Name;

use self::datagrams::Datagrams;
use self::tcp::SyslogTcp;
use crate::config::{self, Config};
use crate::failure::{Failure, Result};
use crate::listen::{Address, Listener, local_address};
use crate::serve::{OpenService, Service, Serving};
use crate::shippers::{Door, GatherOptions, Gatherer, MESSAGE_BYTES_MAX, Seldom};

/// The port of an address without one: 514 needs a privilege.
const PORT: u16 = 5514;

/// The state of a listener.
#[derive(Debug)]
struct Syslog {
    serving: Arc<Serving>,
    door: Door,
    gatherer: Arc<Gatherer>,
    stream: Name,
    malformed: Seldom,
}

impl Syslog {
    fn open(serving: &Arc<Serving>, config: &config::Syslog) -> Result<Self> {
        let stream = Name::new(&config.stream).map_err(|e| Failure::config(e.to_string()))?;
        let token_file = config.token_file.as_deref();
        let options = GatherOptions {
            source: "syslog",
            format: Format::Syslog,
            tz: config.timezone.as_deref().and_then(ingest::zone),
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        Ok(Self {
            serving: Arc::clone(serving),
            door: Door::open(serving, "[syslog]", token_file, &[&stream])?,
            gatherer: Gatherer::new(serving, options),
            stream,
            malformed: Seldom::default(),
        })
    }
}

/// Returns the syslog listeners of the configuration: none unless it names an address.
///
/// # Errors
/// If an address cannot be parsed.
pub(crate) fn services(config: &Config) -> Result<Vec<OpenService>> {
    let mut services: Vec<OpenService> = Vec::new();
    let section = &config.syslog;
    if let Some(address) = Address::parse("--syslog-udp", &section.udp, PORT)? {
        let section = section.clone();
        services.push(Box::new(move |serving| {
            let socket = address.bind_datagrams(serving)?;
            announce("UDP", socket.local_addr()?);
            let syslog = Syslog::open(serving, &section)?;
            let service: Box<dyn Service> = Box::new(Datagrams::new(syslog, socket));
            Ok(Some(service))
        }));
    }
    if let Some(address) = Address::parse("--syslog-tcp", &section.tcp, PORT)? {
        let section = section.clone();
        services.push(Box::new(move |serving| {
            let listener = address.bind(serving)?;
            announce("TCP", listener.local_addr()?);
            let tcp = SyslogTcp(Syslog::open(serving, &section)?);
            let service = Listener::new("syslog", serving, listener, tcp);
            Ok(Some(Box::new(service)))
        }));
    }
    Ok(services)
}

fn announce(protocol: &str, bound: SocketAddr) {
    println!("syslog over {protocol}: {}", local_address(bound));
}
