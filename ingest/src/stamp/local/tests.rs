use super::*;

/// 2026-11-26T12:00:00Z.
const RECEIVED_US: i64 = 1_795_694_400_000_000;

fn written() -> Written<'static> {
    Written {
        zone: None,
        year: None,
        received_us: RECEIVED_US,
        sender: None,
    }
}

/// The last year in which a day is there and over is found, by the calendar of another crate.
#[test]
fn years_are_those_of_the_last_such_day() {
    use chrono::{Datelike, Duration, NaiveDate};
    let names = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let first = NaiveDate::from_ymd_opt(1895, 12, 25).unwrap();
    // Receipts around New Year and leap days of many years, among them 1900, which has no leap day.
    for receipt in (0..60).map(|n| first + Duration::days(n * 137)) {
        let received = receipt.and_hms_opt(7, 30, 0).unwrap().and_utc();
        let written = Written {
            received_us: received.timestamp_micros(),
            ..written()
        };
        for day in
            (0..366).map(|n| NaiveDate::from_ymd_opt(2024, 1, 1).unwrap() + Duration::days(n))
        {
            let text = format!("{} {:>2} 07:30:01", names[day.month0() as usize], day.day());
            let latest = received + Duration::days(1);
            let years = (latest.year() - 9..=latest.year()).rev();
            let times = years.filter_map(|y| NaiveDate::from_ymd_opt(y, day.month(), day.day()));
            let mut times = times.map(|d| d.and_hms_opt(7, 30, 1).unwrap().and_utc());
            let expected = times.find(|time| *time <= latest).unwrap();
            let read = read_bsd(text.as_bytes(), written);
            let expected = (expected.timestamp_micros(), text.len());
            assert_eq!(read, Some(expected), "{text} received {received}");
        }
    }
}

#[test]
fn stamps_end_where_their_time_does() {
    for (text, bytes) in [
        ("Nov  3 09:23:38 x", 15),
        ("Nov 13 09:23:38.25 x", 18),
        ("Nov 3 09:23:38. x", 14),
        ("Nov  3 2025 09:23:38 x", 20),
        ("Nov  3 09:23:60", 15),
    ] {
        assert_eq!(
            read_bsd(text.as_bytes(), written()).map(|(_, b)| b),
            Some(bytes),
            "{text}"
        );
    }
    let fraction = read_bsd(b"Nov  3 09:23:38.25", written()).unwrap().0;
    assert_eq!(fraction.rem_euclid(1_000_000), 250_000);
}

#[test]
fn other_texts_are_no_stamps() {
    for text in [
        "",
        "Nov",
        "Nov  3",
        "Nov  0 09:23:38",
        "Nov 31 09:23:38",
        "nov  3 09:23:38",
        "Nov  3 24:00:00",
        "Nov  3 09:60:00",
        "Nov  3 09:23:61",
        "Nov  3 09-23-38",
        "Nov  3 9:23:38",
        "Nov  3 20xx 09:23:38",
        "Feb 30 09:23:38",
    ] {
        assert_eq!(read_bsd(text.as_bytes(), written()), None, "{text}");
    }
    for text in [
        "",
        "2026/11/26",
        "2026/11/26T09:23:38",
        "2026-11-26 09:23:38",
        "2026/02/29 00:00:00",
        "2026/11/26 09:23:38 ",
    ] {
        assert_eq!(read_slashes(text.as_bytes(), written()), None, "{text}");
    }
    for text in [
        "",
        "Thu Nov 26 09:23:38",
        "Thu Nov 26 09:23:38 26",
        "Thu Nov 26 09:23:38.5 20260",
        "Thursday Nov 26 09:23:38 2026",
    ] {
        assert_eq!(read_ctime(text.as_bytes(), written()), None, "{text}");
    }
    assert_eq!(
        read_ctime(b"Thu Nov 26 12:00:00 2026", written()),
        Some(RECEIVED_US)
    );
    assert_eq!(
        read_slashes(b"2026/11/26 12:00:00", written()),
        Some(RECEIVED_US)
    );
}
