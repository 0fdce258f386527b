//! Parts that several benches share. Each bench uses some of them.

#![allow(dead_code, unused_imports, reason = "each bench uses a part")]

pub(crate) mod ask;
pub(crate) mod client;
pub(crate) mod counted;
pub(crate) mod events;
pub(crate) mod files;
#[path = "../../src/demo/generator.rs"]
pub(crate) mod generator;
pub(crate) mod imported;
pub(crate) mod machine;
pub(crate) mod program;
pub(crate) mod statements;
