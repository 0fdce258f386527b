//! The section `[tls]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[tls]`
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tls {
    /// The certificate of the server in PEM, followed by those between it and its authority. It is
    /// read anew when the file changes.
    pub(crate) cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    pub(crate) key: Option<PathBuf>,
    /// Authorities of clients in PEM. The common name of a certificate that one of them signed is a
    /// user's name, and the certificate a login.
    pub(crate) client_ca: Option<PathBuf>,
}

impl Tls {
    /// Returns whether there is a certificate.
    pub(crate) fn is_set(&self) -> bool {
        self.cert.is_some()
    }

    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        if self.cert.is_some() != self.key.is_some() {
            problems.push("[tls] cert and key belong together: set both or neither".into());
        }
        if self.client_ca.is_some() && self.cert.is_none() {
            problems.push(
                "[tls] client_ca needs cert and key: clients show a certificate to a server that has one"
                    .into(),
            );
        }
    }
}
