//! `logmill serve`.

#[cfg(feature = "kafka")]
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Context;
use crate::cli::ServeArgs;
#[cfg(feature = "kafka")]
use crate::config::Config;
use crate::failure::{Failure, Result, tell};
#[cfg(feature = "kafka")]
use crate::node::{self, ShardCommand};
use crate::serve::{self as serving, OpenService};
use crate::{flight, fluent, mongo, postgres, relp, server, syslog};

/// Serves a store until the stop signal.
///
/// # Errors
/// If the flags do not fit, or as [`serving::run`].
pub(super) fn run(mut context: Context, args: ServeArgs) -> Result<ExitCode> {
    let data = settle(&mut context, args)?;
    let services = services(&context, &data)?;
    serving::run(&context.config, &data, services)
}

/// Applies the flags to the configuration. Returns the store's directory.
fn settle(context: &mut Context, args: ServeArgs) -> Result<PathBuf> {
    if let Some(http) = args.http {
        context.config.server.http = http;
    }
    if let Some(postgres) = args.postgres {
        context.config.server.listen_postgres(&postgres);
    }
    if let Some(flight) = args.flight {
        context.config.server.flight = flight;
    }
    if let Some(mongo) = args.mongo {
        context.config.server.mongo = mongo;
    }
    args.shippers.apply(&mut context.config);
    if !args.peers.is_empty() {
        let named = context.config.cluster.name_peers(args.peers);
        named.map_err(|why| Failure::usage(format!("--peer: {why}")))?;
    }
    let why = "serve works on a directory, not on a server";
    let mut data = context.directory(args.data_dir, why)?;
    context.config.server.read_only = args.read_only || args.reader;
    context.config.server.is_reader = args.reader;
    context.config.server.adoption = match args.take_over {
        true => storage::Adoption::Any,
        false => storage::Adoption::Sealed,
    };
    let needs = [("--reader", args.reader), ("--take-over", args.take_over)];
    if let Some((flag, _)) = needs.iter().find(|(_, is_given)| *is_given)
        && context.config.storage.objects.is_none()
    {
        return Err(Failure::usage(format!(
            "{flag} needs an object store: set objects of [storage], as s3://bucket/prefix"
        )));
    }
    if context.config.cluster.is_node() && (args.take_over || context.config.server.read_only) {
        return Err(Failure::usage(
            "--reader, --read-only and --take-over are about one store, and a node of a cluster has none; leave group of [cluster] out",
        ));
    }
    context.config.server.insecure_plaintext |= args.insecure_plaintext;
    #[cfg(feature = "kafka")]
    if let Some(shard) = args.shard {
        node::become_shard(&mut context.config, &data, shard)?;
        data = node::shard_directory(&data, shard);
    }
    if !context.config.server.read_only {
        context.config.check_anonymisers()?;
    }
    if !context.config.server.read_only && args.shard.is_none() && is_empty(&data) {
        tell(format_args!(
            "{} holds no store yet; creating a new, empty one",
            data.display()
        ));
    }
    Ok(data)
}

/// Returns the listeners, and what else runs beside the store.
fn services(context: &Context, data: &Path) -> Result<Vec<OpenService>> {
    let named = data.display().to_string();
    let app = server::SharedApp::default();
    let http = server::http(&context.config.server.http, app.clone(), move |url| {
        println!("logmill serves {named} at {url}/");
    })?;
    let otlp_grpc = server::otlp_grpc(&context.config.server.otlp_grpc, app, |url| {
        println!("OTLP exporters (gRPC): {url}");
    })?;
    let postgres = postgres::postgres(&context.config, |address| {
        let (ip, port) = (address.ip(), address.port());
        println!("PostgreSQL clients: psql -h {ip} -p {port} logmill");
    })?;
    let flight = flight::flight(&context.config, |uri| {
        println!("Flight SQL clients: {uri}");
    })?;
    let mongo = mongo::mongo(&context.config)?;
    let services = http.into_iter().chain(postgres).chain(flight).chain(mongo);
    let services = services.chain(otlp_grpc);
    #[cfg(feature = "kafka")]
    let services = services.chain(crate::kafka::sources(&context.config)?);
    #[cfg(feature = "kafka")]
    let services = services.chain(node_services(context, data)?);
    let syslog = syslog::services(&context.config)?;
    let services = services.chain(syslog).chain(relp::relp(&context.config)?);
    let services = services.chain(fluent::fluent(&context.config)?);
    Ok(services.collect())
}

/// Returns the services of a node, and of the server of one of its shards.
#[cfg(feature = "kafka")]
fn node_services(context: &Context, data: &Path) -> Result<impl Iterator<Item = OpenService>> {
    let command = shard_command(&context.config, context.file.as_deref(), data)?;
    let node = node::node(&context.config, command)?;
    Ok(node.into_iter().chain(node::end_with_node(&context.config)))
}

/// Returns how the node with a directory starts the servers of its shards: by this program, with
/// its configuration and those flags that count for them.
#[cfg(feature = "kafka")]
fn shard_command(config: &Config, file: Option<&Path>, data: &Path) -> Result<ShardCommand> {
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(file) = file {
        arguments.extend(["--config".into(), file.into()]);
    }
    arguments.extend(["serve".into(), data.into()]);
    arguments.extend(["--http", &config.server.http].map(OsString::from));
    if config.server.insecure_plaintext {
        arguments.push("--insecure-plaintext".into());
    }
    arguments.push("--shard".into());
    Ok(ShardCommand {
        program: std::env::current_exe()?,
        arguments,
    })
}

/// Checks whether a path does not exist or is an empty directory.
fn is_empty(data: &Path) -> bool {
    match std::fs::read_dir(data) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}
