//! The sections of the listeners for log shippers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[syslog]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Syslog {
    /// Address for datagrams, or `off`.
    pub(crate) udp: String,
    /// Address for connections, with TLS too if the server has a certificate, or `off`.
    pub(crate) tcp: String,
    /// The stream of the messages.
    pub(crate) stream: String,
    /// The zone of times without one, as RFC 3164 has them; UTC without it.
    pub(crate) timezone: Option<String>,
    /// A file with the token whose rights and share senders use that show no certificate.
    pub(crate) token_file: Option<PathBuf>,
}

impl Default for Syslog {
    fn default() -> Self {
        Self {
            udp: "off".into(),
            tcp: "off".into(),
            stream: "syslog".into(),
            timezone: None,
            token_file: None,
        }
    }
}

/// `[relp]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Relp {
    /// Address of the listener, with TLS too if the server has a certificate, or `off`.
    pub(crate) listen: String,
    /// The stream of the messages.
    pub(crate) stream: String,
    /// The zone of times without one, as RFC 3164 has them; UTC without it.
    pub(crate) timezone: Option<String>,
    /// A file with the token whose rights and share senders use that show no certificate.
    pub(crate) token_file: Option<PathBuf>,
}

impl Default for Relp {
    fn default() -> Self {
        Self {
            listen: "off".into(),
            stream: "syslog".into(),
            timezone: None,
            token_file: None,
        }
    }
}

impl Relp {
    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        check_stream("[relp] stream", &self.stream, problems);
        check_timezone("[relp]", self.timezone.as_deref(), problems);
    }
}

/// `[fluent]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fluent {
    /// Address of the listener, with TLS too if the server has a certificate, or `off`.
    pub(crate) listen: String,
    /// The stream of tags that no rule matches.
    pub(crate) stream: String,
    /// Streams of tags; the first rule that matches counts.
    pub(crate) rules: Vec<FluentRule>,
    /// A file with the token whose rights and share senders use that show no certificate.
    pub(crate) token_file: Option<PathBuf>,
}

/// A rule of `[fluent]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FluentRule {
    /// A pattern of tags, with `*` for any characters and `?` for one.
    pub(crate) tag: String,
    pub(crate) stream: String,
}

impl Default for Fluent {
    fn default() -> Self {
        Self {
            listen: "off".into(),
            stream: "fluent".into(),
            rules: Vec::new(),
            token_file: None,
        }
    }
}

impl Fluent {
    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        check_stream("[fluent] stream", &self.stream, problems);
        for rule in &self.rules {
            check_stream("[fluent] rules", &rule.stream, problems);
        }
    }
}

impl Syslog {
    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        check_stream("[syslog] stream", &self.stream, problems);
        check_timezone("[syslog]", self.timezone.as_deref(), problems);
    }
}

/// Checks the name of a stream that clients may write into.
fn check_stream(place: &str, name: &str, problems: &mut Vec<String>) {
    if name.starts_with('_') {
        problems.push(format!(
            "{place}: {name:?}: names that begin with _ are the store's own"
        ));
    } else if let Err(e) = storage::Name::new(name) {
        problems.push(format!("{place}: {e}"));
    }
}

fn check_timezone(section: &str, name: Option<&str>, problems: &mut Vec<String>) {
    if let Some(name) = name
        && ingest::zone(name).is_none()
    {
        problems.push(format!(
            "{section} timezone = {name:?}: write an IANA time zone such as Europe/Berlin"
        ));
    }
}
