//! Host names as in `server.hosts` and in the header `Host`.

use std::net::Ipv6Addr;

/// A host name with an optional port, as in `Host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    /// The name in lower case; an IPv6 address in brackets and in its shortest form.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl Authority {
    /// Parses a host name; returns `None` if the text is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                let address: Ipv6Addr = address.parse().ok()?;
                (format!("[{address}]"), port)
            }
            None => {
                let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                (host.to_ascii_lowercase(), port)
            }
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[:]".contains(c);
        if host.is_empty() || !host.chars().all(allowed) {
            return None;
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Self { host, port })
    }
}

/// Checks that `text` is valid in `server.hosts`.
pub(super) fn check_host(text: &str) -> Result<(), String> {
    match Authority::parse(text) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{text:?} is not a host name: write it as logs.example.org or logs.example.org:8443"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check_host;

    #[test]
    fn a_configured_host_is_a_name_with_perhaps_a_port() {
        assert!(check_host("logs.example.org:8443").is_ok());
        for wrong in [
            "",
            "https://logs.example.org",
            "logs.example.org/",
            "a b",
            "*",
        ] {
            assert!(check_host(wrong).is_err(), "{wrong:?}");
        }
    }
}
