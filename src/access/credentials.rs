//! The proof of its identity that a client presents.

use std::sync::Arc;

use secrecy::SecretString;

/// The proof of its identity that a client presents.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// A token of `logmill token create`.
    Token(SecretString),
    /// A user's name and password. A token in the place of the password counts as the token,
    /// whatever the name: shippers and data sources often have a field for a password only.
    Password {
        user: String,
        password: SecretString,
    },
    /// A user of whom the client has shown a certificate.
    Certificate(Arc<str>),
    /// The identifier of a session, as in the cookie of the page.
    Session(SecretString),
}
