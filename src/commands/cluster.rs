//! `logmill cluster status`.

use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::Value;

use super::shard_keys::print_table;
use super::{Context, Opened};
use crate::cli::{ClusterCommand, Output};
use crate::cluster::{ClusterStatus, SeenShard};
use crate::failure::{FAILED, Failure, Result};
use crate::units::grouped;

/// Path of the shards as a server sees them.
const STATUS: &str = "/api/v1/cluster/status";

pub(super) fn run(context: &Context, command: &ClusterCommand) -> Result<ExitCode> {
    let ClusterCommand::Status = command;
    let Opened::Server(client) = context.open(&context.config)? else {
        return Err(Failure::usage(
            "no server runs on this directory; name one of the cluster with --server URL",
        ));
    };
    let told: Value = client.get_json(STATUS, &[])?;
    let status: ClusterStatus = serde_json::from_value(told.clone())
        .map_err(|e| Failure::new(FAILED, format!("the answer of the server: {e}")))?;
    match context.output {
        Some(Output::Json) => println!("{told:#}"),
        Some(Output::Ndjson) => {
            let shards = told["servers"].as_array().into_iter().flatten();
            shards.for_each(|shard| println!("{shard}"));
        }
        _ => show(&status),
    }
    Ok(match status.is_whole() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

fn show(status: &ClusterStatus) {
    let heads = [
        "shard",
        "epoch",
        "unsealed",
        "last seal",
        "behind",
        "server",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(status.servers.iter().map(row));
    print_table(&rows);
    for server in &status.servers {
        if let Some(error) = &server.error {
            println!("{}: {error}", server.url);
        }
    }
    for shard in &status.missing {
        println!("shard {shard} has no server");
    }
}

fn row(server: &SeenShard) -> Vec<String> {
    let mut row = match &server.told {
        Some(told) => vec![
            told.shard.to_string(),
            told.epoch.to_string(),
            grouped(told.unsealed),
            format!("{} s ago", since_s(told.sealed_at_us)),
            told.behind.map_or_else(String::new, grouped),
        ],
        None => vec![String::from("?"); 5],
    };
    row.push(server.url.clone());
    row
}

/// Returns the seconds since a time.
fn since_s(at_us: i64) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_s = now.map_or(0, |now| now.as_secs().cast_signed());
    (now_s - at_us.div_euclid(1_000_000)).max(0)
}
