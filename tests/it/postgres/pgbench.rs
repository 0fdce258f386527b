//! pgbench, which PostgreSQL brings with its server, in its three modes.

use std::path::PathBuf;
use std::process::Command;

use super::served;
use crate::support::{Home, finish};

const TRANSACTIONS: &str = "40";

/// Panels as dashboards ask them, with a variable of pgbench in each.
const SCRIPT: &str = "\
\\set status random(2, 5)
SELECT count(*) FROM access WHERE status / 100 = :status;
SELECT bucket, sum(hits) AS hits FROM stats.hourly GROUP BY bucket ORDER BY bucket LIMIT :status;
";

/// Returns pgbench, which Debian does not put on the path.
fn pgbench() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let places = versions.filter_map(|version| Some(version.ok()?.path().join("bin/pgbench")));
    places.filter(|place| place.exists()).max()
}

#[test]
fn pgbench_runs_its_script_in_each_of_its_modes() {
    let Some(pgbench) = pgbench() else {
        println!("skipped: pgbench is not installed");
        return;
    };
    let home = Home::new();
    let server = served(&home);
    let script = home.path("panels.sql");
    std::fs::write(&script, SCRIPT).expect("a script");
    let (host, port) = server.postgres.split_once(':').expect("host and port");
    for mode in ["simple", "extended", "prepared"] {
        let mut bench = Command::new(&pgbench);
        bench
            .args(["--no-vacuum", "--client=2", "--jobs=1", "--file"])
            .args([&*script, "--transactions", TRANSACTIONS, "--protocol", mode])
            .args(["-h", host, "-p", port, "-U", "ann", "logmill"]);
        let told = finish(&mut bench, &[]).code(0).stdout;
        assert!(told.contains(&format!("query mode: {mode}")), "{told}");
        let all = format!("actually processed: {0}/{0}", 2 * 40);
        assert!(told.contains(&all), "{mode}: {told}");
        assert!(told.contains("failed transactions: 0 "), "{mode}: {told}");
    }
}
