//! `/api/v1/backup`: a backup that the server makes on its own machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use storage::{BackupReport, Job, Said, SystemClock};

use super::answer;
use super::app::App;
use crate::wiring;

/// Maximum request body: no path is longer, even with every byte escaped.
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Absolute path of a directory that is empty or does not exist yet.
    dir: PathBuf,
}

/// Handles `POST /api/v1/backup {"dir": …}`. It accepts `application/json` only, which a page of
/// another origin cannot send without a CORS preflight.
pub(super) async fn backup(
    State(app): State<Arc<App>>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Response {
    let Json(Wanted { dir }) = match wanted {
        Ok(wanted) => wanted,
        Err(wrong) => {
            let hint = Some("send {\"dir\": \"/absolute/path\"} as application/json");
            return answer::error(wrong.status(), "invalid", &wrong.body_text(), hint);
        }
    };
    let data = app.serving.store.snapshot().data_dir().to_path_buf();
    let log = app.serving.store.maintenance().clone();
    let work = move || {
        let data = std::path::absolute(&data).unwrap_or(data);
        let run = log.begin(Job::Backup, None, "requested by an operator");
        let outcome = storage::backup(&wiring::shared_disk(), &SystemClock, &data, &dir);
        match &outcome {
            Ok(report) => run.done(job_report(report, &dir)),
            Err(error) => run.failed(error),
        }
        outcome
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(report)) => answer::json(StatusCode::OK, &report),
        Ok(Err(error)) => answer::of_storage(&error),
        Err(_) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the backup's task failed; see the server's log",
            None,
        ),
    }
}

fn job_report(report: &BackupReport, dir: &Path) -> Said {
    Said {
        what: format!(
            "made a backup in {}: version {}",
            dir.display(),
            report.version
        ),
        done: Some(report.linked_files + report.copied_files),
        total: Some(report.linked_files + report.copied_files),
        bytes_read: Some(report.copied_bytes),
        bytes_written: Some(report.copied_bytes),
    }
}
