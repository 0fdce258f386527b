//! Accuracy of a month of hours: quantiles and numbers of different hosts, through SQL, compared
//! with the raw values.

use aggregator::state::{Histogram, Layout};
use storage::StreamKind;

use super::support::{DAY_US, Event, Fixture, Random, batch};

const EVENTS: usize = 60_000;
/// 2024-03-01.
const MONTH_US: i64 = 19_783 * DAY_US;

/// Returns a month of responses from 100 bytes to 100 MB, most of them small, by so many hosts.
fn month(hosts: usize) -> Vec<Event> {
    let mut random = Random(11);
    let hosts: Vec<&'static str> = (0..hosts)
        .map(|host| &*format!("host-{host}").leak())
        .collect();
    (0..EVENTS)
        .map(|nth| {
            let magnitude = 2.0 + 6.0 * (random.below(1 << 20) as f64 / f64::from(1 << 20)).powi(3);
            Event {
                time: MONTH_US + random.below(31 * 86_400_000) as i64 * 1000,
                host: hosts[nth * 7 % hosts.len()],
                method: Some("GET"),
                path: Some(format!("/{}", random.below(50))),
                status: Some(200),
                size: (nth % 40 > 0).then_some(10_f64.powf(magnitude) as i64),
                ..Event::default()
            }
        })
        .collect()
}

/// Makes a store that took the events in twelve pieces, eleven of them sealed, some tiles
/// compacted.
fn stored(events: &[Event]) -> Fixture {
    let fixture = Fixture::with_defaults();
    for (nth, piece) in events.chunks(EVENTS / 12).enumerate() {
        if nth > 0 {
            fixture.store.seal().expect("seals");
        }
        if nth == 7 {
            fixture.store.compact_tiles(true).expect("compacts");
        }
        fixture.write("access", StreamKind::Access, batch(piece));
    }
    fixture
}

#[tokio::test]
async fn a_quantile_of_a_month_from_its_hours_is_that_of_its_raw_values() {
    let events = month(100);
    let mut raw: Vec<i64> = events.iter().filter_map(|e| e.size).collect();
    let layout = Layout::new(2, 1 << 40).expect("the default layout");
    let mut histogram = Histogram::new(layout, false);
    raw.iter().for_each(|v| histogram.record(i128::from(*v)));
    raw.sort_unstable();
    let fixture = stored(&events);
    let state = "SELECT encode(hist_merge(size), 'hex') FROM traffic";
    let of_raw: String = histogram
        .encode()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    for level in ["hourly", "daily", "monthly", "yearly"] {
        let merged = fixture.value(&format!("{state}.{level}")).await;
        assert!(merged.as_str() == Some(&*of_raw), "{level}: another state");
    }
    for q in [0.5, 0.9, 0.95, 0.99, 0.999] {
        let asked = format!("SELECT hist_quantile(hist_merge(size), {q}) FROM traffic.hourly");
        let found = fixture.value(&asked).await.as_f64().expect("a number");
        assert_eq!(Some(found), histogram.quantile(q));
        // Two digits: no more than a hundredth above the exact value, and never below it.
        let rank = (q * raw.len() as f64).ceil() as usize;
        let exact = raw[rank - 1] as f64;
        assert!(
            (exact..=exact * 1.01).contains(&found),
            "{q}: {found}, exactly {exact}"
        );
    }
    // The rollup's own column equals its merged hours.
    let column = "SELECT size_p99 FROM traffic.monthly WHERE bucket = '2024-03-01'";
    let found = fixture.value(column).await.as_f64();
    assert_eq!(found, histogram.quantile(0.99));
}

#[tokio::test]
async fn hosts_of_a_month_from_its_hours_are_those_of_the_raw_events() {
    for (hosts, error_max) in [(100, 0.0), (1_000, 0.05), (10_000, 0.05), (EVENTS, 0.05)] {
        let fixture = stored(&month(hosts));
        let raw = fixture
            .value("SELECT count(DISTINCT host) FROM access")
            .await;
        assert_eq!(raw, hosts, "the generator uses every host");
        let asked = "SELECT distinct_count(distinct_merge(visitors_state)) FROM traffic.hourly";
        let found = fixture.value(asked).await.as_f64().expect("a number");
        let error = (found / hosts as f64 - 1.0).abs();
        assert!(error <= error_max, "{hosts}: {found}");
        // The result does not depend on how the month was put together.
        let column = "SELECT visitors FROM traffic.yearly";
        assert_eq!(fixture.value(column).await.as_f64(), Some(found), "{hosts}");
    }
}
