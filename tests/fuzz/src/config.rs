//! Parts of the program's `config`.

#[path = "../../../src/config/host.rs"]
mod host;

pub(crate) use host::Authority;
