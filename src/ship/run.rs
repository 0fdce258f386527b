//! The threads of a shipper, from the start to its end.

use std::time::{Duration, Instant};

use super::ShipOptions;
use super::send::{Ended, Link, Receiver, ShipCounts};
use super::sender::Shipper;
use crate::client::Refusal;
use crate::failure::{FAILED, Failure, Result};
use crate::interrupt::Interrupt;

/// Threads that send plain files. Each holds one batch.
const SENDERS: usize = 4;
/// Interval at which the lengths of all files are read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval at which the paths are read that the arguments stand for.
const FIND_EVERY: Duration = Duration::from_millis(600);
/// Interval of the log line while something happens, and otherwise.
const REPORT_EVERY: Duration = Duration::from_secs(10);
const REPORT_IDLE_EVERY: Duration = Duration::from_secs(600);
/// With `--once`, a server that does not answer for so long fails the command.
const ONCE_PATIENCE: Duration = Duration::from_secs(60);

/// Ships until a signal, a failure, or with `once` until everything was sent. Returns the counts
/// also where it failed.
pub(crate) fn run(
    options: &ShipOptions,
    receiver: &dyn Receiver,
    interrupt: Interrupt,
) -> (ShipCounts, Result<()>) {
    let patience = options.once.then_some(ONCE_PATIENCE);
    let shipper = Shipper::new(options, Link::new(receiver, interrupt, patience));
    if let Err(failure) = check(receiver, options) {
        return (ShipCounts::default(), Err(failure));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| work(&shipper, Shipper::identify_next));
        for _ in 0..SENDERS {
            scope.spawn(|| work(&shipper, Shipper::send_next));
        }
        watch(&shipper);
        // The other threads end with the request under way.
        shipper.link.end(None);
        shipper.work.notify_all();
    });
    let mut counts = *shipper.counts.lock();
    counts.retries = shipper.link.retries();
    let outcome = match (shipper.link.failure(), shipper.files.lock().troubled()) {
        (Some(failure), _) => Err(failure),
        (None, 1..) if options.once => Err(Failure::new(
            FAILED,
            "not everything could be read; the log names the files",
        )),
        (None, _) => Ok(()),
    };
    (counts, outcome)
}

/// Fails at once where no later attempt can succeed: wrong credentials are found before the first
/// file is.
fn check(receiver: &dyn Receiver, options: &ShipOptions) -> Result<()> {
    match receiver.states(&format!("file:{}:", options.stream)) {
        Err(Refusal::Final(why) | Refusal::Invalid(why)) => Err(Failure::new(FAILED, why)),
        // The link tries again, and says so.
        Ok(_) | Err(Refusal::Again { .. } | Refusal::TooLarge(_)) => Ok(()),
    }
}

/// Does one kind of step, over and over.
fn work<'a>(shipper: &Shipper<'a>, step: fn(&Shipper<'a>, Instant) -> Result<bool, Ended>) {
    while !shipper.link.has_ended() {
        match step(shipper, Instant::now()) {
            Ok(true) => {}
            Ok(false) => {
                let mut files = shipper.files.lock();
                // A wake-up that comes before this wait is made up for by the next look.
                shipper.work.wait_for(&mut files, LOOK_EVERY);
            }
            Err(Ended) => return,
        }
    }
}

/// Looks at the files and reports, until the shipper is to end.
fn watch(shipper: &Shipper<'_>) {
    let mut finds = Instant::now();
    let mut reports = Report::new();
    while !shipper.link.has_ended() {
        let now = Instant::now();
        let is_to_find = now >= finds;
        shipper.look(now, is_to_find);
        if is_to_find {
            finds = Instant::now() + FIND_EVERY;
        }
        reports.log(shipper, now);
        if shipper.options.once && shipper.files.lock().is_drained(Instant::now()) {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The regular log line.
struct Report {
    last: Instant,
    bytes: u64,
}

impl Report {
    fn new() -> Self {
        Self {
            last: Instant::now(),
            bytes: 0,
        }
    }

    fn log(&mut self, shipper: &Shipper<'_>, now: Instant) {
        let mut counts = *shipper.counts.lock();
        let since = now.saturating_duration_since(self.last);
        let is_idle = counts.bytes == self.bytes;
        if since < REPORT_EVERY || is_idle && since < REPORT_IDLE_EVERY {
            return;
        }
        counts.retries = shipper.link.retries();
        let (files, lag_bytes) = {
            let files = shipper.files.lock();
            (files.count(), files.lag_bytes())
        };
        tracing::info!("{files} files, {lag_bytes} bytes behind; {counts}");
        (self.last, self.bytes) = (now, counts.bytes);
    }
}
