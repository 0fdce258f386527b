//! The disk fails under the real server: `strace` makes chosen system calls fail, one by one.
//!
//! After a failed sync of the journal no `j` write is acknowledged, the process ends with 74 at
//! once, and the next start finds everything that was acknowledged. A seal that fails is
//! reported, loses nothing and is tried again.

mod trace;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use rustix::process::Signal;

use crate::support::{
    BINARY, Batch, Home, Ledger, Outcome, PATIENCE, Server, seed, write_until_gone,
};
use trace::{Injected, Struck};

/// A failing sync takes this long, so that answers before it and after it can be distinguished.
const DELAY: Duration = Duration::from_secs(1);
/// A process whose journal has failed ends within this time.
const END_WITHIN: Duration = Duration::from_secs(1);
/// Seals come by themselves, from the thread that counts its own calls.
const SEAL_OFTEN: (&str, &str) = ("LOGMILL_STORAGE__LAG", "200ms");
const WRITERS: [(&str, &str); 3] = [("a", "w=1"), ("b", "j=true"), ("c", "w=majority")];

/// The calls that fail, and their errors. Each thread counts its own: a start makes five of each
/// kind, the others come from the threads of log, sync and seals.
const FAULTS: [&str; 17] = [
    "fdatasync:error=EIO:when=2",
    "fdatasync:error=EIO:when=5",
    "fdatasync:error=EIO:when=6",
    "fdatasync:error=EIO:when=30",
    "fdatasync:error=EIO:when=100",
    "fsync:error=EIO:when=3",
    "fsync:error=EIO:when=7",
    "fsync:error=EIO:when=16",
    "fsync:error=EIO:when=21",
    "pwrite64:error=EIO:when=4",
    "pwrite64:error=EIO:when=9",
    "pwrite64:error=EIO:when=80",
    "pwrite64:error=ENOSPC:when=20..22",
    "/^rename:error=EIO:when=1",
    "/^rename:error=EIO:when=8",
    "/^rename:error=EIO:when=12",
    "/^rename:error=ENOSPC:when=10..11",
];

#[test]
fn a_disk_that_fails_costs_nothing_that_was_acknowledged() {
    if !can_trace() {
        return;
    }
    let mut random = SmallRng::seed_from_u64(seed());
    let mut struck = BTreeMap::<_, u32>::new();
    for fault in FAULTS {
        *struck.entry(strike(fault, &mut random)).or_default() += 1;
    }
    println!("struck: {struck:?}");
    for place in [
        Struck::Start,
        Struck::JournalSync,
        Struck::Journal,
        Struck::Seal,
    ] {
        assert!(struck.contains_key(&place), "no fault met {place:?}");
    }
}

fn can_trace() -> bool {
    let mut probe = Command::new("strace");
    probe.args("-D -f -qq -y --seccomp-bpf -o /dev/null -e inject=fsync:error=EIO true".split(' '));
    let works = probe
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        println!("skipped: there is no strace, or it may not trace");
    }
    works
}

/// Returns a command that runs the server as a child of ours, with strace beside it rather than
/// above.
fn traced(fault: &str, trace: &str) -> Command {
    let delay = if fault.contains("sync:") {
        format!(":delay_enter={}", DELAY.as_micros())
    } else {
        String::new()
    };
    let call = fault.split(':').next().unwrap_or(fault);
    let mut strace = Command::new("strace");
    strace
        .args("-D -f -qq -y -ttt --seccomp-bpf -o".split(' '))
        .args([trace, "-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={fault}{delay}"), BINARY])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env_remove("LOGMILL_LOG")
        .stdin(Stdio::null());
    strace
}

/// Runs one server with one fault, under writers, and the start after it.
fn strike(fault: &str, random: &mut SmallRng) -> Struck {
    let home = Home::new();
    let trace = home.path("trace");
    let mut ledger = Ledger::default();
    let struck = match Server::try_start(traced(fault, &trace), &home.data, &[SEAL_OFTEN]) {
        Err(told) => {
            assert_eq!(told.code, 74, "{fault}: {}", told.stderr);
            assert!(told.stderr.contains("os error 5"), "{}", told.stderr);
            Struck::Start
        }
        Ok(mut server) => {
            let seeds: [u64; 3] = random.random();
            let ended = std::thread::scope(|scope| {
                let server = &server;
                let writers: Vec<_> = std::iter::zip(WRITERS, seeds)
                    .map(|((name, concern), seed)| {
                        scope.spawn(move || {
                            write_until_gone(server, name, concern, seed, &[503, 507])
                        })
                    })
                    .collect();
                Injected::wait(&trace, PATIENCE);
                let ended = stop_when_it_goes_on(server);
                for writer in writers {
                    ledger.batches.extend(writer.join().expect("a writer"));
                }
                ended
            });
            let code = server.ended(PATIENCE);
            judge(fault, &server, &ledger, &Injected::all(&trace), code, ended)
        }
    };
    println!(
        "{fault}: {struck:?}, {} acknowledged",
        ledger.acknowledged()
    );
    let server = Server::start(&home.data);
    if struck == Struck::Start {
        ledger = Ledger::begin(&server, random);
    }
    ledger.assert_held(|query| server.sql(query));
    ledger.settle(&server);
    ledger.assert_exact(&server);
    struck
}

/// Waits until the server has ended by itself, and returns the time. A server that goes on works
/// for a while and is then stopped.
fn stop_when_it_goes_on(server: &Server) -> Option<SystemTime> {
    let until = Instant::now() + DELAY + END_WITHIN;
    while Instant::now() < until {
        if server.is_gone() {
            return Some(SystemTime::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    server.signal(Signal::TERM);
    None
}

/// Checks that the server did what it must. Returns the fault that made it end, or else the last
/// one that it outlived.
#[track_caller]
fn judge(
    fault: &str,
    server: &Server,
    ledger: &Ledger,
    injected: &[Injected],
    code: i32,
    ended: Option<SystemTime>,
) -> Struck {
    let log = server.log();
    let (Some(first), Some(last)) = (injected.first(), injected.last()) else {
        panic!("{fault}: no call failed");
    };
    let sync = injected.iter().find(|i| i.struck == Struck::JournalSync);
    // Nothing outlives a failed sync of the journal, whatever else fails after it.
    let reason = sync.unwrap_or(last);
    if code == 0 {
        assert!(sync.is_none(), "{fault}: goes on after it: {log}");
        let noticed = last.struck != Struck::Seal || log.contains("seal failed");
        assert!(noticed, "{fault}: {log}");
        let goes_on = answered_after(ledger, first.at + END_WITHIN).count() > 0;
        assert!(goes_on, "{fault}: nothing is taken any more: {log}");
        return last.struck;
    }
    assert_eq!(code, 74, "{fault}: {log}");
    // A server that was stopped fails to seal and close, and logs the reason.
    let said = if ended.is_some() {
        "stopping"
    } else {
        "os error"
    };
    assert!(log.contains(said), "{fault}: {log}");
    let delay = if reason.delayed {
        DELAY
    } else {
        Duration::ZERO
    };
    let ended = ended.unwrap_or_else(SystemTime::now);
    let took = ended.duration_since(reason.at).unwrap_or_default();
    assert!(took < delay + END_WITHIN, "{fault}: ended after {took:?}");
    if let Some(sync) = sync {
        // While the sync was on its way to failing no write can have been acknowledged by it.
        let wrong: Vec<&Batch> = answered_after(ledger, sync.at + DELAY / 2)
            .filter(|b| b.concern != "w=1")
            .collect();
        assert!(wrong.is_empty(), "{fault}: {wrong:?}");
    }
    reason.struck
}

fn answered_after(ledger: &Ledger, time: SystemTime) -> impl Iterator<Item = &Batch> {
    let acknowledged = |b: &&Batch| matches!(b.outcome, Outcome::Acknowledged(_));
    let batches = ledger.batches.iter().filter(acknowledged);
    batches.filter(move |b| b.answered > time)
}
