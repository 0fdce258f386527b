//! `logmill grafana`: writes the files by which Grafana shows a store.

use std::process::ExitCode;

use dashboards::grafana::{Latency, Options, files};
use storage::Name;

use crate::cli::{GrafanaArgs, LatencyUnit};
use crate::failure::{Failure, Result};

pub(super) fn run(args: GrafanaArgs) -> Result<ExitCode> {
    let unit = match args.latency_unit {
        LatencyUnit::S => "s",
        LatencyUnit::Ms => "ms",
        LatencyUnit::Us => "µs",
        LatencyUnit::Ns => "ns",
    };
    let options = Options {
        url: url(&args.url)?,
        postgres: address(args.postgres)?,
        stream: stream(&args.stream)?,
        prometheus: args.prometheus,
        latency: args.latency.map(|field| Latency {
            field,
            unit: unit.to_owned(),
        }),
    };
    for file in files(&options) {
        let path = args.out.join(file.path);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = written.and_then(|()| std::fs::write(&path, file.content));
        written.map_err(|e| {
            let message = format!("{} could not be written: {e}", path.display());
            Failure::from(std::io::Error::new(e.kind(), message))
        })?;
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the name of a stream.
fn stream(given: &str) -> Result<String> {
    let name = Name::new(given);
    let name = name.map_err(|e| Failure::usage(format!("--stream: {e}")))?;
    Ok(name.to_string())
}

/// Checks the address of a server; a slash at its end is cut off.
fn url(given: &str) -> Result<String> {
    let host = ["http://", "https://"].map(|scheme| given.strip_prefix(scheme));
    let host = host.into_iter().flatten().next().unwrap_or_default();
    if host.trim_end_matches('/').is_empty() || given.contains(char::is_whitespace) {
        let message = format!("--url {given}: expected an address such as http://127.0.0.1:7070");
        return Err(Failure::usage(message));
    }
    Ok(given.trim_end_matches('/').to_owned())
}

/// Checks a host with a port.
fn address(given: String) -> Result<String> {
    let parts = given.rsplit_once(':');
    let port = parts.filter(|(host, _)| !host.is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(_) => Ok(given),
        None => Err(Failure::usage(format!(
            "--postgres {given}: expected a host and a port such as 127.0.0.1:5433"
        ))),
    }
}
