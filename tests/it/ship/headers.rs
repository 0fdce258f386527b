//! Logs whose header stands in the file: it governs the lines of later batches too, over restarts
//! of the shipper and rotations.

use std::fmt::Write;

use super::{Shipper, append};
use crate::shippers::wait_for_number;
use crate::support::{Home, Server};

const W3C: &str =
    "#Software: a server\n#Version: 1.0\n#Fields: date time c-ip cs-uri-stem sc-status sc-bytes\n";

fn w3c_lines(numbers: std::ops::Range<u32>) -> String {
    let mut lines = String::new();
    for n in numbers {
        writeln!(lines, "2026-01-02 03:04:05 203.0.113.9 /page/{n} 200 {n}").expect("text");
    }
    lines
}

fn csv_lines(numbers: std::ops::Range<u32>) -> String {
    let mut lines = String::new();
    for n in numbers {
        writeln!(lines, "2026-01-02T03:04:05Z,\"a, b\",{n}").expect("text");
    }
    lines
}

/// Ships a log that grows, while the shipper is killed and the log is renamed.
fn follow(
    format: Option<&str>,
    header: &str,
    lines: fn(std::ops::Range<u32>) -> String,
    sum: &str,
) {
    let home = Home::new();
    let server = Server::start(&home.data);
    let log = home.path("a.log");
    let named = format.map(|format| ["--format", format]);
    let named = named.as_ref().map_or(&[][..], |named| named);
    let start = || Shipper::of(&log, "headed", &server, named);
    let wait_for = |numbers: u32| {
        // Lines that were read by another header, or none, have no such numbers.
        let expected = u64::from(numbers) * u64::from(numbers - 1) / 2;
        wait_for_number(&server, sum, expected);
    };
    home.file("a.log", header.to_owned() + &lines(0..10));
    let mut shipper = start();
    wait_for(10);
    let append = |lines: &str| append(&log, lines);
    append(&lines(10..20));
    wait_for(20);
    shipper.kill();
    append(&lines(20..30));
    let _shipper = start();
    wait_for(30);
    std::fs::rename(&log, home.path("a.log.1")).expect("a rename");
    home.file("a.log", header.to_owned() + &lines(30..40));
    wait_for(40);
    append(&lines(40..50));
    wait_for(50);
    let quarantined = server.number("SELECT count(*) AS n FROM system.quarantine");
    assert_eq!(quarantined, 0);
    assert_eq!(server.number("SELECT count(*) AS n FROM headed"), 50);
}

#[test]
fn a_w3c_log_without_a_named_format_is_read_by_its_header() {
    follow(
        None,
        W3C,
        w3c_lines,
        "SELECT sum(response_size) AS s FROM headed",
    );
}

#[test]
fn a_csv_log_is_read_by_its_header() {
    let sum = "SELECT sum(CAST(number AS BIGINT)) AS s FROM headed";
    follow(Some("csv"), "time,text,number\n", csv_lines, sum);
}
