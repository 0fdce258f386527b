use super::*;
use crate::env::{ManualClock, RealFs};
use crate::sim::{Call, Fault, SimFs};
use std::io::ErrorKind;

fn log(fs: Arc<dyn Fs>, data: &Path) -> JobLog {
    JobLog::of(fs, Arc::new(ManualClock::at(1_000_000)), data, true)
}

fn drop_one(log: &JobLog, what: &str) {
    let run = log.begin(Job::Drop, Some("access"), "requested by an operator");
    run.done(Said {
        what: what.into(),
        ..Said::default()
    });
}

fn whats(log: &JobLog) -> Vec<String> {
    log.entries().into_iter().map(|e| e.said.what).collect()
}

#[test]
fn what_was_done_is_found_by_the_next_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let first = log(Arc::clone(&fs), dir.path());
    drop_one(&first, "one");
    let run = first.begin(Job::Replay, None, "requested by an operator");
    run.progress(3, Some(9));
    let shown = first.entries();
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[1].state, JobState::Running);
    assert_eq!(
        (shown[1].said.done, shown[1].said.total),
        (Some(3), Some(9))
    );
    run.failed(&"no more");
    drop(first.begin(Job::Scrub, None, "there was nothing to do"));
    let next = log(fs, dir.path()).entries();
    assert_eq!(next, first.entries());
    assert_eq!(next.len(), 2);
    assert_eq!(next[0].started_us, 1_000_000);
    assert_eq!((next[0].job, next[0].state), (Job::Drop, JobState::Done));
    assert_eq!(next[1].error.as_deref(), Some("no more"));
    let counts = first.counts();
    assert_eq!(
        (counts[&Job::Drop].done, counts[&Job::Replay].failed),
        (1, 1)
    );
    assert!(!counts.contains_key(&Job::Scrub));
}

#[test]
fn torn_and_foreign_lines_are_passed_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = log(Arc::new(RealFs), dir.path());
    drop_one(&log, "before");
    let path = dir.path().join("maintenance/log");
    let mut bytes = std::fs::read(&path).expect("there");
    bytes.extend_from_slice(b"{\"job\":\"of another time\"}\n\xff\xfe\n{\"started_us\":1,\"jo");
    std::fs::write(&path, bytes).expect("written");
    drop_one(&log, "after");
    assert_eq!(whats(&log), ["before", "after"]);
}

#[test]
fn the_log_is_bounded() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = log(Arc::new(RealFs), dir.path());
    let long = "m".repeat(100 << 10);
    for i in 0..40 {
        drop_one(&log, &format!("{i} {long}"));
    }
    let bytes = |name: &str| {
        let meta = std::fs::metadata(dir.path().join("maintenance").join(name));
        meta.map_or(0, |m| m.len())
    };
    assert!((1..2 << 20).contains(&bytes("log")), "{}", bytes("log"));
    assert!((1 << 20..2 << 20).contains(&bytes("log.1")));
    let left = whats(&log);
    assert!(left.len() > 10 && left.len() < 25, "{}", left.len());
    assert!(left.last().expect("a line").starts_with("39 "));
}

#[test]
fn a_failure_that_repeats_itself_is_one_line() {
    let log = log(Arc::new(SimFs::new()), Path::new("/data"));
    let fail = |why: &str| log.begin(Job::Seal, None, "it was time").failed(&why);
    for _ in 0..5 {
        fail("the disk is full");
    }
    fail("the disk is gone");
    log.begin(Job::Seal, None, "it was time")
        .done(Said::default());
    fail("the disk is gone");
    let errors: Vec<_> = log.entries().into_iter().map(|e| e.error).collect();
    let said: Vec<_> = errors.iter().map(Option::as_deref).collect();
    let (full, gone) = (Some("the disk is full"), Some("the disk is gone"));
    assert_eq!(said, [full, gone, None, gone]);
    assert_eq!(log.counts()[&Job::Seal].failed, 7);
}

#[test]
fn what_is_kept_is_replaced_and_what_was_cut_short_is_in_nobodys_way() {
    let fs = SimFs::new();
    let log = log(Arc::new(fs.clone()), Path::new("/data"));
    assert_eq!(log.kept("scrub"), None);
    log.keep("scrub", "1");
    log.keep("scrub", "2");
    fs.fail(Fault {
        call: Call::Rename,
        after: 0,
        forever: false,
        error: ErrorKind::StorageFull,
    });
    log.keep("scrub", "3");
    assert_eq!(log.kept("scrub").as_deref(), Some("2"));
    log.keep("scrub", "4");
    assert_eq!(log.kept("scrub").as_deref(), Some("4"));
}
