//! `logmill demo`: live sample traffic into a temporary store, or generated lines into a file.

pub(crate) mod generator;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::{Format, ParseOptions, Parser};
use storage::{Batch, Clock, Name, Store, SystemClock, WriteConcern};

use crate::cli::DemoArgs;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::server;
use generator::{Generator, Settings};

const STREAM: &str = "access";
/// So that the charts by hour and day have something to show at once: a week at a thin rate, a day
/// at a thicker one, the last hours at the live rate's order.
const PAST: [(i64, i64, usize); 3] = [(7 * 86_400, 86_400, 12_000), (86_400, 7_200, 16_000), (7_200, 0, 24_000)];

/// Runs the demo until Ctrl-C, or for `--seconds`.
pub(crate) fn run(mut config: Config, args: DemoArgs) -> Result<ExitCode> {
    if let Some(out) = &args.out {
        return write_lines(&args, out);
    }
    if let Some(http) = &args.http {
        config.server.http.clone_from(http);
    }
    let directory = tempfile::Builder::new().prefix("logmill-demo-").tempdir()?;
    let (rate, seconds) = (args.rate, args.seconds);
    server::run_with(
        &config,
        directory.path(),
        |address| {
            println!("The page:   http://{address}/");
            println!("Ask:        logmill sql --server http://{address} 'SELECT path, sum(hits) AS hits FROM stats.hourly GROUP BY path ORDER BY hits DESC LIMIT 5'");
            println!("Send lines: curl --data-binary @access.log 'http://{address}/api/v1/ingest/access'");
            println!("Follow:     logmill tail --server http://{address} --where 'status >= 500'");
            println!("A temporary store with sample traffic; Ctrl-C ends it and removes it.");
        },
        move |store, stop| traffic(&store, rate, seconds, &stop),
    )
}

/// A past first, then a line every so often with stamps of now, until told to stop.
fn traffic(store: &Arc<Store>, rate: u32, seconds: Option<u64>, stop: &server::Stop) -> Result<()> {
    let settings = Settings { seed: SystemClock.now_us().cast_unsigned(), ..Settings::demo() };
    let mut generator = Generator::new(settings);
    let mut parser = Parser::new(ParseOptions { format: Format::Auto, site: Some("www.example.org".into()), ..ParseOptions::default() });
    let mut lines = Vec::new();
    let now_s = SystemClock.now_us().div_euclid(1_000_000);
    for (from, to, count) in PAST {
        for i in 0..count {
            let at = now_s - from + (from - to) * i as i64 / count as i64;
            generator.line_at(at, &mut lines);
        }
        write(store, &mut parser, &mut lines)?;
    }
    let started = Instant::now();
    let mut sent = 0_u64;
    while !stop.wait(Duration::from_millis(200)) {
        let elapsed = started.elapsed();
        if seconds.is_some_and(|s| elapsed.as_secs() >= s) {
            stop.set();
            break;
        }
        // A slow wave, so that the chart of the last hour has a shape.
        let due = (elapsed.as_secs_f64() * f64::from(rate)) as u64;
        let at = SystemClock.now_us().div_euclid(1_000_000);
        while sent < due {
            generator.line_at(at, &mut lines);
            sent += 1;
        }
        write(store, &mut parser, &mut lines)?;
    }
    Ok(())
}

fn write(store: &Store, parser: &mut Parser, lines: &mut Vec<u8>) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let received_us = SystemClock.now_us();
    parser.set_received(received_us);
    let parsed = parser.parse(lines)?;
    lines.clear();
    let batch = Batch {
        stream: Name::new(STREAM)?,
        kind: parsed.kind,
        received_us,
        source: "demo".into(),
        events: parsed.events,
        quarantine: parsed.quarantine,
        identity: None,
    };
    store.write(batch, WriteConcern::ACKNOWLEDGED)?;
    Ok(())
}

fn write_lines(args: &DemoArgs, out: &std::path::Path) -> Result<ExitCode> {
    let defaults = Settings::default();
    let mut generator = Generator::new(Settings {
        lines: args.lines,
        days: args.days,
        hosts: args.hosts,
        paths: args.paths,
        late: args.late,
        seed: args.seed,
        start: args.start.unwrap_or(defaults.start),
        ..defaults
    });
    let sink: Box<dyn Write> = if out.as_os_str() == "-" {
        Box::new(std::io::stdout().lock())
    } else {
        let file = std::fs::File::create(out);
        Box::new(file.map_err(|e| Failure::new(crate::failure::FAILED, format!("{}: {e}", out.display())))?)
    };
    let mut sink = std::io::BufWriter::with_capacity(1 << 20, sink);
    let mut line = Vec::new();
    while generator.next_line(&mut line) {
        sink.write_all(&line)?;
        line.clear();
    }
    sink.flush()?;
    Ok(ExitCode::SUCCESS)
}
