//! State of the HTTP listener, shared by its handlers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::bodies::{Bodies, Limits};
use super::ingest::unacknowledged::Unacknowledged;
use super::metrics::requests::Requests;
use super::places::Places;
use super::tail::feed::Tails;
use crate::serve::{PARSING_MAX, Serving};

/// State of the HTTP listener.
#[derive(Debug)]
pub(crate) struct App {
    pub(super) serving: Arc<Serving>,
    pub(super) requests: Requests,
    pub(super) bodies: Bodies,
    /// Open connections.
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) tails: Arc<Tails>,
    pub(super) unacknowledged: Unacknowledged,
    /// Permits for parsing: parsed rows need far more memory than their lines.
    pub(super) parsing: Arc<tokio::sync::Semaphore>,
}

impl App {
    pub(super) fn new(serving: Arc<Serving>, places: Places) -> Self {
        let server = &serving.config.server;
        Self {
            requests: Requests::default(),
            bodies: Bodies::new(Limits::of(server)),
            connections: Arc::default(),
            // Tails stay open, so half of the connections are reserved for other requests.
            tails: Arc::new(Tails::new(server.tails_max.min(places.connections / 2))),
            unacknowledged: Unacknowledged::default(),
            parsing: Arc::new(tokio::sync::Semaphore::new(PARSING_MAX)),
            serving,
        }
    }
}
