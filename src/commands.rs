//! The commands, one module each; this module dispatches to them and finds their store.

mod account;
mod admin;
mod backup;
mod check;
mod cluster;
mod completions;
mod erase;
mod grafana;
pub(crate) mod import;
mod index;
mod parse;
pub(crate) mod partition;
mod quarantine;
mod repair;
pub(crate) mod rollup;
mod schema;
mod serve;
mod shard_keys;
mod ship;
mod slice;
mod sql;
mod tail;
mod tls;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use secrecy::SecretString;
use storage::{ReadOnlyStore, Snapshot, Store};
use zeroize::Zeroizing;

use admin::{Admin, Local, Remote};

use crate::cli::{Cli, Command, ConfigCommand, Output, StreamCommand};
use crate::client::Client;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::{demo, wiring};

const DATA_DEFAULT: &str = "./logmill-data";

/// The store that a command works on.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A directory on this machine.
    Data(PathBuf),
    /// A running server.
    Server(Client),
}

/// The context of a command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    /// The file of the configuration that the command line names.
    pub(crate) file: Option<PathBuf>,
    pub(crate) place: Place,
    pub(crate) output: Option<Output>,
}

/// The way to write into a store.
enum Opened {
    /// By this process.
    Store(Store),
    /// Through the server that was named, or that holds the directory.
    Server(Client),
}

impl Context {
    /// Opens the store for reading. Another process may have it open for writing.
    fn reader(&self) -> Result<ReadOnlyStore> {
        match &self.place {
            Place::Data(data) => wiring::open_beside(data, &self.config),
            Place::Server(_) => Err(Failure::usage("this command reads a directory; use --data")),
        }
    }

    /// Opens the store for an operator's work: through the server that the user named or that
    /// holds the directory, otherwise in this process.
    fn admin(&self) -> Result<Box<dyn Admin>> {
        self.admin_with(&self.config)
    }

    /// Does the same as [`Context::admin`], with another configuration for a store opened by this
    /// process.
    fn admin_with(&self, config: &Config) -> Result<Box<dyn Admin>> {
        Ok(match self.open(config)? {
            Opened::Store(store) => Box::new(Local {
                store,
                config: config.clone(),
            }),
            Opened::Server(client) => Box::new(Remote(client)),
        })
    }

    /// Opens the store for writing, or finds the server that holds it.
    fn open(&self, config: &Config) -> Result<Opened> {
        let data = match &self.place {
            Place::Server(client) => return Ok(Opened::Server(client.clone())),
            Place::Data(data) => data,
        };
        match wiring::open_store(data, config) {
            Ok(store) => Ok(Opened::Store(store)),
            Err(failure) => match admin::holder(data, &failure) {
                Some(client) => Ok(Opened::Server(client?)),
                None => Err(failure),
            },
        }
    }

    /// Returns the directory for a command that cannot work through a server; `why` is the error.
    fn directory(&self, named: Option<PathBuf>, why: &str) -> Result<PathBuf> {
        match (named, &self.place) {
            (Some(dir), _) => Ok(dir),
            (None, Place::Data(dir)) => Ok(dir.clone()),
            (None, Place::Server(_)) => Err(Failure::usage(why)),
        }
    }

    /// Returns the stream that the user named, otherwise the only stream of the store.
    fn only_stream(&self, named: Option<&str>) -> Result<String> {
        if let Some(name) = named {
            return Ok(name.to_owned());
        }
        let names = match &self.place {
            Place::Server(client) => client.stream_names()?,
            Place::Data(_) => stream_names(&self.reader()?.snapshot()),
        };
        match names.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(Failure::usage(
                "the store holds no stream yet; import something first",
            )),
            several => Err(Failure::usage(format!(
                "the store has several streams; name one with --stream: {}",
                several.join(", ")
            ))),
        }
    }
}

/// Returns the streams that users see: all but quarantines.
pub(crate) fn stream_names(snapshot: &Arc<Snapshot>) -> Vec<String> {
    let known = snapshot
        .streams()
        .iter()
        .filter(|(_, meta)| meta.kind != storage::StreamKind::Quarantine);
    known.map(|(name, _)| name.to_string()).collect()
}

/// Runs the command.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    let config = Config::load(cli.config.as_deref())?;
    let place = match (&cli.server, &cli.data) {
        (Some(url), _) => {
            let token = token(cli.token_file.as_deref())?;
            let client = Client::trusting(url, cli.ca_file.as_deref())?;
            Place::Server(client.with_token(token))
        }
        (None, data) => Place::Data(data.clone().unwrap_or_else(|| DATA_DEFAULT.into())),
    };
    let context = Context {
        config,
        file: cli.config,
        place,
        output: cli.output,
    };
    match cli.command {
        Command::Demo(args) => demo::run(context.config, args),
        Command::Serve(args) => serve::run(context, args),
        Command::Import(args) => import::run(&context, &args),
        Command::Parse(args) => parse::run(&context, &args),
        Command::Sql(args) => sql::run(&context, &args),
        Command::Slice(args) => slice::run(&context, args),
        Command::Tail(args) => tail::run(&context, &args),
        Command::Rollup(command) => rollup::run(&context, &command),
        Command::Stream(StreamCommand::List) => sql::one(
            &context,
            "SELECT * FROM system.streams ORDER BY name",
            None,
            false,
        ),
        Command::Stream(StreamCommand::Schema { name }) => schema::run(&context, &name),
        Command::Stream(StreamCommand::SuggestShardKey { name, shards, keys }) => {
            shard_keys::run(&context, &name, shards, &keys)
        }
        Command::Partition(command) => partition::run(&context, &command),
        Command::Erase(args) => erase::run(&context, args),
        Command::Index(command) => index::run(&context, &command),
        Command::Quarantine(command) => quarantine::run(&context, &command),
        Command::Check(args) => check::run(&context, args),
        Command::Repair(args) => repair::run(&context, args),
        Command::Backup(args) => backup::run(&context, &args.dir),
        Command::Ship(args) => ship::run(&context, args),
        Command::Grafana(args) => grafana::run(args),
        Command::User(command) => account::user(&context, &command),
        Command::Token(command) => account::token(&context, &command),
        Command::Tls(command) => tls::run(&command),
        Command::Cluster(command) => cluster::run(&context, &command),
        Command::Config(ConfigCommand::Show { origin }) => show_config(&context.config, origin),
        Command::Completions(args) => completions::run(&args),
    }
}

/// Returns the token for a server, from the file or the environment.
fn token(file: Option<&Path>) -> Result<Option<SecretString>> {
    let text = match file {
        Some(file) => Some(account::first_line(file)?),
        None => std::env::var("LOGMILL_TOKEN").ok(),
    };
    let text = text.map(Zeroizing::new);
    Ok(text.map(|text| SecretString::from(text.trim())))
}

fn show_config(config: &Config, origin: bool) -> Result<ExitCode> {
    #[cfg(feature = "kafka")]
    {
        crate::kafka::check(config)?;
        let checked = crate::kafka_journal::check(&config.cluster);
        checked.map_err(|why| Failure::config(format!("[cluster] kafka_options: {why}")))?;
    }
    if config.origins.is_empty() {
        println!("# no logmill.toml and no LOGMILL_ variable: every value is the default");
    }
    for value in &config.origins {
        if origin {
            println!("{} = {}    # {}", value.key, value.value, value.origin);
        } else {
            println!("{} = {}", value.key, value.value);
        }
    }
    for (key, value) in config.settings() {
        // A table is noted by its keys.
        let is_of = |origin: &str| {
            let rest = origin.strip_prefix(&*key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if !config.origins.iter().any(|o| is_of(&o.key)) {
            println!(
                "{key} = {value}{}",
                if origin { "    # default" } else { "" }
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
