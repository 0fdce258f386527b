//! Parts of the program's `access`.

#[path = "../../../src/access/credentials.rs"]
mod credentials;
#[path = "../../../src/access/scram.rs"]
mod scram;
#[path = "../../../src/access/token.rs"]
pub(crate) mod token;

pub(crate) use credentials::Credentials;
pub(crate) use scram::Verifier;
