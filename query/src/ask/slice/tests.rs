//! The query that a slice becomes.

use super::{Slice, SliceArgs, slice_sql};

fn args(date: &str, tz: Option<&str>) -> SliceArgs {
    SliceArgs {
        stream: "access".into(),
        date: date.into(),
        tz: tz.map(str::to_owned),
        ..SliceArgs::default()
    }
}

#[test]
fn a_day_is_half_open_in_its_zone() {
    let of = |date: &str, tz: &str| {
        let sql = slice_sql(&args(date, Some(tz))).expect("right");
        let times = sql
            .split("WHERE ")
            .nth(1)
            .and_then(|s| s.split(" ORDER").next())
            .map(str::to_owned);
        times.expect("a condition")
    };
    assert_eq!(
        of("2000-10-10", "UTC"),
        "time >= '2000-10-10T00:00:00Z' AND time < '2000-10-11T00:00:00Z'"
    );
    // 25 hours: clocks go back that night.
    assert_eq!(
        of("2024-10-27", "Europe/Berlin"),
        "time >= '2024-10-26T22:00:00Z' AND time < '2024-10-27T23:00:00Z'"
    );
    // 23 hours.
    assert_eq!(
        of("2024-03-31", "Europe/Berlin"),
        "time >= '2024-03-30T23:00:00Z' AND time < '2024-03-31T22:00:00Z'"
    );
    // A day without midnight: it begins at 01:00 local time.
    assert_eq!(
        of("2018-11-04", "America/Sao_Paulo"),
        "time >= '2018-11-04T03:00:00Z' AND time < '2018-11-05T02:00:00Z'"
    );
    // A day that the zone skipped holds nothing.
    assert_eq!(
        of("2011-12-30", "Pacific/Apia"),
        "time >= '2011-12-30T10:00:00Z' AND time < '2011-12-30T10:00:00Z'"
    );
}

#[test]
fn every_argument_becomes_a_condition_and_none_becomes_code() {
    let args = SliceArgs {
        host: Some("o'brien' OR 1=1 --".into()),
        path: Some("/a".into()),
        status: Some("5xx".into()),
        ..args("2000-10-10", None)
    };
    assert_eq!(
        slice_sql(&args).expect("right"),
        "SELECT * FROM \"access\" WHERE time >= '2000-10-10T00:00:00Z' AND time < '2000-10-11T00:00:00Z' \
         AND host = 'o''brien'' OR 1=1 --' AND path = '/a' AND status >= 500 AND status <= 599 ORDER BY time, _seq"
    );
}

#[test]
fn a_status_is_a_number_a_class_or_a_range() {
    let of = |status: &str| {
        let args = SliceArgs {
            status: Some(status.into()),
            ..args("2000-10-10", None)
        };
        slice_sql(&args).map(|sql| {
            sql.rsplit("Z' AND ")
                .next()
                .map(|s| s.replace(" ORDER BY time, _seq", ""))
        })
    };
    assert_eq!(of("404").ok().flatten().as_deref(), Some("status = 404"));
    assert_eq!(
        of("4xx").ok().flatten().as_deref(),
        Some("status >= 400 AND status <= 499")
    );
    assert_eq!(
        of("500..599").ok().flatten().as_deref(),
        Some("status >= 500 AND status <= 599")
    );
    for wrong in ["5x", "xx", "", "99xx", "404 OR 1=1", "a..b", "500.."] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    for (args, named) in [
        (args("10.10.2000", None), "10.10.2000"),
        (args("2004-04-31", None), "April has 30 days"),
        (args("2024-02-30", None), "February 2024 has 29 days"),
        (args("2024-00-01", None), "there is no month 0"),
        (args("2024-01-00", None), "January begins with day 1"),
        (args("2024-01-1x", None), "write it as 2000-10-10"),
        (args("2000-10-10", Some("Berlin")), "Berlin"),
        (
            SliceArgs {
                stream: "x\"; --".into(),
                ..args("2000-10-10", None)
            },
            "x\\\"; --",
        ),
    ] {
        let error = slice_sql(&args).expect_err(named).to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_network_is_refused_with_the_way_to_ask_for_it_and_any_other_host_is_taken() {
    let of = |host: &str| {
        slice_sql(&SliceArgs {
            host: Some(host.into()),
            ..args("2000-10-10", None)
        })
    };
    for (network, like) in [
        ("10.0.0.0/8", "LIKE '10.%'"),
        ("192.0.2.0/24", "LIKE '192.0.2.%'"),
        ("2001:db8::/32", "LIKE '2001:db8:%'"),
    ] {
        let error = of(network).expect_err(network).to_string();
        assert!(error.contains(like), "{error}");
    }
    for host in ["192.0.2.1", "2001:db8::1", "a/b", "host.example"] {
        assert!(of(host).is_ok(), "{host}");
    }
}

#[test]
fn the_newest_rows_come_in_the_order_of_all_rows() {
    let slice = Slice::new(&args("2000-10-10", None)).expect("right");
    assert_eq!(
        slice.rows(Some(2), Some(9)),
        "SELECT * EXCEPT (_seq) FROM (SELECT *, _seq FROM \"access\" WHERE time >= '2000-10-10T00:00:00Z' AND \
         time < '2000-10-11T00:00:00Z' AND _seq <= 9 ORDER BY time DESC, _seq DESC LIMIT 2) AS newest ORDER BY time, _seq"
    );
}
