//! A store of generated lines, imported and compacted by the real program. It stays.

use std::path::{Path, PathBuf};
use std::process::Command;

use chrono::NaiveDate;

const LOGMILL: &str = env!("CARGO_BIN_EXE_logmill");

/// The stream that it has.
pub(crate) const STREAM: &str = "access";

/// Returns the store of that many lines over that many days in a folder; made when it is not there.
pub(crate) fn store(dir: &Path, lines: u64, days: u32) -> PathBuf {
    let data = dir.join(format!("questions-{lines}-{days}"));
    if !data.exists() {
        fill(dir, lines, days, &data);
    }
    data
}

/// Makes a rollup of a store, described by a configuration, from its raw events of that many days.
#[allow(dead_code, reason = "one bench needs it")]
pub(crate) fn add_rollup(
    data: &Path,
    name: &str,
    configuration: &str,
    days: (NaiveDate, NaiveDate),
) {
    let file = data.with_extension("toml");
    std::fs::write(&file, configuration).expect("writes");
    let (from, to) = (days.0.to_string(), days.1.to_string());
    let rebuild = ["rollup", "rebuild", name, "--from", &from, "--to", &to];
    let mut command = Command::new(LOGMILL);
    command.arg("--config").arg(&file).args(rebuild);
    let status = command.arg("--data").arg(data).status();
    assert!(status.expect("runs").success(), "{rebuild:?} failed");
}

fn fill(dir: &Path, lines: u64, days: u32, data: &Path) {
    std::fs::create_dir_all(dir).expect("a directory");
    let log = dir.join(format!("access-{lines}-{days}.log"));
    let run = |args: &[&str], path: Option<&Path>| {
        let status = Command::new(LOGMILL).args(args).args(path).status();
        assert!(status.expect("runs").success(), "{args:?} failed");
    };
    let (lines, days) = (lines.to_string(), days.to_string());
    let place = data.to_str().expect("a path of text");
    if !log.exists() {
        let args = ["demo", "--lines", &lines, "--days", &days, "--out"];
        run(&args, Some(&log));
    }
    let import = ["import", "--stream", STREAM, "--data", place];
    run(&import, Some(&log));
    run(&["partition", "compact", STREAM, "--data", place], None);
}
