//! State of the HTTP listener, shared by its handlers.

use std::sync::Arc;

use super::bodies::{Bodies, Limits};
use super::ingest::unacknowledged::Unacknowledged;
use super::metrics::requests::Requests;
use super::tail::feed::Tails;
use crate::serve::Serving;

/// State of the HTTP listener.
#[derive(Debug)]
pub(crate) struct App {
    pub(super) serving: Arc<Serving>,
    pub(super) requests: Requests,
    pub(super) bodies: Bodies,
    pub(super) tails: Arc<Tails>,
    pub(super) unacknowledged: Unacknowledged,
}

impl App {
    pub(super) fn new(serving: Arc<Serving>) -> Self {
        let server = &serving.config.server;
        Self {
            requests: Requests::default(),
            bodies: Bodies::new(Limits::of(server)),
            tails: Arc::new(Tails::new(serving.places.tails(server.tails_max))),
            unacknowledged: Unacknowledged::default(),
            serving,
        }
    }
}
