//! Targets of the fuzzer: the heads of requests, and secrets in text, as a stranger may write them.
//!
//! `tests/fuzz` includes this file and the modules that it calls, which need none of the others.
//! The tests of the program replay the corpora.

mod http_head;
mod secrets;

pub(crate) use http_head::http_head;
pub(crate) use secrets::secrets;

#[cfg(test)]
pub(crate) mod tests;
