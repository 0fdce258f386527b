//! Disk space, and the time until it is used up.
//!
//! Once a day, maintenance samples the bytes that the store keeps and writes the sample beside
//! the store. The growth of the last week is computed from these samples. Without them there is
//! no forecast.

use crate::disk::{Sample, full_in_days, kept_bytes, sampled};
use crate::store::Shared;

/// File of the samples.
const SIZES: &str = "sizes";

/// Disk space of a store, and its forecast.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DiskForecast {
    /// Free and total bytes; none when the file system does not report them.
    pub space: Option<crate::env::Space>,
    /// Days until the disk is full at the growth of the last week. Infinite when nothing was
    /// added, none until the samples span a day.
    pub full_days: Option<f64>,
}

/// Samples the bytes kept, unless today has a sample already.
pub(super) fn sample(shared: &Shared) {
    if let Some(samples) = sampled(&samples(shared), now(shared))
        && let Ok(text) = serde_json::to_string(&samples)
    {
        shared.log.keep(SIZES, &text);
    }
}

pub(super) fn forecast(shared: &Shared) -> DiskForecast {
    let space = shared.fs().space(&shared.data).ok();
    DiskForecast {
        space,
        full_days: space.and_then(|s| full_in_days(&samples(shared), now(shared), s.free)),
    }
}

fn now(shared: &Shared) -> Sample {
    Sample {
        at_us: shared.now_us(),
        bytes: kept_bytes(&shared.state.lock().committed.manifest),
    }
}

fn samples(shared: &Shared) -> Vec<Sample> {
    let text = shared.log.kept(SIZES).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
