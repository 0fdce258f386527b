//! The section `[server]`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::host::check_host;
use crate::units::{Bytes, Span};

/// `[server]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    /// Address of the HTTP listener.
    pub(crate) http: String,
    /// Address of the listener for PostgreSQL clients.
    pub(crate) postgres: String,
    /// Address of the listener for Arrow Flight SQL clients; `off` for none.
    pub(crate) flight: String,
    /// Address of the listener for MongoDB clients; `off` for none.
    pub(crate) mongo: String,
    /// Address of the listener for OTLP over gRPC; `off` for none.
    pub(crate) otlp_grpc: String,
    /// The user set `postgres`.
    #[serde(skip)]
    pub(crate) has_postgres: bool,
    /// The largest request body, decompressed: one request is one journal record.
    pub(crate) batch_bytes_max: Bytes,
    /// Maximum connections at once.
    pub(crate) connections_max: usize,
    /// Host names that the server accepts beside those of its listeners, such as those of a proxy
    /// in front of it: `logs.example.org`, or `logs.example.org:8443`.
    pub(crate) hosts: Vec<String>,
    /// Maximum time of a request body.
    pub(crate) body_time_max: Span,
    /// Minimum pace of a body in bytes a second, once it has begun.
    pub(crate) body_pace_min: Bytes,
    /// Maximum bytes of the bodies of all requests under way.
    pub(crate) bodies_bytes_max: Bytes,
    /// A client that reads nothing of its answer for this time is disconnected, and its query
    /// cancelled.
    pub(crate) answer_time_max: Span,
    /// Maximum clients that follow a stream at once; never more than half of the connections.
    pub(crate) tails_max: usize,
    /// Share of each resource that one client may take: of connections, requests, running
    /// queries, tails and bytes of bodies. 1 sets no limits for a client alone.
    pub(crate) client_share: f64,
    /// Maximum requests a second of one account, or of one address without accounts; 0: no limit.
    pub(crate) client_requests_per_second: u32,
    /// Addresses of proxies in front of the server. Each stands for many clients, so that it has
    /// no share of the connections.
    pub(crate) proxies: Vec<IpAddr>,
    /// Accepts clients of other machines without TLS: passwords and tokens can be read on the way.
    pub(crate) insecure_plaintext: bool,
    /// Opens the store for reading only; set on the command line alone.
    #[serde(skip)]
    pub(crate) read_only: bool,
    /// Reads the store in the object store alone; set on the command line alone.
    #[serde(skip)]
    pub(crate) is_reader: bool,
    /// Permission to take over a store in the object store; set by `serve` alone.
    #[serde(skip)]
    pub(crate) adoption: storage::Adoption,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            http: "127.0.0.1:7070".into(),
            postgres: "127.0.0.1:5433".into(),
            flight: "off".into(),
            mongo: "off".into(),
            otlp_grpc: "off".into(),
            has_postgres: false,
            batch_bytes_max: Bytes(32 << 20),
            connections_max: 1000,
            hosts: Vec::new(),
            body_time_max: Span(std::time::Duration::from_secs(300)),
            body_pace_min: Bytes(1 << 10),
            bodies_bytes_max: Bytes(256 << 20),
            answer_time_max: Span(std::time::Duration::from_secs(30)),
            tails_max: 500,
            client_share: 0.5,
            client_requests_per_second: 2000,
            proxies: Vec::new(),
            insecure_plaintext: false,
            read_only: false,
            is_reader: false,
            adoption: storage::Adoption::No,
        }
    }
}

impl Server {
    /// Sets the address of the listener for PostgreSQL clients.
    pub(crate) fn listen_postgres(&mut self, address: &str) {
        address.clone_into(&mut self.postgres);
        self.has_postgres = true;
    }

    /// Leaves the listener at an address for other servers alone.
    pub(crate) fn listen_for_peers(&mut self, address: &str) {
        address.clone_into(&mut self.http);
        for listener in [
            &mut self.postgres,
            &mut self.flight,
            &mut self.mongo,
            &mut self.otlp_grpc,
        ] {
            "off".clone_into(listener);
        }
    }

    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        let hosts = self.hosts.iter().map(|host| check_host(host));
        problems.extend(
            hosts
                .filter_map(Result::err)
                .map(|e| format!("[server] hosts: {e}")),
        );
        if !(self.client_share > 0.0 && self.client_share <= 1.0) {
            problems.push(format!(
                "[server] client_share = {}: write a number above 0 and up to 1",
                self.client_share
            ));
        }
        if self.connections_max == 0 {
            problems.push("[server] connections_max = 0: no client could connect".into());
        }
        if self.bodies_bytes_max.0 < self.batch_bytes_max.0 {
            problems.push(format!(
                "[server] bodies_bytes_max = {} is less than one body may have (batch_bytes_max = {})",
                self.bodies_bytes_max.0, self.batch_bytes_max.0
            ));
        }
        for (key, time) in [
            ("body_time_max", self.body_time_max),
            ("answer_time_max", self.answer_time_max),
        ] {
            if time.0.is_zero() {
                problems.push(format!("[server] {key} = \"0s\": no request could finish"));
            }
        }
    }
}
