//! The peak of resident memory of `logmill rollup compact`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::events::Traffic;
use crate::machine::peak_mib;
use crate::{Settings, files, seal};

/// Prints the peak for the imported store and for one of many days, neither of them compacted
/// before.
pub(crate) fn measure(s: &Settings) {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let data = temporary.path().join("imported");
    files::link(&s.imported(), &data);
    compact("imported", &data);
    let data = temporary.path().join("days");
    seal::fill(&data, &Traffic::new(), s.days, s.events_per_day(), false);
    compact(&format!("{} days, a seal each", s.days), &data);
}

fn compact(what: &str, data: &Path) {
    let manifest = files::bytes(&data.join("manifest"));
    let tiles = files::bytes(&data.join("rollups"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_logmill"))
        .args(["rollup", "compact", "--data"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let peak = watch(&mut child);
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "compaction failed");
    println!(
        "  {what}: {peak:.0} MiB at the peak; {} ({tiles} bytes of tiles, a manifest of {manifest} before)",
        String::from_utf8_lossy(&output.stdout).trim()
    );
}

/// Returns a child's peak up to shortly before its end.
fn watch(child: &mut Child) -> f64 {
    let mut peak = 0.0_f64;
    while child.try_wait().expect("waits").is_none() {
        peak = peak.max(peak_mib(child.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    peak
}
