//! The room on the disk, and for how long it lasts.
//!
//! Once a day, when the store is tended, the bytes that it keeps are written down beside it; of these
//! samples the growth of the last week is known. Without them nothing is foretold.

use super::Shared;
use crate::disk::{Sample, full_in_days, kept_bytes, sampled};

/// Where the samples are kept.
const SIZES: &str = "sizes";

/// The room on the disk that holds a store.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DiskForecast {
    /// Bytes that may still be written, and all there are; none when the disk does not say.
    pub space: Option<crate::env::Space>,
    /// In how many days it is full at the pace of the last week; infinite when nothing came to stay,
    /// none until the store has been watched for a day.
    pub full_days: Option<f64>,
}

/// Writes down how much is kept, when that was not done today.
pub(super) fn sample(shared: &Shared) {
    if let Some(samples) = sampled(&samples(shared), now(shared))
        && let Ok(text) = serde_json::to_string(&samples)
    {
        shared.log.keep(SIZES, &text);
    }
}

pub(super) fn look(shared: &Shared) -> DiskForecast {
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
