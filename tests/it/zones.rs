//! Real logs in three zones: one stream with a rollup in UTC, one in Berlin (summer time) and one
//! in Kolkata (half an hour beside the full ones). Each level of each is compared with a
//! recomputation in Python from the text of the logs.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::oracle::{content_of, logs_under, oracle, pieces};
use crate::support::{BINARY, Home, Server, command, finish, python, run, test_data};

const ZONES: [(&str, &str); 3] = [
    ("utc", "UTC"),
    ("berlin", "Europe/Berlin"),
    ("kolkata", "Asia/Kolkata"),
];
/// Returns one rollup for each zone, all with the keys and measures that `zones.py` expects.
fn definitions() -> String {
    let one = |(name, zone): (&str, &str)| {
        format!(
            r#"
[rollup.{name}]
stream = "access"
by = ["site", "method", "status", "path"]
levels = ["hour", "day", "week", "month", "year"]
timezone = "{zone}"
[rollup.{name}.measures]
hits = "count"
bytes = "sum(response_size)"
hosts = {{ distinct = "host" }}
"#
        )
    };
    ZONES.map(one).concat()
}

/// A store for logs, with their text, which the oracle reads.
struct Case {
    python: &'static str,
    home: Home,
    config: String,
    logs: Vec<Log>,
}

struct Log {
    /// The log's name, which is the site of its events.
    site: String,
    path: PathBuf,
    content: Vec<u8>,
}

impl Case {
    /// Returns the real logs that `choose` accepts; `None` where there is no Python with these
    /// zones, or no log.
    fn of(choose: impl Fn(&Path) -> bool) -> Option<Self> {
        let (folder, python) = (test_data()?, python_with_zones()?);
        let mut paths = Vec::new();
        logs_under(&folder.join("access"), &mut paths);
        paths.retain(|path| choose(path));
        assert!(!paths.is_empty(), "no log in {}", folder.display());
        let home = Home::new();
        let logs = paths.into_iter().map(|path| {
            let site = path.file_name().and_then(|n| n.to_str());
            let site = site.expect("a name of UTF-8").to_owned();
            let content = content_of(&path);
            home.file(&plain(&site), &content);
            Log {
                site,
                path,
                content,
            }
        });
        Some(Self {
            python,
            logs: logs.collect(),
            config: home.file("logmill.toml", definitions()),
            home,
        })
    }

    /// Compares every figure of every zone and level, and runs the store's own verification;
    /// returns the number of figures of a site's log.
    #[track_caller]
    fn compare(&self, place: &[&str]) -> impl Fn(&str) -> u64 + use<> {
        let mut compare = Command::new(self.python);
        compare
            .arg(oracle("zones.py"))
            .args(["--logmill", BINARY])
            .args(place)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        for (name, zone) in ZONES {
            compare.args(["--rollup", &format!("{name}={zone}")]);
        }
        for log in &self.logs {
            let text = self.home.path(&plain(&log.site));
            compare.args(["--log", &format!("{}={text}", log.site)]);
        }
        let told = finish(&mut compare, &[]);
        assert_eq!(told.code, 0, "{}{}", told.stdout, told.stderr);
        println!("{}", told.stdout);
        let verify = ["rollup", "verify", "--config", &self.config];
        run(&[&verify[..], place].concat()).code(0);
        move |site| {
            let lines = told.stdout.lines();
            let of_site = lines.filter_map(|l| l.strip_prefix(site)?.strip_prefix(": "));
            let equal = of_site.filter_map(|l| l.split(' ').next()?.parse::<u64>().ok());
            equal.sum()
        }
    }
}

/// Returns the name of a log's text.
fn plain(site: &str) -> String {
    format!("{site}.txt")
}

/// Returns a Python that knows the zones, which need the files of the system or the package
/// `tzdata`.
fn python_with_zones() -> Option<&'static str> {
    let python = python()?;
    let zones = ZONES.map(|(_, zone)| format!("zoneinfo.ZoneInfo('{zone}')"));
    let probe = format!("import zoneinfo; {}", zones.join("; "));
    let known = finish(Command::new(python).args(["-c", &probe]), &[]).code == 0;
    if !known {
        println!("skipped: Python knows no time zones; install tzdata");
    }
    known.then_some(python)
}

#[test]
fn all_real_logs_equal_the_recomputation_in_three_zones() {
    let Some(case) = Case::of(|_| true) else {
        return;
    };
    let place = ["--data", &case.home.data, "--config", &case.config];
    for log in &case.logs {
        let path = log.path.to_str().expect("a path of UTF-8");
        let import = ["import", path, "--stream", "access", "--site", &log.site];
        let told = run(&[&import[..], &place].concat());
        // A log of which no line fits a format is kept in quarantine, and the import says so.
        assert!(
            told.code == 0 || told.stderr.contains("no format fits"),
            "{}: {}",
            log.site,
            told.stderr
        );
    }
    let figures = case.compare(&["--data", &case.home.data]);
    // These logs have lines an hour out of order, and clock changes inside.
    for site in [
        "elastic_apache_logs.log.zst",
        "netnea_extended_2013.log.zst",
    ] {
        assert!(figures(site) > 100_000, "{site}: {}", figures(site));
    }
}

#[test]
fn a_log_out_of_order_equals_the_recomputation_in_three_zones_after_pieces_in_any_order() {
    after_pieces("elastic_apache_logs.log.zst");
}

#[test]
fn a_log_across_a_clock_change_equals_the_recomputation_in_three_zones_after_pieces_in_any_order() {
    after_pieces("netnea_extended_2013.log.zst");
}

/// Sends the log in pieces, shuffled, with a seal after every third; the last ones stay in the
/// memtable.
fn after_pieces(name: &str) {
    let Some(case) = Case::of(|path| path.ends_with(name)) else {
        return;
    };
    let mut program = command();
    program.args(["--config", &case.config]);
    let server = Server::try_start(program, &case.home.data, &[]).expect("a server");
    let mut pieces = pieces(&case.logs[0].content);
    pieces.shuffle(&mut SmallRng::seed_from_u64(1));
    for (i, piece) in pieces.into_iter().enumerate() {
        if i % 3 == 2 {
            server.seal();
        }
        server.ingest(&format!("access?site={name}"), piece);
    }
    let last_run = "SELECT min(last_run) FROM system.rollups";
    assert!(server.number(last_run) > 0);
    assert!(server.number("SELECT min(waiting) FROM system.rollups") > 0);
    let figures = case.compare(&["--server", &server.url]);
    assert!(figures(name) > 100_000, "{name}: {}", figures(name));
}
