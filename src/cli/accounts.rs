//! Arguments of `logmill user`, `token` and `tls`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::access::Role;

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// The rights of the account: to send events, to read, or everything.
    #[arg(long, value_enum)]
    pub(crate) role: Role,
    /// Only these streams, as a name or a pattern such as 'web_*'; may be repeated.
    #[arg(long, value_name = "GLOB")]
    pub(crate) stream: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// Read the password from the first line of this file, or of standard input for -. Otherwise
    /// from LOGMILL_PASSWORD, or the terminal asks for it.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user.
    Add {
        /// The user's name.
        name: String,
        #[command(flatten)]
        grant: GrantArgs,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// List the users with their roles and streams.
    List,
    /// Change a password; the user's sessions end.
    Passwd {
        /// The user's name.
        name: String,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// Remove a user; its sessions end.
    Remove {
        /// The user's name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it, this one time.
    Create {
        /// The token's name.
        name: String,
        #[command(flatten)]
        grant: GrantArgs,
        /// The time for which it is valid, such as 90d; for ever by default.
        #[arg(long, value_name = "TIME")]
        expires: Option<humantime::Duration>,
    },
    /// List the tokens, without what they log in with.
    List,
    /// Revoke a token, from now on.
    Revoke {
        /// The token's name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Create a certificate that signs itself, for a first try.
    SelfSigned {
        /// The folder for cert.pem and key.pem.
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// A name or address of the server; may be repeated.
        #[arg(long = "name", value_name = "HOST", default_values = ["localhost", "127.0.0.1"])]
        names: Vec<String>,
    },
}
