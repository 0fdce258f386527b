//! Answers to panels as Grafana's own package reads them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value as Json;

use crate::support::finish;

/// Checks panels and their answers with `@grafana/data`: units, matchers and transformations that
/// it knows, values that it can show, no name twice. `LOGMILL_NODE_PATH` is a folder of packages
/// that has it.
pub(super) fn assert_shown(panels: &[Json]) {
    keep_to_draw(panels);
    let Ok(packages) = std::env::var("LOGMILL_NODE_PATH") else {
        println!("skipped: LOGMILL_NODE_PATH names no folder with @grafana/data");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/grafana.cjs");
    let mut node = Command::new("node");
    node.arg(script)
        .env("NODE_PATH", packages)
        .stdin(Stdio::piped());
    let input = serde_json::to_vec(panels).expect("JSON");
    let told = finish(&mut node, &input).code(0);
    let seen = format!("{} panels, ", panels.len());
    assert!(told.stdout.contains(&seen), "{}", told.stdout);
}

/// Writes panels and their answers into the folder `LOGMILL_PANELS`, for
/// `tests/clients/grafana_draw.cjs`.
fn keep_to_draw(panels: &[Json]) {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let Ok(folder) = std::env::var("LOGMILL_PANELS") else {
        return;
    };
    let nth = WRITTEN.fetch_add(1, Ordering::Relaxed) + 1;
    let file = Path::new(&folder).join(format!("{nth}.json"));
    let json = serde_json::to_vec(panels).expect("JSON");
    std::fs::write(&file, json).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}
