//! Connections of a client: its URL, and the certificates that it trusts.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig};

use super::Client;
use crate::failure::{Failure, Result, USAGE};

impl Client {
    /// Creates a client of `http://host:port` or `https://host:port`. Of the latter it trusts the
    /// certificates in `ca_file`, or those that public authorities signed.
    pub(crate) fn trusting(url: &str, ca_file: Option<&Path>) -> Result<Self> {
        let tls = TlsConfig::builder();
        let tls = match ca_file {
            None => tls,
            Some(file) => {
                let named = |e: &dyn fmt::Display| {
                    Failure::usage(format!("--ca-file {}: {e}", file.display()))
                };
                let text = std::fs::read(file).map_err(|e| named(&e))?;
                let items: Result<Vec<_>, _> = ureq::tls::parse_pem(&text).collect();
                let items = items.map_err(|e| named(&e))?;
                let certificates = items.into_iter().filter_map(|item| match item {
                    PemItem::Certificate(certificate) => Some(certificate),
                    _ => None,
                });
                let certificates: Vec<_> = certificates.collect();
                if certificates.is_empty() {
                    return Err(named(&"there is no certificate in it"));
                }
                tls.root_certs(RootCerts::Specific(certificates.into()))
            }
        };
        Self::with_tls(url, tls.build())
    }

    /// Creates a client of the server that holds a directory of this machine. Its certificate is
    /// for other names than the loopback address, which no other machine can answer at.
    pub(crate) fn of_holder(url: &str) -> Result<Self> {
        let tls = TlsConfig::builder().disable_verification(true);
        Self::with_tls(url, tls.build())
    }

    fn with_tls(url: &str, tls: TlsConfig) -> Result<Self> {
        // Before any message that has the URL in it.
        if url.contains('@') {
            return Err(Failure::usage(
                "--server: leave user and password out of the URL, which other users of this machine can see; use --token-file or LOGMILL_TOKEN",
            ));
        }
        let is_known = url.starts_with("http://") || url.starts_with("https://");
        if !is_known {
            return Err(Failure::new(
                USAGE,
                format!("--server {url}: write it as http://127.0.0.1:7070"),
            ));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .tls_config(tls)
            .build()
            .into();
        Ok(Self {
            base: url.trim_end_matches('/').to_owned(),
            agent,
            token: None,
        })
    }
}
