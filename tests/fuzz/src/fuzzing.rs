//! The targets of the program.

#[path = "../../../src/fuzzing/http_head.rs"]
mod http_head;
#[path = "../../../src/fuzzing/secrets.rs"]
mod secrets;

pub(crate) use http_head::http_head;
pub(crate) use secrets::secrets;
