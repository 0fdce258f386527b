use super::*;

const RANGE: TimeRange = super::super::KNOWN_YEARS;

#[test]
fn spans_cover_the_range_without_gap_or_overlap_and_hold_their_offset() {
    for tz in chrono_tz::zones() {
        let spans = Zone::of(tz).spans(RANGE);
        let (first, last) = (spans[0].range.first, spans[spans.len() - 1].range.last);
        assert!(first <= RANGE.first && last >= RANGE.last, "{tz}");
        for pair in spans.windows(2) {
            assert_eq!(pair[0].range.last + 1, pair[1].range.first, "{tz}");
            assert_ne!(pair[0].offset_us, pair[1].offset_us, "{tz}");
        }
        for span in spans {
            let known = span.within(RANGE).expect("the span meets the range");
            for at_us in [known.first, known.last] {
                let at = chrono::DateTime::from_timestamp_micros(at_us).expect("a known year");
                let offset = tz.offset_from_utc_datetime(&at.naive_utc());
                let ahead_s = i64::from(offset.fix().local_minus_utc());
                assert_eq!(span.offset_us, ahead_s * SECOND_US, "{tz} {at}");
            }
        }
    }
}

#[test]
fn spans_of_a_range_are_those_that_meet_it() {
    let zone = Zone::of(Tz::named("Europe/Berlin"));
    let all = zone.spans(RANGE);
    let summer = all
        .iter()
        .position(|span| span.range.contains(1_720_000_000_000_000))
        .expect("July 2024");
    let within = all[summer].range;
    assert_eq!(zone.spans(within), all[summer..=summer]);
    let wider = TimeRange {
        first: within.first - 1,
        last: within.last + 1,
    };
    assert_eq!(zone.spans(wider), all[summer - 1..=summer + 1]);
}
