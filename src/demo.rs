//! `logmill demo`: live sample traffic into a temporary store, or generated lines into a file.

pub(crate) mod generator;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::{BatchOrigin, Format, ParseOptions, Parser};
use storage::{Clock, Name, Store, SystemClock, WriteConcern};

use crate::cli::DemoArgs;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::intake;
use crate::serve::{self, OpenService, Service, Serving, Stop};
use crate::{postgres, server};
use generator::{Generator, Settings};

const STREAM: &str = "access";
/// Seconds of the past that the demo invents before it goes on live: enough for the charts by hour
/// and day.
const PAST_S: i64 = 3 * 86_400;
/// Lines of one batch of the past.
const BATCH_LINES: usize = 16 * 1024;

/// Events per second at a moment: a wave over the day that is highest in the afternoon, and a
/// smaller one over the hour, so that every chart has a shape.
fn rate_at(mean: f64, epoch_s: f64) -> f64 {
    let wave = |period: f64, peak: f64| ((epoch_s - peak) / period * std::f64::consts::TAU).cos();
    mean * (1.0
        + 0.55 * wave(86_400.0, 15.0 * 3600.0)
        + 0.15 * wave(3_600.0, 1_200.0)
        + 0.1 * wave(660.0, 0.0))
}

/// Runs the demo until Ctrl-C, or for `--seconds`.
pub(crate) fn run(mut config: Config, args: DemoArgs) -> Result<ExitCode> {
    if let Some(out) = &args.out {
        return write_lines(&args, out);
    }
    if let Some(http) = &args.http {
        config.server.http.clone_from(http);
    }
    if let Some(postgres) = &args.postgres {
        config.server.listen_postgres(postgres);
    }
    let directory = tempfile::Builder::new().prefix("logmill-demo-").tempdir()?;
    let (rate, seconds) = (args.rate, args.seconds);
    let options = ParseOptions {
        format: Format::Auto,
        site: Some("www.example.org".into()),
        ..intake::stream_options(&config, STREAM)
    };
    let http = server::http(&config.server.http, server::SharedApp::default(), |url| {
        println!("The page:   {url}/");
        println!(
            "Ask:        logmill sql --server {url} 'SELECT path, sum(hits) AS hits FROM stats.hourly GROUP BY path ORDER BY hits DESC LIMIT 5'"
        );
        println!("Send lines: curl --data-binary @access.log '{url}/api/v1/ingest/access'");
        println!("Follow:     logmill tail --server {url} --where 'status >= 500'");
        println!("A temporary store with sample traffic; Ctrl-C ends it and removes it.");
    })?;
    let postgres = postgres::postgres(&config, |address| {
        println!(
            "SQL:        psql -h {} -p {} logmill",
            address.ip(),
            address.port()
        );
    })?;
    let traffic: OpenService = Box::new(move |serving| {
        Ok(Some(Box::new(Traffic {
            serving: Arc::clone(serving),
            options,
            rate,
            seconds,
        })))
    });
    let services = http.into_iter().chain(postgres).chain([traffic]);
    serve::run(&config, directory.path(), services.collect())
}

/// Sample traffic as a service.
struct Traffic {
    serving: Arc<Serving>,
    options: ParseOptions,
    rate: u32,
    seconds: Option<u64>,
}

impl Service for Traffic {
    fn name(&self) -> &'static str {
        "traffic"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let Serving { store, stop, .. } = &*self.serving;
        traffic(store, self.options, self.rate, self.seconds, stop)
    }
}

/// Writes the past first, then lines with stamps of now, until it is stopped.
fn traffic(
    store: &Arc<Store>,
    options: ParseOptions,
    rate: u32,
    seconds: Option<u64>,
    stop: &Stop,
) -> Result<()> {
    let settings = Settings {
        seed: SystemClock.now_us().cast_unsigned(),
        ..Settings::demo()
    };
    let mut generator = Generator::new(settings);
    let mut parser = Parser::new(options);
    let mut lines = Vec::new();
    let mean = f64::from(rate);
    let now_s = || SystemClock.now_us().div_euclid(1_000_000);
    println!("Writing the invented traffic of the last three days …");
    let (began, mut events) = (Instant::now(), 0_u64);
    let mut due = 0.0;
    let mut waiting = 0;
    let mut at = now_s() - PAST_S;
    // The past ends when it is written, so that no gap lies between it and the present.
    while at < now_s() {
        due += rate_at(mean, at as f64);
        while due >= 1.0 {
            generator.line_at(at, &mut lines);
            due -= 1.0;
            waiting += 1;
            events += 1;
        }
        if waiting >= BATCH_LINES {
            waiting = 0;
            write(store, &mut parser, &mut lines)?;
        }
        if stop.is_set() {
            return Ok(());
        }
        at += 1;
    }
    write(store, &mut parser, &mut lines)?;
    println!(
        "… {events} events in {:.1} s; now live traffic, about {rate} events a second",
        began.elapsed().as_secs_f64()
    );
    let started = Instant::now();
    let mut last = started;
    while !stop.wait(Duration::from_millis(200)) {
        if seconds.is_some_and(|s| started.elapsed().as_secs() >= s) {
            stop.set();
            break;
        }
        let at = now_s();
        due += rate_at(mean, at as f64) * last.elapsed().as_secs_f64();
        last = Instant::now();
        while due >= 1.0 {
            generator.line_at(at, &mut lines);
            due -= 1.0;
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
    let origin = BatchOrigin {
        stream: Name::new(STREAM)?,
        source: "demo".into(),
        received_us,
        identity: None,
        // The store is the demo's own: its stream is of the kind that its lines make it.
        kind: None,
    };
    store.write(origin.batch(parsed), WriteConcern::ACKNOWLEDGED)?;
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
    let sink: Box<dyn Write> =
        if out.as_os_str() == "-" {
            Box::new(std::io::stdout().lock())
        } else {
            let file = std::fs::File::create(out);
            Box::new(file.map_err(|e| {
                Failure::new(crate::failure::FAILED, format!("{}: {e}", out.display()))
            })?)
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
