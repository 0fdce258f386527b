//! Parts of the program's `access`.

#[path = "../../../src/access"]
mod source {
    pub(crate) mod credentials;
    pub(crate) mod scram;
    pub(crate) mod token;
}

pub(crate) use source::credentials::Credentials;
pub(crate) use source::scram::Verifier;
pub(crate) use source::token;
