//! State of the listeners that answer requests of HTTP, shared by their handlers.

use std::sync::{Arc, OnceLock};

use super::bodies::{Bodies, Limits};
use super::cluster::snapshots::PeerSnapshots;
use super::ingest::unacknowledged::Unacknowledged;
use super::metrics::requests::Requests;
use super::tail::feed::Tails;
use crate::serve::Serving;

/// State of the listeners.
#[derive(Debug)]
pub(crate) struct App {
    pub(super) serving: Arc<Serving>,
    pub(super) requests: Requests,
    pub(super) bodies: Bodies,
    pub(super) tails: Arc<Tails>,
    /// The states that are held for peers.
    pub(super) snapshots: Arc<PeerSnapshots>,
    pub(super) unacknowledged: Unacknowledged,
}

impl App {
    pub(super) fn new(serving: Arc<Serving>) -> Self {
        let server = &serving.config.server;
        Self {
            requests: Requests::default(),
            bodies: Bodies::new(Limits::of(server)),
            tails: Arc::new(Tails::new(serving.places.tails(server.tails_max))),
            snapshots: Arc::new(PeerSnapshots::kept_for(&serving.config.query.limits())),
            unacknowledged: Unacknowledged::default(),
            serving,
        }
    }
}

/// The state that the listeners of one server share; the first one that opens makes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedApp(Arc<OnceLock<Arc<App>>>);

impl SharedApp {
    pub(super) fn of(&self, serving: &Arc<Serving>) -> Arc<App> {
        let app = self
            .0
            .get_or_init(|| Arc::new(App::new(Arc::clone(serving))));
        Arc::clone(app)
    }
}
