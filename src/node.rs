//! A node of a cluster: it has no shard itself, and runs a server for each shard that a consumer
//! group of Kafka assigns to it.
//!
//! # Invariants
//! * The group is a hint. The object store decides which server may commit (`storage/src/objects`),
//!   and the fences in the journal which one may append. So two servers of one shard at once lose
//!   nothing and store nothing twice, and the later one goes on.
//! * A shard is handed over by a seal: its server has ended before the group learns that it was
//!   given up, unless it takes longer than [`HAND_OVER_WITHIN`].
//! * The server of a shard ends with its node, whatever ends that: it ends when its standard input
//!   does.

mod group;
mod processes;

use std::io::{Read, stdin};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::listen::Address;
use crate::serve::{OpenService, Service, Serving};
use crate::wiring::shard_folder;
use group::{GroupSettings, Membership};
use processes::ShardProcesses;

pub(crate) use processes::ShardCommand;

/// Time that the server of a shard has to seal and end, before it is killed.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(30);
/// Time that requests under way have before the servers end: an acknowledgement takes less.
const LAST_REQUESTS: Duration = Duration::from_millis(300);
/// Time after the end of a session in which a member learns of it.
const LEARNT_WITHIN: Duration = Duration::from_secs(3);
/// Pause between two looks at the servers.
const INTERVAL: Duration = Duration::from_millis(100);
/// Pause before the group is joined again, after an error.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Returns the service that makes a server a node; `None` if it is none. `command` starts the
/// server of a shard.
///
/// # Errors
/// If the group has options that librdkafka does not take.
pub(crate) fn node(config: &Config, command: ShardCommand) -> Result<Option<OpenService>> {
    if !config.cluster.is_node() {
        return Ok(None);
    }
    let settings = group::settings(&config.cluster)
        .map_err(|why| Failure::config(format!("[cluster] kafka_options: {why}")))?;
    Ok(Some(Box::new(move |serving| {
        let pause = group::session_timeout(&settings) + LEARNT_WITHIN;
        let node = Node {
            topic: serving.config.cluster.kafka_topic.clone(),
            shards: serving.config.cluster.shards,
            settings,
            processes: Arc::new(ShardProcesses::new(command, pause)),
            serving: Arc::clone(serving),
        };
        Ok(Some(Box::new(node)))
    })))
}

/// Turns the configuration of a node, whose directory is `node`, into that of the server of one of
/// its shards. The node alone has listeners for clients.
///
/// # Errors
/// If other nodes could not reach it.
pub(crate) fn become_shard(config: &mut Config, node: &Path, shard: u16) -> Result<()> {
    if !config.cluster.is_node() {
        return Err(Failure::usage(
            "--shard is for the servers that a node starts",
        ));
    }
    let http = Address::parse("--http", &config.server.http, 0)?;
    let Some(ip) = http.map(|address| address.ip()) else {
        return Err(Failure::config(
            "server.http = off: others reach the shards of a node at its address; write one",
        ));
    };
    let port = config.cluster.port_of(shard);
    let host = reached_at(config, ip)?;
    let scheme = match config.tls.is_set() {
        true => "https",
        false => "http",
    };
    config.cluster.url = Some(format!("{scheme}://{host}:{port}"));
    config.cluster.shard = Some(shard);
    config.cluster.node = Some(node.to_owned());
    config
        .server
        .listen_for_peers(&format!("{}:{port}", in_url(ip)));
    config.server.adoption = storage::Adoption::Any;
    config.syslog.udp = "off".to_owned();
    config.syslog.tcp = "off".to_owned();
    config.relp.listen = "off".to_owned();
    config.fluent.listen = "off".to_owned();
    config.kafka.clear();
    Ok(())
}

/// Returns the host by which other nodes reach this one.
fn reached_at(config: &Config, ip: IpAddr) -> Result<String> {
    match &config.cluster.address {
        Some(address) => Ok(address.clone()),
        None if ip.is_unspecified() => Err(Failure::config(format!(
            "set address of [cluster]: other nodes cannot reach this one at {ip}"
        ))),
        None => Ok(in_url(ip)),
    }
}

fn in_url(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Returns the directory of a shard in that of its node.
pub(crate) fn shard_directory(node: &Path, shard: u16) -> PathBuf {
    node.join(shard_folder(shard))
}

/// Returns what stops the server of a shard when its node has ended; `None` for other servers.
pub(crate) fn end_with_node(config: &Config) -> Option<OpenService> {
    config.cluster.node.as_ref()?;
    Some(Box::new(|serving| {
        let stop = serving.stop.clone();
        let wait = move || {
            // The node writes nothing. An error says as well that it has gone.
            let _gone = stdin().lock().read(&mut [0]);
            stop.set();
        };
        let thread = std::thread::Builder::new().name("logmill-input".into());
        thread.spawn(wait)?;
        Ok(None)
    }))
}

/// The work of a node beside its listeners.
struct Node {
    serving: Arc<Serving>,
    processes: Arc<ShardProcesses>,
    settings: GroupSettings,
    topic: String,
    shards: u16,
}

impl Service for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let stop = &self.serving.stop;
        while !stop.is_set() {
            if let Err(why) = self.take_part() {
                tracing::warn!(why, "the group of the nodes is joined again");
                self.processes.give_up_all();
                stop.wait(AGAIN_AFTER);
            }
        }
        self.processes.give_up_all();
        Ok(())
    }
}

impl Node {
    /// Joins the group and runs servers until this one stops.
    ///
    /// # Errors
    /// If the group cannot be joined, or the membership has come to an end.
    fn take_part(&self) -> std::result::Result<(), String> {
        let membership = Membership::of(&self.settings, &self.topic, self.shards, &self.processes)?;
        while !self.serving.stop.is_set() {
            membership.hear(INTERVAL)?;
            self.processes.tend(Instant::now());
        }
        std::thread::sleep(LAST_REQUESTS);
        membership.leave(HAND_OVER_WITHIN);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
