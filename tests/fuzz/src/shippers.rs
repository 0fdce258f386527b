//! The decoders of the program's listeners for log shippers.

#[path = "../../../src/relp"]
pub(crate) mod relp {
    pub(crate) mod frame;
}

#[path = "../../../src/syslog"]
pub(crate) mod syslog {
    pub(crate) mod framing;
}
