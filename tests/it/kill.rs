//! `kill -9` at random moments: during imports, and of a server that is being written to. What was
//! acknowledged is there once; what is sent again adds only what is missing.

mod importer;
mod local;
mod server;
