//! `tests/clients/prometheus.py` computes the answers of many queries from raw events, and shares
//! no code with the server.

use std::path::Path;
use std::process::Command;

use crate::support::{Home, PAST_S, Server, finish, line, python, seed, test_data};

#[track_caller]
fn recompute(server: &Server, python: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/prometheus.py");
    let mut recomputation = Command::new(python);
    recomputation.arg(script);
    recomputation.args([
        &server.url,
        "access",
        "traffic",
        "stats",
        &seed().to_string(),
    ]);
    let told = finish(&mut recomputation, &[]);
    assert_eq!(told.code, 0, "{}{}", told.stdout, told.stderr);
    assert!(told.stdout.contains(", 0 failed"), "{}", told.stdout);
}

/// Events of three days: nights without any, bursts, sites, odd methods, missing sizes.
fn synthetic() -> String {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        // The generator of Knuth's MMIX.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut lines = String::new();
    for minute in 0..3 * 1_440_i64 {
        let hour = minute / 60 % 24;
        let events = match hour {
            0..5 => u64::from(random(40) == 0),
            12 => random(9),
            _ => random(3),
        };
        for _ in 0..events {
            let at_s = PAST_S + minute * 60 + i64::try_from(random(60)).expect("small");
            let status = [200, 200, 200, 204, 301, 404, 404, 500, 503][random(9) as usize];
            let size = [0, 7, 255, 256, 300, 1_000, 54_321, 9_876_543][random(8) as usize];
            let path = format!("/{}/{}", ["a", "b", "data"][random(3) as usize], random(4));
            let one = line(
                &format!("203.0.113.{}", random(30)),
                at_s,
                &path,
                status,
                size,
            );
            let method = ["GET", "GET", "GET", "POST", "HEAD"][random(5) as usize];
            let one = one.replace("\"GET", &format!("\"{method}"));
            lines += &match random(20) {
                0 => one.replace(&format!(" {size} \"-\""), " - \"-\""),
                _ => one,
            };
        }
    }
    lines
}

#[test]
fn answers_are_those_that_python_computes_from_raw_events() {
    let Some(python) = python() else { return };
    let home = Home::new();
    let server = Server::start(&home.data);
    let log = synthetic();
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let (first, rest) = lines.split_at(lines.len() / 3);
    let (second, third) = rest.split_at(rest.len() / 2);
    server.ingest("access?site=one", first.concat());
    server.seal();
    server.ingest("access?site=two", second.concat());
    server.seal();
    server.ingest("access", third.concat());
    recompute(&server, python);
}

#[test]
fn answers_about_real_logs_are_those_that_python_computes() {
    let (Some(data), Some(python)) = (test_data(), python()) else {
        return;
    };
    for log in [
        "nasa_aug95_mixed_offsets.log",
        "netnea_extended_2013.log.zst",
        "elastic_apache_logs.log.zst",
    ] {
        let home = Home::new();
        let file = data.join("access").join(log);
        home.import(file.to_str().expect("UTF-8"), &[]);
        let server = Server::start(&home.data);
        recompute(&server, python);
    }
}
