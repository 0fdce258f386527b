//! Requests that a page of another origin makes, and requests under a name that is not this
//! server's.
//!
//! A browser sends to a loopback address what any page asks it to send; without this check such a
//! page could drop partitions. A page may also give its own name the address of this machine (DNS
//! rebinding): then the browser takes the server for a part of that page, and only `Host` differs.
//!
//! # Invariants
//! * The head of a request alone decides, before its body is read, for every method and route.
//! * A request that names a foreign `Host` is refused, whatever else it says.
//! * A client that sends neither `Origin` nor `Sec-Fetch-Site` is no page in a browser: curl and
//!   shippers are checked for their `Host` alone.

use std::net::{IpAddr, SocketAddr};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, Version, header};
use axum::response::Response;

use super::answer;
use crate::config::Authority;

/// The browser's word on the page that makes a request (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// A port that a browser leaves out of `Host`; a proxy in front may have taken TLS off.
const DEFAULT_PORTS: [u16; 2] = [80, 443];
/// So much of a foreign name is repeated in the answer.
const SHOWN_CHARS_MAX: usize = 100;

/// The names under which this server may be asked.
#[derive(Debug)]
pub(super) struct OwnNames {
    names: Vec<Authority>,
    /// The listener's address, for advice.
    address: SocketAddr,
}

impl OwnNames {
    /// The names of the listener at `address`, and those that the configuration adds.
    pub(super) fn new(address: SocketAddr, hosts: &[String]) -> Self {
        let port = Some(address.port());
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
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

    /// Refuses what does not come to one of these names, or comes from a page of another origin.
    ///
    /// # Errors
    /// The answer to send instead: 400 without a `Host`, 421 for a foreign one, 403 for a page of
    /// another origin.
    pub(super) fn check(&self, head: &Parts) -> Result<(), Box<Response>> {
        self.check_host(head)?;
        self.check_page(&head.headers)
    }

    fn check_host(&self, head: &Parts) -> Result<(), Box<Response>> {
        // The target of a request may name the server too; it then counts beside the header.
        if let Some(named) = head.uri.authority() {
            self.known(named.as_str())?;
        }
        let mut named = head.headers.get_all(header::HOST).iter();
        match (named.next(), named.next()) {
            (Some(host), None) => self.known(&String::from_utf8_lossy(host.as_bytes())),
            (None, _) if head.version < Version::HTTP_11 => Ok(()),
            (one, _) => Err(Box::new(answer::error(
                StatusCode::BAD_REQUEST,
                "invalid",
                match one {
                    None => "the request has no Host",
                    Some(_) => "the request has more than one Host",
                },
                Some("HTTP/1.1 wants exactly one"),
            ))),
        }
    }

    fn known(&self, host: &str) -> Result<(), Box<Response>> {
        if Authority::parse(host).is_some_and(|host| self.are(&host, &DEFAULT_PORTS)) {
            return Ok(());
        }
        let hint = format!(
            "ask http://{}/; a name of a proxy in front belongs into server.hosts of logmill.toml",
            self.address
        );
        Err(Box::new(answer::error(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            &format!("this server is not {:?}", shown(host)),
            Some(&hint),
        )))
    }

    fn check_page(&self, headers: &HeaderMap) -> Result<(), Box<Response>> {
        for site in headers.get_all(SEC_FETCH_SITE) {
            if !matches!(site.as_bytes(), b"same-origin" | b"none") {
                let site = String::from_utf8_lossy(site.as_bytes());
                return Err(self.foreign(&format!("Sec-Fetch-Site: {}", shown(&site))));
            }
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            if !self.is_own_origin(&origin) {
                return Err(self.foreign(&format!("Origin: {}", shown(&origin))));
            }
        }
        Ok(())
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        let default = |scheme| match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        origin.split_once("://").is_some_and(|(scheme, host)| {
            let host = Authority::parse(host).zip(default(scheme));
            host.is_some_and(|(host, port)| self.are(&host, &[port]))
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
            &format!("a page of another origin may not ask this server ({header})"),
            Some(&hint),
        ))
    }

    /// Returns whether `asked` is one of the names; `defaults` are the ports that it means when it
    /// names none.
    fn are(&self, asked: &Authority, defaults: &[u16]) -> bool {
        let named = self.names.iter().filter(|own| own.host == asked.host);
        let mut ports = named.map(|own| own.port);
        ports.any(|own| match (own, asked.port) {
            (Some(own), Some(port)) => own == port,
            (Some(own), None) => defaults.contains(&own),
            (None, None) => true,
            (None, Some(port)) => port == self.address.port() || defaults.contains(&port),
        })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
