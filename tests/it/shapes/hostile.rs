//! A file that exceeds limits: each limit is clear, nothing is lost that they allow, and the rest
//! is in quarantine with its reason.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use crate::support::{Home, Server};

/// Returns five thousand names, types that change from line to line, two hundred levels.
fn lines() -> (String, BTreeMap<&'static str, u64>) {
    let mut lines = String::new();
    let mut bad: BTreeMap<&'static str, u64> = BTreeMap::new();
    for i in 0..20_000_u32 {
        let name = format!("f{}", i * 7 % 5_000);
        let value = match i % 6 {
            0 => i.to_string(),
            1 => format!("\"{i}\""),
            2 => format!("{i}.5"),
            3 => "true".to_owned(),
            4 => format!("[{i}]"),
            _ => format!("{{\"deep\":{i}}}"),
        };
        lines += &format!("{{\"k\":{i},\"{name}\":{value}}}\n");
    }
    let mut wrong = |reason, line: String| {
        *bad.entry(reason).or_default() += 1;
        lines += &(line + "\n");
    };
    for levels in [101, 200, 5_000, 100_000] {
        wrong(
            "too_deep",
            format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels)),
        );
        wrong(
            "too_deep",
            format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels)),
        );
    }
    wrong("name_too_long", format!("{{\"{}\":1}}", "n".repeat(1_025)));
    wrong("bad_name", "{\"a\\u0000\":1}".to_owned());
    wrong("ambiguous_name", "{\"a.b\":1,\"a\":{\"b\":2}}".to_owned());
    wrong("bad_json", "{\"a\":1e400}".to_owned());
    wrong("bad_json", "{\"a\":\"\\ud800\"}".to_owned());
    wrong(
        "too_large",
        format!("{{\"a\":[{}1]}}", "1,".repeat(2_000_000)),
    );
    (lines, bad)
}

/// Returns the most memory that a process has held, bytes.
fn peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("our own child");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmHWM:"))
        .expect("its peak");
    let kib = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<u64>().ok());
    kib.expect("a number") << 10
}

#[test]
fn a_hostile_file_meets_clear_limits_and_loses_nothing_that_they_allow() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let (lines, bad) = lines();
    let answer = server.ingest("docs?format=json", &lines);
    assert_eq!(answer["accepted"], 20_000, "{answer}");
    assert_eq!(answer["quarantined"], bad.values().sum::<u64>());
    for _ in 0..2 {
        let sql = "SELECT reason, count(*) AS n, max(detail) AS detail FROM system.quarantine GROUP BY reason";
        let rows = server.sql(sql);
        let found: BTreeMap<&str, u64> = rows
            .iter()
            .map(|row| {
                (
                    row["reason"].as_str().expect("a text"),
                    row["n"].as_u64().expect("a count"),
                )
            })
            .collect();
        assert_eq!(found, bad);
        let deep = rows
            .iter()
            .find(|row| row["reason"] == "too_deep")
            .expect("it is there");
        let detail = deep["detail"].as_str().expect("a text");
        assert!(detail.contains("levels deep; the limit is 100"), "{detail}");
        assert_eq!(columns(&server), 1_000);
        // Each line has a value beside `k`, in a column or in `_rest`, of its own type.
        let others = server.number("SELECT count(*) FROM docs WHERE attr_names(_rest) IS NOT NULL");
        assert!((15_000..20_000).contains(&others), "{others}");
        let types = "SELECT DISTINCT attr_type(_rest, name) AS t FROM \
                     (SELECT _rest, unnest(attr_names(_rest)) AS name FROM docs) ORDER BY t";
        let types: Vec<Value> = server
            .sql(types)
            .iter()
            .map(|row| row["t"].clone())
            .collect();
        assert_eq!(types, ["bool", "float64", "int64", "text"]);
        let sum = "SELECT sum(k) FROM docs";
        assert_eq!(server.number(sum), 19_999 * 20_000 / 2);
        server.seal();
    }
    let (peak, most) = (peak_bytes(server.pid()), 1 << 30);
    println!("peak {} MiB", peak >> 20);
    assert!(peak < most, "{peak} bytes of memory");
}

fn columns(server: &Server) -> u64 {
    let own = "('_id', 'time', 'time_source', '_rest', '_seq')";
    server.number(&format!(
        "SELECT count(*) FROM information_schema.columns WHERE table_name = 'docs' AND column_name NOT IN {own}"
    ))
}

/// Many small batches, each with some of a thousand columns: the memory of a seal grows with the
/// values, not with columns times batches.
#[test]
fn many_small_batches_of_a_wide_stream_are_sealed_in_bounded_memory() {
    let home = Home::new();
    let server = Server::start_with(&home.data, &[("LOGMILL_STORAGE__LAG", "1h")]);
    let batches = 4_000;
    for i in 0..batches {
        let fields: Vec<String> = (0..10)
            .map(|j| format!("\"f{}\":{}", (i * 13 + j * 97) % 1000, i + j))
            .collect();
        let answer = server.ingest("wide?format=json", format!("{{{}}}", fields.join(",")));
        assert_eq!(answer["accepted"], 1, "{answer}");
    }
    let (before, began) = (peak_bytes(server.pid()), Instant::now());
    server.seal();
    let (took, peak) = (began.elapsed(), peak_bytes(server.pid()));
    println!(
        "seal of {batches} batches: {took:.1?}, {} MiB before, {} MiB after",
        before >> 20,
        peak >> 20
    );
    assert!(
        peak - before.min(peak) < 512 << 20,
        "{before} bytes before, {peak} after"
    );
    let row = &server.sql("SELECT count(*) AS n, sum(f0) AS s FROM wide")[0];
    assert_eq!(row["n"], batches);
    assert_ne!(row["s"], Value::Null);
}
