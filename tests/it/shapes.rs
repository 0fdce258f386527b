//! Documents that need not look alike: every leaf of every one reads back, limits are clear, and
//! a hostile file does not harm other clients.

mod fields;
mod hostile;
mod motley;

use std::process::Command;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::oracle::{content_of, oracle};
use crate::support::{BINARY, Home, Server, finish, python, run, seed, test_data};

/// Real documents in any order, over many seals and new starts, each leaf as Python reads it.
#[test]
fn every_leaf_of_real_documents_reads_back() {
    let (Some(python), Some(folder)) = (python(), test_data()) else {
        return;
    };
    let mut logs: Vec<_> = std::fs::read_dir(folder.join("json"))
        .expect("a folder of documents")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    logs.sort();
    assert!(!logs.is_empty());
    let mut random = SmallRng::seed_from_u64(seed());
    for log in logs {
        let content = String::from_utf8(content_of(&log)).expect("text");
        let home = Home::new();
        let plain = home.file("plain.ndjson", &content);
        let mut lines: Vec<&str> = content.lines().collect();
        lines.shuffle(&mut random);
        let mut server = Server::start(&home.data);
        let mut rest = lines.as_slice();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(
                random
                    .random_range(1..=1 + lines.len() / 15)
                    .min(rest.len()),
            );
            let answer = server.ingest("docs?format=json", piece.join("\n"));
            assert_eq!(
                answer["accepted"],
                piece.len(),
                "{}: {answer}",
                log.display()
            );
            rest = more;
            match random.random_range(0..6) {
                0 | 1 => drop(server.seal()),
                2 => {
                    server.kill();
                    server = Server::start(&home.data);
                }
                _ => {}
            }
        }
        let compare = |place: [&str; 2]| {
            let mut leaves = Command::new(python);
            leaves
                .arg(oracle("leaves.py"))
                .args(["--logmill", BINARY, "--stream", "docs"])
                .args(place)
                .arg(&plain)
                .env("PYTHONDONTWRITEBYTECODE", "1");
            let told = finish(&mut leaves, &[]);
            assert_eq!(
                told.code,
                0,
                "{}:\n{}{}",
                log.display(),
                told.stdout,
                told.stderr
            );
            println!("{}: {}", log.display(), told.stdout.trim());
        };
        compare(["--server", &server.url]);
        assert_eq!(server.stop(), Some(0));
        let place = ["--data", home.data.as_str()];
        compare(place);
        let compact = [
            &["partition", "compact", "docs", "--output", "json"],
            &place[..],
        ];
        let merged = run(&compact.concat()).code(0).json();
        println!("{}: {merged}", log.display());
        compare(place);
        let server = Server::start(&home.data);
        compare(["--server", &server.url]);
    }
}
