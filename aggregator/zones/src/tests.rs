//! The interface that Arrow calls, held against the answers of `jiff` for the same local and UTC
//! times: its lookup of UTC times shares no code with our tables.

use chrono::DateTime;

use super::*;

/// Distances from a change of offset, seconds: to both sides of it and of the local times that it
/// skips or repeats.
const AROUND_S: [i64; 13] = [
    -86_400, -7_200, -3_601, -3_600, -1_800, -1, 0, 1, 1_799, 1_800, 3_599, 3_600, 7_200,
];

/// Returns the offsets at which clocks show a local time: those that hold at the instant that they
/// make of it. The lookups of local times by `jiff` are not asked: release 0.2.43 sets the clocks
/// of Greenland back in 2023, when they did not change.
fn by_definition(zone: &jiff::tz::TimeZone, local_s: i64) -> MappedLocalTime<i32> {
    let at = |t_s| zone.to_offset(Timestamp::from_second(t_s).expect("a year that jiff knows"));
    // No offset lasts less than six hours.
    let hours = (-24..=24).step_by(6);
    let offsets = hours.map(|hour| at(local_s + hour * 3_600).seconds());
    let mut shown: Vec<i32> = offsets
        .filter(|offset| at(local_s - i64::from(*offset)).seconds() == *offset)
        .collect();
    shown.sort_unstable();
    shown.dedup();
    match shown.as_slice() {
        [] => MappedLocalTime::None,
        [only] => MappedLocalTime::Single(*only),
        [later, earlier] => MappedLocalTime::Ambiguous(*earlier, *later),
        more => panic!("{local_s}: {more:?}"),
    }
}

#[test]
fn offsets_of_utc_and_of_local_times_are_those_of_the_database() {
    let to_s = 7_300_000_000;
    for zone in zones() {
        let theirs = DATABASE.get(zone.name()).expect("a zone of the list");
        let changes = theirs.following(Timestamp::MIN);
        let changes = changes.map(|change| change.timestamp().as_second());
        for at_s in changes.take_while(|at_s| *at_s < to_s).chain([0, to_s]) {
            let shifts = [
                at_s,
                at_s + zone.offset_s(at_s),
                at_s + zone.offset_s(at_s - 1),
            ];
            let near = shifts
                .iter()
                .flat_map(|t_s| AROUND_S.map(|by_s| t_s + by_s));
            for t_s in near {
                let chrono = DateTime::from_timestamp(t_s, 0).expect("a year that chrono knows");
                let chrono = chrono.naive_utc();
                let at = Timestamp::from_second(t_s).expect("a year that jiff knows");
                assert_eq!(
                    zone.offset_from_utc_datetime(&chrono)
                        .fix()
                        .local_minus_utc(),
                    theirs.to_offset(at).seconds(),
                    "{zone} {at}"
                );
                let local = zone.offset_from_local_datetime(&chrono);
                let local = local.map(|offset| offset.fix().local_minus_utc());
                let expected = by_definition(&theirs, t_s);
                assert_eq!(local, expected, "{zone} shows {chrono}");
            }
        }
    }
}

#[test]
fn spans_of_offset_follow_one_another_and_end_where_the_offset_changes() {
    let until_s = CYCLE_S.1 + 2 * (CYCLE_S.1 - CYCLE_S.0);
    for zone in zones() {
        let theirs = DATABASE.get(zone.name()).expect("a zone of the list");
        let offset = |t_s| {
            let at = Timestamp::from_second(folded(t_s)).expect("a year that jiff knows");
            i64::from(theirs.to_offset(at).seconds())
        };
        let mut from_s = -5_000_000_000;
        while from_s < until_s {
            let (offset_s, span) = zone.offset_span(from_s);
            assert!(span.contains(&from_s), "{zone} {from_s}: {span:?}");
            assert_eq!(zone.offset_span(span.end - 1).0, offset_s, "{zone}");
            let is_cut = folded(span.end) == folded(TABLE_END_S);
            if !is_cut {
                assert_ne!(offset(span.end), offset_s, "{zone}: {span:?}");
            }
            if from_s < CYCLE_S.1 && span.start > i64::MIN {
                assert_eq!(offset(span.start), offset_s, "{zone}: {span:?}");
                assert_ne!(offset(span.start - 1), offset_s, "{zone}: {span:?}");
            }
            assert_eq!(offset(span.end - 1), offset_s, "{zone}: {span:?}");
            // No offset lasts less: six hours are the step of `by_definition`.
            assert!(span.end.saturating_sub(span.start) > 6 * 3_600, "{zone}");
            from_s = span.end;
        }
    }
}

#[test]
fn zones_repeat_themselves_after_their_table() {
    let cycle_s = CYCLE_S.1 - CYCLE_S.0;
    assert_eq!(cycle_s % (7 * 86_400), 0);
    for zone in zones() {
        let theirs = DATABASE.get(zone.name()).expect("a zone of the list");
        for nth in 0..200 {
            let t_s = CYCLE_S.1 - 2 * DAY_S + nth * 63_100_000;
            let at = Timestamp::from_second(t_s).expect("a year that jiff knows");
            let expected = i64::from(theirs.to_offset(at).seconds());
            assert_eq!(zone.offset_s(t_s), expected, "{zone} {at}");
            assert_eq!(zone.offset_s(t_s + cycle_s), expected, "{zone} {at}");
        }
    }
}

#[test]
fn years_that_no_table_holds_have_an_offset() {
    for text in ["Europe/Berlin", "America/New_York", "UTC"] {
        let zone = Tz::named(text);
        for year in [-262_000, -9_999, 9_999, 262_000] {
            let date = NaiveDate::from_ymd_opt(year, 7, 1).expect("a year that chrono knows");
            let noon = date.and_hms_opt(12, 0, 0).expect("a time");
            let utc = zone.offset_from_utc_datetime(&noon).fix();
            let local = zone.offset_from_local_datetime(&noon).single();
            assert_eq!(local.map(|offset| offset.fix()), Some(utc), "{text} {year}");
        }
    }
}

#[test]
fn a_zone_is_found_by_its_name_alone() {
    for zone in zones() {
        assert_eq!(zone.name().parse(), Ok(zone));
    }
    assert_eq!(zones().filter(|zone| *zone == UTC).count(), 1);
    for unknown in ["", "utc", "europe/berlin", "Europe/Atlantis"] {
        assert!(unknown.parse::<Tz>().is_err(), "{unknown}");
    }
}

#[test]
fn a_date_has_the_offset_of_a_time_that_it_has() {
    // Clocks of Sao Paulo skipped the midnight of that date.
    let zone = Tz::named("America/Sao_Paulo");
    let date = NaiveDate::from_ymd_opt(2017, 10, 15).expect("a date");
    let offset = zone.offset_from_local_date(&date).single();
    assert_eq!(offset.map(|o| o.fix().local_minus_utc()), Some(-7_200));
}
