//! Stamps on the boundaries of every level and a microsecond beside them; leap days, year ends,
//! hours that clocks repeat or leave out; on machines that stand in different zones.

use crate::support::{Home, Server};

use super::{LEVELS, add_at, assert_hits, assert_verified, rollup, serve};

/// Some stamps and, from hourly to yearly, the buckets that hold them.
struct Case {
    name: &'static str,
    rollup: &'static str,
    stamps: &'static [&'static str],
    levels: [&'static [(&'static str, u64)]; 5],
}

/// Sends the stamps one by one with a seal between them, then the same again in reverse, and
/// checks all levels both times.
fn check(cases: &[Case], server: &Server) {
    for case in cases {
        for at in case.stamps {
            add_at(server, case.name, at);
        }
    }
    server.seal();
    // Backwards and sealed one by one: each event is late for the one before.
    for case in cases {
        for at in case.stamps.iter().rev() {
            add_at(server, case.name, at);
            server.seal();
        }
        for (level, buckets) in LEVELS[1..].iter().zip(case.levels) {
            let twice: Vec<_> = buckets.iter().map(|(bucket, n)| (*bucket, 2 * n)).collect();
            assert_hits(
                server,
                &format!("{}.{level}", case.rollup),
                case.name,
                &twice,
            );
        }
    }
    assert_verified(server);
}

const UTC: [Case; 8] = [
    Case {
        name: "an hour",
        rollup: "utc",
        stamps: &[
            "2024-03-06T14:59:59.999999Z",
            "2024-03-06T15:00:00Z",
            "2024-03-06T15:00:00.000001Z",
        ],
        levels: [
            &[("2024-03-06T14", 1), ("2024-03-06T15", 2)],
            &[("2024-03-06", 3)],
            &[("2024-03-03", 3)],
            &[("2024-03-01", 3)],
            &[("2024-01-01", 3)],
        ],
    },
    Case {
        name: "a day",
        rollup: "utc",
        stamps: &[
            "2024-03-06T23:59:59.999999Z",
            "2024-03-07T00:00:00Z",
            "2024-03-07T00:00:00.000001Z",
        ],
        levels: [
            &[("2024-03-06T23", 1), ("2024-03-07T00", 2)],
            &[("2024-03-06", 1), ("2024-03-07", 2)],
            &[("2024-03-03", 3)],
            &[("2024-03-01", 3)],
            &[("2024-01-01", 3)],
        ],
    },
    Case {
        name: "a week, which begins on Sunday",
        rollup: "utc",
        stamps: &[
            "2024-03-09T23:59:59.999999Z",
            "2024-03-10T00:00:00Z",
            "2024-03-10T00:00:00.000001Z",
            "2024-03-11T00:00:00Z",
        ],
        levels: [
            &[
                ("2024-03-09T23", 1),
                ("2024-03-10T00", 2),
                ("2024-03-11T00", 1),
            ],
            &[("2024-03-09", 1), ("2024-03-10", 2), ("2024-03-11", 1)],
            &[("2024-03-03", 1), ("2024-03-10", 3)],
            &[("2024-03-01", 4)],
            &[("2024-01-01", 4)],
        ],
    },
    Case {
        name: "a month",
        rollup: "utc",
        stamps: &[
            "2024-04-30T23:59:59.999999Z",
            "2024-05-01T00:00:00Z",
            "2024-05-01T00:00:00.000001Z",
        ],
        levels: [
            &[("2024-04-30T23", 1), ("2024-05-01T00", 2)],
            &[("2024-04-30", 1), ("2024-05-01", 2)],
            &[("2024-04-28", 3)],
            &[("2024-04-01", 1), ("2024-05-01", 2)],
            &[("2024-01-01", 3)],
        ],
    },
    Case {
        name: "a year, which begins in January and within a week",
        rollup: "utc",
        stamps: &[
            "2024-12-31T23:59:59.999999Z",
            "2025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.000001Z",
            "2025-01-31T12:00:00Z",
        ],
        levels: [
            &[
                ("2024-12-31T23", 1),
                ("2025-01-01T00", 2),
                ("2025-01-31T12", 1),
            ],
            &[("2024-12-31", 1), ("2025-01-01", 2), ("2025-01-31", 1)],
            &[("2024-12-29", 3), ("2025-01-26", 1)],
            &[("2024-12-01", 1), ("2025-01-01", 3)],
            &[("2024-01-01", 1), ("2025-01-01", 3)],
        ],
    },
    Case {
        name: "29 February 2024",
        rollup: "utc",
        stamps: &[
            "2024-02-28T23:59:59.999999Z",
            "2024-02-29T00:00:00Z",
            "2024-02-29T23:59:59.999999Z",
            "2024-03-01T00:00:00Z",
        ],
        levels: [
            &[
                ("2024-02-28T23", 1),
                ("2024-02-29T00", 1),
                ("2024-02-29T23", 1),
                ("2024-03-01T00", 1),
            ],
            &[("2024-02-28", 1), ("2024-02-29", 2), ("2024-03-01", 1)],
            &[("2024-02-25", 4)],
            &[("2024-02-01", 3), ("2024-03-01", 1)],
            &[("2024-01-01", 4)],
        ],
    },
    Case {
        name: "a century with a leap day and one without",
        rollup: "utc",
        stamps: &[
            "1900-02-28T23:59:59.999999Z",
            "1900-03-01T00:00:00Z",
            "2000-02-29T23:59:59.999999Z",
            "2000-03-01T00:00:00Z",
        ],
        levels: [
            &[
                ("1900-02-28T23", 1),
                ("1900-03-01T00", 1),
                ("2000-02-29T23", 1),
                ("2000-03-01T00", 1),
            ],
            &[
                ("1900-02-28", 1),
                ("1900-03-01", 1),
                ("2000-02-29", 1),
                ("2000-03-01", 1),
            ],
            &[("1900-02-25", 2), ("2000-02-27", 2)],
            &[
                ("1900-02-01", 1),
                ("1900-03-01", 1),
                ("2000-02-01", 1),
                ("2000-03-01", 1),
            ],
            &[("1900-01-01", 2), ("2000-01-01", 2)],
        ],
    },
    Case {
        name: "where the count of seconds begins",
        rollup: "utc",
        stamps: &[
            "1969-12-31T23:59:59.999999Z",
            "1970-01-01T00:00:00Z",
            "1970-01-01T00:00:00.000001Z",
        ],
        levels: [
            &[("1969-12-31T23", 1), ("1970-01-01T00", 2)],
            &[("1969-12-31", 1), ("1970-01-01", 2)],
            &[("1969-12-28", 3)],
            &[("1969-12-01", 1), ("1970-01-01", 2)],
            &[("1969-01-01", 1), ("1970-01-01", 2)],
        ],
    },
];

#[test]
fn stamps_on_a_boundary_lie_behind_it_whatever_the_zone_of_the_machine() {
    for zone in ["UTC", "America/Los_Angeles", "Pacific/Kiritimati"] {
        let home = Home::new();
        check(&UTC, &serve(&home, &rollup("utc", "UTC"), &[("TZ", zone)]));
    }
}

const ELSEWHERE: [Case; 4] = [
    Case {
        name: "Berlin leaves out the hour from 2 to 3",
        rollup: "berlin",
        stamps: &[
            "2024-03-30T22:59:59.999999Z",
            "2024-03-30T23:00:00Z",
            "2024-03-31T00:59:59.999999Z",
            "2024-03-31T01:00:00Z",
            "2024-03-31T21:59:59.999999Z",
            "2024-03-31T22:00:00Z",
        ],
        levels: [
            &[
                ("2024-03-30T22", 1),
                ("2024-03-30T23", 1),
                ("2024-03-31T00", 1),
                ("2024-03-31T01", 1),
                ("2024-03-31T21", 1),
                ("2024-03-31T22", 1),
            ],
            &[
                ("2024-03-29T23", 1),
                ("2024-03-30T23", 4),
                ("2024-03-31T22", 1),
            ],
            &[("2024-03-23T23", 1), ("2024-03-30T23", 5)],
            &[("2024-02-29T23", 5), ("2024-03-31T22", 1)],
            &[("2023-12-31T23", 6)],
        ],
    },
    Case {
        name: "Berlin repeats the hour from 2 to 3",
        rollup: "berlin",
        stamps: &[
            "2024-10-26T21:59:59.999999Z",
            "2024-10-26T22:00:00Z",
            "2024-10-27T00:30:00Z",
            "2024-10-27T00:59:59.999999Z",
            "2024-10-27T01:00:00Z",
            "2024-10-27T01:30:00Z",
            "2024-10-27T22:59:59.999999Z",
            "2024-10-27T23:00:00Z",
        ],
        levels: [
            &[
                ("2024-10-26T21", 1),
                ("2024-10-26T22", 1),
                ("2024-10-27T00", 2),
                ("2024-10-27T01", 2),
                ("2024-10-27T22", 1),
                ("2024-10-27T23", 1),
            ],
            &[
                ("2024-10-25T22", 1),
                ("2024-10-26T22", 6),
                ("2024-10-27T23", 1),
            ],
            &[("2024-10-19T22", 1), ("2024-10-26T22", 7)],
            &[("2024-09-30T22", 8)],
            &[("2023-12-31T23", 8)],
        ],
    },
    Case {
        name: "Lord Howe Island repeats the half hour from 1:30 to 2",
        rollup: "lord_howe",
        stamps: &[
            "2024-04-06T12:59:59.999999Z",
            "2024-04-06T14:59:59.999999Z",
            "2024-04-06T15:00:00Z",
            "2024-04-06T15:29:59.999999Z",
            "2024-04-06T15:30:00Z",
            "2024-04-07T13:29:59.999999Z",
            "2024-04-07T13:30:00Z",
        ],
        levels: [
            &[
                ("2024-04-06T12", 1),
                ("2024-04-06T14", 1),
                ("2024-04-06T15", 2),
                ("2024-04-06T15:30", 1),
                ("2024-04-07T12:30", 1),
                ("2024-04-07T13:30", 1),
            ],
            &[
                ("2024-04-05T13", 1),
                ("2024-04-06T13", 5),
                ("2024-04-07T13:30", 1),
            ],
            &[("2024-03-30T13", 1), ("2024-04-06T13", 6)],
            &[("2024-03-31T13", 7)],
            &[("2023-12-31T13", 7)],
        ],
    },
    Case {
        name: "The year of Kolkata begins at half past six",
        rollup: "kolkata",
        stamps: &[
            "2023-12-31T18:29:59.999999Z",
            "2023-12-31T18:30:00Z",
            "2023-12-31T18:30:00.000001Z",
        ],
        levels: [
            &[("2023-12-31T17:30", 1), ("2023-12-31T18:30", 2)],
            &[("2023-12-30T18:30", 1), ("2023-12-31T18:30", 2)],
            &[("2023-12-30T18:30", 3)],
            &[("2023-11-30T18:30", 1), ("2023-12-31T18:30", 2)],
            &[("2022-12-31T18:30", 1), ("2023-12-31T18:30", 2)],
        ],
    },
];

#[test]
fn hours_that_clocks_repeat_or_leave_out_and_days_of_23_and_25_hours() {
    let home = Home::new();
    let definitions = [
        rollup("berlin", "Europe/Berlin"),
        rollup("lord_howe", "Australia/Lord_Howe"),
        rollup("kolkata", "Asia/Kolkata"),
    ];
    check(&ELSEWHERE, &serve(&home, &definitions.concat(), &[]));
}
