//! `kill -9` at random moments: during imports, and of a server that is being written to.
//! Acknowledged events are there once, and sending again adds only the missing ones.

mod importer;
mod local;
mod server;
