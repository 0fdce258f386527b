//! The decoders of the program's listener for Fluent's forward protocol.

#[path = "../../../src/fluent"]
mod source {
    pub(crate) mod message;
    pub(crate) mod msgpack;
}

pub(crate) use source::{message, msgpack};
