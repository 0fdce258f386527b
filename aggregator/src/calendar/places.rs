//! Zones with unusual changes of offset, as boundaries of consecutive buckets.

use super::oracle::ZoneOracle;
use super::tests::us;
use super::*;

/// Checks each line, a level and the boundaries of consecutive buckets. Our calendar and the oracle
/// must both return each bucket at its first and at its last microsecond.
fn check(zone: Tz, lines: &str) {
    let calendar = Calendar::new(zone, WeekStart::Sunday);
    let oracle = ZoneOracle::new(zone.name());
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let level = words.next().and_then(Level::from_name).expect("a level");
        let boundaries: Vec<i64> = words.map(us).collect();
        assert!(boundaries.len() > 1, "no bucket in {line}");
        for pair in boundaries.windows(2) {
            let expected = Bucket {
                start_us: pair[0],
                end_us: pair[1],
            };
            for t_us in [expected.start_us, expected.end_us - 1] {
                let theirs = oracle.bucket(WeekStart::Sunday, level, t_us);
                assert_eq!(calendar.bucket(level, t_us), expected, "{zone} {line}");
                assert_eq!(theirs, expected, "the oracle: {zone} {line}");
            }
        }
    }
}

#[test]
fn berlin_has_days_of_23_and_25_hours() {
    check(
        Tz::named("Europe/Berlin"),
        "
        day  2013-03-30T00:00:00+01:00 2013-03-31T00:00:00+01:00 2013-04-01T00:00:00+02:00
        hour 2013-03-31T01:00:00+01:00 2013-03-31T03:00:00+02:00 2013-03-31T04:00:00+02:00
        day  2013-10-27T00:00:00+02:00 2013-10-28T00:00:00+01:00 2013-10-29T00:00:00+01:00
        hour 2013-10-27T01:00:00+02:00 2013-10-27T02:00:00+02:00 2013-10-27T02:00:00+01:00 2013-10-27T03:00:00+01:00
        week 2013-10-27T00:00:00+02:00 2013-11-03T00:00:00+01:00
        month 2013-10-01T00:00:00+02:00 2013-11-01T00:00:00+01:00
        year 2013-01-01T00:00:00+01:00 2014-01-01T00:00:00+01:00
        ",
    );
}

#[test]
fn kolkata_is_half_an_hour_off() {
    check(
        Tz::named("Asia/Kolkata"),
        "
        minute 2000-02-29T23:59:00+05:30 2000-03-01T00:00:00+05:30 2000-03-01T00:01:00+05:30
        hour   2000-02-29T23:00:00+05:30 2000-03-01T00:00:00+05:30 2000-03-01T01:00:00+05:30
        day    2000-02-28T00:00:00+05:30 2000-02-29T00:00:00+05:30 2000-03-01T00:00:00+05:30
        month  2000-02-01T00:00:00+05:30 2000-03-01T00:00:00+05:30 2000-04-01T00:00:00+05:30
        ",
    );
}

#[test]
fn kathmandu_began_1986_a_quarter_past_midnight() {
    check(
        Tz::named("Asia/Kathmandu"),
        "
        hour 1985-12-31T23:00:00+05:30 1986-01-01T00:15:00+05:45 1986-01-01T01:00:00+05:45
        day  1985-12-31T00:00:00+05:30 1986-01-01T00:15:00+05:45 1986-01-02T00:00:00+05:45
        year 1985-01-01T00:00:00+05:30 1986-01-01T00:15:00+05:45 1987-01-01T00:00:00+05:45
        ",
    );
}

#[test]
fn lord_howe_moves_by_half_an_hour() {
    check(
        Tz::named("Australia/Lord_Howe"),
        "
        day  2013-04-07T00:00:00+11:00 2013-04-08T00:00:00+10:30
        hour 2013-04-07T01:00:00+11:00 2013-04-07T01:30:00+10:30 2013-04-07T02:00:00+10:30
        day  2013-10-06T00:00:00+10:30 2013-10-07T00:00:00+11:00
        hour 2013-10-06T01:00:00+10:30 2013-10-06T02:30:00+11:00 2013-10-06T03:00:00+11:00
        ",
    );
}

#[test]
fn sao_paulo_has_days_without_midnight() {
    check(
        Tz::named("America/Sao_Paulo"),
        "
        day  2018-11-03T00:00:00-03:00 2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00
        hour 2018-11-03T23:00:00-03:00 2018-11-04T01:00:00-02:00 2018-11-04T02:00:00-02:00
        week 2018-10-28T00:00:00-03:00 2018-11-04T01:00:00-02:00 2018-11-11T00:00:00-02:00
        day  2018-02-17T00:00:00-02:00 2018-02-18T00:00:00-03:00 2018-02-19T00:00:00-03:00
        hour 2018-02-17T23:00:00-02:00 2018-02-17T23:00:00-03:00 2018-02-18T00:00:00-03:00
        ",
    );
}

#[test]
fn apia_had_no_30_december_2011() {
    check(
        Tz::named("Pacific/Apia"),
        "
        hour  2011-12-29T23:00:00-10:00 2011-12-31T00:00:00+14:00 2011-12-31T01:00:00+14:00
        day   2011-12-29T00:00:00-10:00 2011-12-31T00:00:00+14:00 2012-01-01T00:00:00+14:00
        week  2011-12-25T00:00:00-10:00 2012-01-01T00:00:00+14:00 2012-01-08T00:00:00+14:00
        month 2011-12-01T00:00:00-10:00 2012-01-01T00:00:00+14:00
        year  2011-01-01T00:00:00-10:00 2012-01-01T00:00:00+14:00
        ",
    );
}

#[test]
fn casablanca_sets_its_clocks_back_in_ramadan() {
    check(
        Tz::named("Africa/Casablanca"),
        "
        day  2013-07-07T00:00:00+01:00 2013-07-08T00:00:00+00:00
        day  2013-08-10T00:00:00+00:00 2013-08-11T00:00:00+01:00
        day  2019-05-05T00:00:00+01:00 2019-05-06T00:00:00+00:00
        hour 2019-05-05T02:00:00+01:00 2019-05-05T02:00:00+00:00 2019-05-05T03:00:00+00:00
        day  2019-06-09T00:00:00+00:00 2019-06-10T00:00:00+01:00
        hour 2019-06-09T01:00:00+00:00 2019-06-09T03:00:00+01:00 2019-06-09T04:00:00+01:00
        ",
    );
}

#[test]
fn troll_moves_by_two_hours() {
    check(
        Tz::named("Antarctica/Troll"),
        "
        day  2013-03-31T00:00:00+00:00 2013-04-01T00:00:00+02:00
        hour 2013-03-31T00:00:00+00:00 2013-03-31T03:00:00+02:00 2013-03-31T04:00:00+02:00
        day  2013-10-27T00:00:00+02:00 2013-10-28T00:00:00+00:00
        hour 2013-10-27T01:00:00+02:00 2013-10-27T02:00:00+02:00 2013-10-27T01:00:00+00:00 2013-10-27T02:00:00+00:00
        ",
    );
}

#[test]
fn pyongyang_left_its_offset_and_came_back() {
    check(
        Tz::named("Asia/Pyongyang"),
        "
        day  2015-08-14T00:00:00+09:00 2015-08-15T00:00:00+08:30 2015-08-16T00:00:00+08:30
        hour 2015-08-14T23:00:00+09:00 2015-08-14T23:30:00+08:30 2015-08-15T00:00:00+08:30
        day  2018-05-04T00:00:00+08:30 2018-05-05T00:00:00+09:00 2018-05-06T00:00:00+09:00
        hour 2018-05-04T23:00:00+08:30 2018-05-05T00:00:00+09:00 2018-05-05T01:00:00+09:00
        ",
    );
}

#[test]
fn st_johns_changed_a_minute_after_midnight() {
    // The clock repeats 59 minutes of the 28th; they belong to the 29th, which had begun.
    check(
        Tz::named("America/St_Johns"),
        "
        day  2006-10-28T00:00:00-02:30 2006-10-29T00:00:00-02:30 2006-10-30T00:00:00-03:30
        hour 2006-10-28T23:00:00-02:30 2006-10-29T00:00:00-02:30 2006-10-28T23:01:00-03:30 2006-10-29T00:00:00-03:30
        week 2006-10-22T00:00:00-02:30 2006-10-29T00:00:00-02:30 2006-11-05T00:00:00-03:30
        day  2006-04-02T00:00:00-03:30 2006-04-03T00:00:00-02:30
        hour 2006-04-02T00:00:00-03:30 2006-04-02T01:01:00-02:30 2006-04-02T02:00:00-02:30
        ",
    );
    let shown_again = us("2006-10-28T23:30:00-03:30");
    let calendar = Calendar::new(Tz::named("America/St_Johns"), WeekStart::Sunday);
    for level in [Level::Day, Level::Week] {
        let start = calendar.bucket(level, shown_again).start_us;
        assert_eq!(start, us("2006-10-29T00:00:00-02:30"), "{level}");
    }
}

#[test]
fn monrovia_was_44_minutes_and_30_seconds_behind() {
    // RFC 3339 has no seconds in its offsets, so these instants are in UTC.
    check(
        Tz::named("Africa/Monrovia"),
        "
        minute 1972-01-07T00:43:30Z 1972-01-07T00:44:30Z 1972-01-07T00:45:00Z
        hour   1972-01-06T23:44:30Z 1972-01-07T00:44:30Z 1972-01-07T01:00:00Z
        day    1972-01-06T00:44:30Z 1972-01-07T00:44:30Z 1972-01-08T00:00:00Z
        month  1972-01-01T00:44:30Z 1972-02-01T00:00:00Z
        year   1971-01-01T00:44:30Z 1972-01-01T00:44:30Z 1973-01-01T00:00:00Z
        ",
    );
}
