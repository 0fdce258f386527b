//! Attacks on a real server with accounts, one class after the other, beside normal clients.
//!
//!     cargo bench --bench attack -- [--small] [--only CLASS] [--dir target/bench]
//!         [--logmill PROGRAM]
//!
//! All on this machine: normal clients come from 127.0.0.2, attackers from 127.0.0.3 and after. The
//! classes run against a port without TLS, then those that are about connections against one with
//! it. Attackers stand for other machines: their thread has a low priority, so that normal clients
//! wait for the server and not for the attackers. It exits with 1 when a bound is broken:
//!
//! * the 99th percentile of normal sends, queries and probes is under three times that of a quiet
//!   server, or below [`P99_MIN`]; where attackers store large bodies, that of sends is below
//!   [`LARGE_P99_MIN`];
//! * the server answers after each class, and every answer is one that the class may get;
//! * resident memory stays under what it was before the class and the bound of the class, under
//!   that at the start and [`PEAK_MIB`], and what is left of all classes under [`LEFT_MIB`];
//! * the attack has reached the limit that it is about;
//! * the server's log grows by less than [`LOG_MIB`] a second;
//! * open descriptors return to what they were;
//! * every acknowledged event is stored once, no smuggled one is, and nothing panicked.
//!
//! `--small` has fewer attackers and shorter attacks, for a build without optimization: there the
//! least percentile that breaks a bound is [`SMALL_P99_MIN`], and memory has [`SMALL_TO_RETURN`].

mod bombs;
mod classes;
mod door;
mod driver;
mod floods;
mod house;
mod http;
mod large;
mod listeners;
mod mongo;
mod normal;
mod oversized;
mod slow;
mod smuggling;
mod stage;
mod table;
#[allow(dead_code, reason = "another bench needs the rest")]
#[path = "../hostile/watch.rs"]
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use house::{House, Server};
use normal::{KINDS, Normal, SENDS};
use slow::OVERDUE;
use stage::{Class, REFUSED, Stage};
use table::Row;
use watch::{Watch, resident_mib};

/// A percentile below this breaks no bound, ms: on a machine as quick as that of the figures, three
/// times the quiet time is about this, and a few slow answers decide.
const P99_MIN: f64 = 15.0;
const SMALL_P99_MIN: f64 = 1000.0;
/// The same for sends where attackers store large bodies, ms: the journal is one, and a batch waits
/// while 31 MiB before it are written and perhaps synced.
const LARGE_P99_MIN: f64 = 250.0;
/// Time within which a server has closed what an attack left open, and answers as before it.
const TO_CALM: Duration = Duration::from_secs(15);
/// A normal client that has waited for so long still feels the attack.
const CALM: Duration = Duration::from_millis(100);
/// Descriptors by which a server at work differs from itself: connections of normal clients, and
/// files of the store.
const DESCRIPTORS: usize = 24;
/// Memory that may be left after a class, over that at the start, within [`TO_CALM`]: a memtable,
/// which has 256 MiB at most, freed memory that is not returned yet, and caches.
const LEFT_MIB: f64 = 640.0;
/// Time within which a build without optimization has so little: it seals a thousand columns that
/// most events lack for half a minute.
const SMALL_TO_RETURN: Duration = Duration::from_secs(90);
/// Memory over that at the start, at any time.
const PEAK_MIB: f64 = 1280.0;
/// The log's growth each second: an attacker must not fill the disk with it.
const LOG_MIB: f64 = 1.0;
/// Attackers end by themselves; one that does not breaks a bound.
const TO_END: Duration = Duration::from_secs(60);
/// The niceness of attackers.
const NICE: i32 = 10;

struct Settings {
    small: bool,
    only: Option<String>,
    dir: PathBuf,
    logmill: PathBuf,
}

fn settings() -> Settings {
    let mut s = Settings {
        small: false,
        only: None,
        dir: "target/bench".into(),
        logmill: env!("CARGO_BIN_EXE_logmill").into(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--small" => s.small = true,
            "--only" => s.only = Some(value()),
            "--dir" => s.dir = value().into(),
            "--logmill" => s.logmill = value().into(),
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    std::fs::create_dir_all(&s.dir).expect("a directory");
    s.dir = s.dir.canonicalize().expect("a directory");
    s
}

fn main() -> ExitCode {
    let s = settings();
    raise_descriptors();
    let mut broken = Vec::new();
    let mut number = 0;
    for has_tls in [false, true] {
        let chosen: Vec<Class> = classes::all()
            .into_iter()
            .filter(|class| match has_tls {
                true => class.needs_tls || class.on_both && !s.small,
                false => !class.needs_tls,
            })
            .filter(|class| s.only.as_ref().is_none_or(|o| class.name.contains(&**o)))
            .collect();
        number += chosen.len();
        if !chosen.is_empty() {
            attack(&s, has_tls, &chosen, &mut broken);
        }
    }
    assert!(number > 0, "no class has a name with {:?}", s.only);
    for what in &broken {
        println!("BROKEN {what}");
    }
    ExitCode::from(u8::from(!broken.is_empty()))
}

/// Runs classes against one server.
fn attack(s: &Settings, has_tls: bool, chosen: &[Class], broken: &mut Vec<String>) {
    let home = tempfile::tempdir_in(&s.dir).expect("a directory");
    let house = House::new(&s.logmill, home.path());
    let server = house.serve(has_tls, environment(s.small));
    let normal = Normal::start(&server.door, &house.tokens);
    std::thread::sleep(Duration::from_secs(if s.small { 1 } else { 3 }));
    normal.take();
    std::thread::sleep(Duration::from_secs(if s.small { 2 } else { 15 }));
    let quiet = normal.take();
    let watch = Watch::start(server.process(), house.temp());
    let start_mib = resident_mib(server.process());
    table::begin(has_tls, &quiet, start_mib);
    for class in chosen {
        let open = server.descriptors();
        let (before_mib, before_log) = (resident_mib(server.process()), server.log_mib());
        watch.take();
        normal.take();
        let began = Instant::now();
        let stage = run(class, &server, &house, s.small);
        let (peak, taken) = (watch.take(), normal.take());
        let log_mib = (server.log_mib() - before_log) / began.elapsed().as_secs_f64();
        let ended = Instant::now();
        let open_after = calm_again(&server, &normal, open);
        let calm = ended.elapsed();
        let mut row = Row {
            name: class.name,
            quiet: &quiet,
            taken: &taken,
            over_mib: peak.resident_mib - before_mib,
            peak_mib: peak.resident_mib - start_mib,
            left_mib: left_mib(&server, start_mib, s.small),
            log_mib,
            calm,
            descriptors: (open, open_after),
            outcomes: stage.outcomes().0,
            broken: stage.outcomes().1,
        };
        check(s, class, &server, &mut row);
        row.print();
        broken.extend(
            row.broken
                .iter()
                .map(|what| format!("{}: {what}", class.name)),
        );
    }
    let mut found = Vec::new();
    count(&house, &server, normal.stop(), &mut found);
    found.extend(server.panics());
    for what in found {
        println!("    BROKEN: {what}");
        broken.push(what);
    }
}

/// Returns the configuration: a small run has fewer attackers, and a server with fewer places.
fn environment(small: bool) -> &'static [(&'static str, &'static str)] {
    match small {
        true => &[("LOGMILL_SERVER__CONNECTIONS_MAX", "100")],
        false => &[],
    }
}

/// Runs the attackers of a class on a thread of low priority until they end.
fn run(class: &Class, server: &Server, house: &House, small: bool) -> Arc<Stage> {
    let lasts = match small {
        true => Duration::from_millis(1500),
        false => Duration::from_secs(class.seconds),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| {
            // Of Linux, where the priority is one of the calling thread.
            rustix::process::setpriority_process(None, NICE).expect("a lower priority");
        })
        .enable_all()
        .build()
        .expect("a runtime");
    let stage = Stage::new(server.door.clone(), house.tokens.clone(), small, lasts);
    let attackers = runtime.spawn((class.run)(Arc::clone(&stage)));
    let ended = runtime.block_on(async { tokio::time::timeout(lasts + TO_END, attackers).await });
    match ended {
        Ok(ended) => ended.expect("an attack panicked"),
        Err(_) => stage.breaks("the attackers wait for answers that do not come".to_owned()),
    }
    runtime.shutdown_background();
    stage
}

/// Waits until the server has as few descriptors as before, and no normal client waits for what
/// the attack left behind; returns the number of descriptors.
fn calm_again(server: &Server, normal: &Normal, before: usize) -> usize {
    let until = Instant::now() + TO_CALM;
    loop {
        // The clients begin again with what is due now.
        std::thread::sleep(Duration::from_millis(200));
        let open = server.descriptors();
        let is_calm = open <= before + DESCRIPTORS && normal.longest_wait() < CALM;
        if is_calm || Instant::now() > until {
            return open;
        }
    }
}

/// Returns the memory that is left over that at the start, once it is little or the server had time
/// to return it.
fn left_mib(server: &Server, start_mib: f64, is_small: bool) -> f64 {
    let within = if is_small { SMALL_TO_RETURN } else { TO_CALM };
    let until = Instant::now() + within;
    loop {
        let left = resident_mib(server.process()) - start_mib;
        if left < LEFT_MIB || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Notes the bounds that a class has broken.
fn check(s: &Settings, class: &Class, server: &Server, row: &mut Row<'_>) {
    let least = if s.small { SMALL_P99_MIN } else { P99_MIN };
    let mut broken = Vec::new();
    for (kind, (now, quiet)) in KINDS.iter().zip(row.taken.p99.iter().zip(row.quiet.p99)) {
        let most = match class.fills_disk && SENDS.contains(kind) {
            true => LARGE_P99_MIN.max(least),
            false => (3.0 * quiet).max(least),
        };
        // No figure at all is no figure below the bound either.
        if now.is_nan() || *now >= most {
            broken.push(format!(
                "normal {kind}: p99 {now:.1} ms of {most:.1}, {quiet:.1} ms quiet"
            ));
        }
    }
    if row.over_mib > class.memory_mib {
        let (over, most) = (row.over_mib, class.memory_mib);
        broken.push(format!("{over:.0} MiB more than before, of {most:.0}"));
    }
    if row.peak_mib > PEAK_MIB {
        let peak = row.peak_mib;
        broken.push(format!("{peak:.0} MiB more than at the start"));
    }
    if row.left_mib > LEFT_MIB {
        let left = row.left_mib;
        broken.push(format!("{left:.0} MiB more than at the start are left"));
    }
    if row.log_mib > LOG_MIB {
        broken.push(format!("{:.1} MiB a second of log", row.log_mib));
    }
    let (before, after) = row.descriptors;
    if after > before + DESCRIPTORS {
        broken.push(format!("{after} open descriptors, {before} before"));
    }
    if row.calm >= TO_CALM {
        broken.push("normal clients still wait after the attack".to_owned());
    }
    for outcome in row.outcomes.keys() {
        let is_known = REFUSED.contains(&&**outcome) || class.accepted.contains(&&**outcome);
        if !is_known {
            broken.push(format!("an answer that no attack may get: {outcome}"));
        }
    }
    // A small attack is over before the server's patience is.
    let wants = |o: &&&str| !s.small || ![OVERDUE, "408"].contains(*o);
    let mut wanted = class.reached.iter().filter(wants);
    if !wanted.all(|o| row.outcomes.contains_key(*o)) {
        let reached = class.reached.join(" and ");
        broken.push(format!(
            "no attacker got {reached}: the attack missed its limit"
        ));
    }
    if !server.answers("/health", Duration::from_secs(5)) {
        broken.push("the server does not answer".to_owned());
    }
    row.broken.extend(broken);
}

/// Counts the events of the normal senders, and those of smuggled requests.
fn count(house: &House, server: &Server, acknowledged: u64, broken: &mut Vec<String>) {
    let header = http::bearer(&house.tokens.reader);
    let ask = |sql: &str| {
        let within = Duration::from_secs(30);
        server.ask("POST /api/v1/sql", &header, sql.as_bytes(), within)
    };
    let stream = normal::STREAM;
    let counted = ask(&format!(
        "SELECT count(*) AS n, count(DISTINCT id) AS d FROM {stream}"
    ));
    let (_, body) = counted.unwrap_or_default();
    let figure = |name: &str| {
        let value = body.split_once(&format!("\"{name}\":"))?.1;
        let end = value.find(|c: char| !c.is_ascii_digit())?;
        value[..end].parse::<u64>().ok()
    };
    let (stored, distinct) = (figure("n"), figure("d"));
    println!("    {acknowledged} events acknowledged, {stored:?} stored, {distinct:?} distinct");
    if stored != Some(acknowledged) || distinct != stored {
        broken.push(format!("{acknowledged} events acknowledged, but: {body}"));
    }
    let smuggled = ask(&format!("SELECT count(*) AS n FROM {}", smuggling::STREAM));
    // There is no such stream, unless an event came to it.
    if !smuggled
        .as_ref()
        .is_some_and(|(status, _)| *status == 400 || *status == 404)
    {
        broken.push(format!("smuggled events: {smuggled:?}"));
    }
}

/// Raises the limit of descriptors of this process, and so of its server.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("the soft limit is raised to the hard one");
}
