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

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, Version, header};
use axum::response::Response;

use super::answer;
use super::own_names::OwnNames;
use crate::listen::Peer;

/// The browser's description of the requesting page (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Maximum characters of a foreign name in a response.
const SHOWN_CHARS_MAX: usize = 100;

impl OwnNames {
    /// Refuses a request under another name, or from a page of another origin.
    ///
    /// # Errors
    /// The response to send instead: 400 without a `Host`, 421 for a foreign one, 403 for a page
    /// of another origin.
    pub(super) fn check(&self, head: &Parts) -> Result<(), Box<Response>> {
        // A listener of all addresses is addressed by the one that the connection came to.
        let local = head
            .extensions
            .get::<Peer>()
            .map(|peer| peer.ends.local.ip());
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
        if self.is_own_host(host, local) {
            return Ok(());
        }
        let hint = format!(
            "use http://{}/; add the name of a proxy in front to server.hosts of logmill.toml",
            self.address()
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

    fn foreign(&self, header: &str) -> Box<Response> {
        let hint = format!(
            "open http://{}/ in the browser's address bar; if a proxy in front serves that page, add its name to server.hosts of logmill.toml",
            self.address()
        );
        Box::new(answer::error(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            &format!("a page of another origin may not use this server ({header})"),
            Some(&hint),
        ))
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
