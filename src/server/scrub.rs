//! The scrub: a small share of every rollup is verified each hour, so that what differs from the raw
//! events is known before somebody relies on it.

use std::sync::atomic::Ordering;

use aggregator::{Sample, Verification, verify};

use super::App;

/// Verifies a share of the windows every interval, another each time, until told to stop.
pub(super) fn run(app: &App) {
    let config = &app.config.storage;
    if config.scrub_share <= 0.0 {
        return;
    }
    let mut turn = 0;
    while !app.stop.wait(config.scrub_interval.0) {
        once(app, Sample::turn(config.scrub_share, turn));
        turn += 1;
    }
}

fn once(app: &App, sample: Sample) {
    let snapshot = app.store.snapshot();
    for rollup in &snapshot.manifest().rollups {
        if app.stop.is_set() {
            return;
        }
        match verify(&snapshot, rollup, sample) {
            Ok(found) => tell(app, &found),
            Err(error) => {
                tracing::error!(rollup = %rollup.name, %error, "scrub: could not verify");
                *app.scrub_error.lock() = Some(format!("scrub of {}: {error}", rollup.name));
                app.scrub_failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn tell(app: &App, found: &Verification) {
    app.scrubbed.fetch_add(found.windows, Ordering::Relaxed);
    let differences = found.differences();
    if differences == 0 {
        return;
    }
    app.mismatches.fetch_add(differences, Ordering::Relaxed);
    let first = found.levels.iter().flat_map(|l| &l.shown).next();
    let what = format!(
        "rollup {}: {differences} states differ from the raw events, the first {}",
        found.rollup,
        first.map_or("", String::as_str)
    );
    tracing::error!(
        "scrub: {what}; see `logmill rollup verify {0}` and `logmill rollup rebuild {0}`",
        found.rollup
    );
    *app.scrub_error.lock() = Some(what);
}
