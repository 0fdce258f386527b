//! Refuses requests from pages of another origin, and requests under a name that is not this
//! server's.
//!
//! Any page can make a browser send requests to a loopback address; without this check such a page
//! could drop partitions. A page may also resolve its own name to the address of this machine (DNS
//! rebinding). Then the browser takes the server for the origin of that page, and only `Host`
//! differs.
//!
//! # Invariants
//! * The head of a request alone decides, before the body is read, for every method and route.
//! * A request with a foreign `Host` is refused, whatever its other headers are.
//! * A client that sends neither `Origin` nor `Sec-Fetch-Site` is not a page in a browser. Only
//!   the `Host` of curl and log shippers is checked.

use std::net::{IpAddr, SocketAddr};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, Version, header};
use axum::response::Response;

use super::answer;
use super::login::Peer;
use crate::config::Authority;

/// The browser's description of the requesting page (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Ports that a browser leaves out of `Host`. Port 443 is here for a proxy that ends TLS in front.
const DEFAULT_PORTS: [u16; 2] = [80, 443];
/// Maximum characters of a foreign name in a response.
const SHOWN_CHARS_MAX: usize = 100;

/// The names under which this server accepts requests.
#[derive(Debug)]
pub(super) struct OwnNames {
    names: Vec<Authority>,
    /// The listener's address, for the hints of errors.
    address: SocketAddr,
}

impl OwnNames {
    /// Collects the names of the listener at `address`, and those of the configuration.
    pub(super) fn new(address: SocketAddr, hosts: &[String]) -> Self {
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

    /// Refuses a request under another name, or from a page of another origin.
    ///
    /// # Errors
    /// The response to send instead: 400 without a `Host`, 421 for a foreign one, 403 for a page
    /// of another origin.
    pub(super) fn check(&self, head: &Parts) -> Result<(), Box<Response>> {
        // A listener of all addresses is addressed by the one that the connection came to.
        let local = head.extensions.get::<Peer>().map(|peer| peer.local.ip());
        self.check_host(head, local)?;
        self.check_page(&head.headers, local)
    }

    fn check_host(&self, head: &Parts, local: Option<IpAddr>) -> Result<(), Box<Response>> {
        // The target of a request may name a server too; it must be this one as well.
        if let Some(named) = head.uri.authority() {
            self.check_name(named.as_str(), local)?;
        }
        let mut named = head.headers.get_all(header::HOST).iter();
        match (named.next(), named.next()) {
            (Some(host), None) => self.check_name(&String::from_utf8_lossy(host.as_bytes()), local),
            (None, _) if head.version < Version::HTTP_11 => Ok(()),
            (one, _) => Err(Box::new(answer::error(
                StatusCode::BAD_REQUEST,
                "invalid",
                match one {
                    None => "the request has no Host",
                    Some(_) => "the request has more than one Host",
                },
                Some("HTTP/1.1 requires exactly one"),
            ))),
        }
    }

    fn check_name(&self, host: &str, local: Option<IpAddr>) -> Result<(), Box<Response>> {
        if Authority::parse(host).is_some_and(|host| self.contains(&host, &DEFAULT_PORTS, local)) {
            return Ok(());
        }
        let hint = format!(
            "use http://{}/; add the name of a proxy in front to server.hosts of logmill.toml",
            self.address
        );
        Err(Box::new(answer::error(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            &format!("this server is not {:?}", shown(host)),
            Some(&hint),
        )))
    }

    fn check_page(&self, headers: &HeaderMap, local: Option<IpAddr>) -> Result<(), Box<Response>> {
        for site in headers.get_all(SEC_FETCH_SITE) {
            if !matches!(site.as_bytes(), b"same-origin" | b"none") {
                let site = String::from_utf8_lossy(site.as_bytes());
                return Err(self.foreign(&format!("Sec-Fetch-Site: {}", shown(&site))));
            }
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            if !self.is_own_origin(&origin, local) {
                return Err(self.foreign(&format!("Origin: {}", shown(&origin))));
            }
        }
        Ok(())
    }

    fn is_own_origin(&self, origin: &str, local: Option<IpAddr>) -> bool {
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

    fn foreign(&self, header: &str) -> Box<Response> {
        let hint = format!(
            "open http://{}/ in the browser's address bar; if a proxy in front serves that page, add its name to server.hosts of logmill.toml",
            self.address
        );
        Box::new(answer::error(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            &format!("a page of another origin may not use this server ({header})"),
            Some(&hint),
        ))
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

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
