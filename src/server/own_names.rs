//! The names under which the server accepts requests.

use std::net::{IpAddr, SocketAddr};

use crate::config::Authority;

/// Ports that a browser leaves out of `Host`. Port 443 is here for a proxy that ends TLS in front.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// The names under which this server accepts requests.
#[derive(Debug)]
pub(crate) struct OwnNames {
    names: Vec<Authority>,
    /// The listener's address, for the hints of errors.
    address: SocketAddr,
}

impl OwnNames {
    /// Collects the names of the listener at `address`, and those of the configuration.
    pub(crate) fn new(address: SocketAddr, hosts: &[String]) -> Self {
        let port = Some(address.port());
        let ip = literal(address.ip());
        let own = ["localhost", "127.0.0.1", "[::1]", &ip].map(|host| Authority {
            host: host.to_owned(),
            port,
        });
        let added = hosts.iter().filter_map(|host| Authority::parse(host));
        Self {
            names: own.into_iter().chain(added).collect(),
            address,
        }
    }

    /// Returns the listener's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Checks whether `host`, as the header `Host` has it, is one of the names.
    pub(crate) fn is_own_host(&self, host: &str, local: Option<IpAddr>) -> bool {
        let host = Authority::parse(host);
        host.is_some_and(|host| self.contains(&host, &DEFAULT_PORTS, local))
    }

    /// Checks whether a page of `origin` is one of this server.
    pub(crate) fn is_own_origin(&self, origin: &str, local: Option<IpAddr>) -> bool {
        let default = |scheme| match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        origin.split_once("://").is_some_and(|(scheme, host)| {
            let host = Authority::parse(host).zip(default(scheme));
            host.is_some_and(|(host, port)| self.contains(&host, &[port], local))
        })
    }

    /// Checks whether `requested` is one of the names. `defaults` are the ports that it may mean
    /// if it names none, and `local` is the address that the connection came to.
    fn contains(&self, requested: &Authority, defaults: &[u16], local: Option<IpAddr>) -> bool {
        if local.is_some_and(|local| requested.host == literal(local)) {
            let port = self.address.port();
            return match requested.port {
                Some(requested) => requested == port,
                None => defaults.contains(&port),
            };
        }
        let named = self.names.iter().filter(|own| own.host == requested.host);
        let mut ports = named.map(|own| own.port);
        ports.any(|own| match (own, requested.port) {
            (Some(own), Some(port)) => own == port,
            (Some(own), None) => defaults.contains(&own),
            (None, None) => true,
            (None, Some(port)) => port == self.address.port() || defaults.contains(&port),
        })
    }
}

/// Returns an address as `Host` has it.
fn literal(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}
