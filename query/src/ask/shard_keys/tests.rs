use std::collections::{BTreeMap, HashSet};

use aggregator::{Cascade, CascadeConfig, RollupTable};
use storage::StreamKind;

use super::*;
use crate::NoSystemInfo;
use crate::tests::support::{Event, Fixture, Random, batch};

const SHARDS: u16 = 4;
const EVENTS: usize = 1_000;
/// 2026-11-26T00:00:00Z
const DAY_US: i64 = 1_795_651_200_000_000;

/// Returns the events of a day in the order of their times: few hosts, more paths, one path hot.
fn events(n: usize) -> Vec<Event> {
    const HOSTS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut random = Random(7);
    let step = 86_400_000_000 / n as i64;
    let event = |i: usize| Event {
        time: DAY_US + step * i as i64,
        host: HOSTS[random.below(HOSTS.len())],
        method: Some("GET"),
        path: match random.below(10) {
            0 => None,
            1..4 => Some("/hot".to_owned()),
            _ => Some(format!("/p{}", random.below(60))),
        },
        status: Some([200, 404, 500][random.below(3)]),
        size: Some(1),
        ..Event::default()
    };
    (0..n).map(event).collect()
}

/// Returns a store of events with two rollups, one of which has an expression as a key.
fn store(events: &[Event]) -> Fixture {
    let prefixes = serde_json::json!({
        "stream": "access", "by": ["host", {"name": "top", "expr": "path_prefix(path, 1)"}],
        "levels": ["hour", "day"], "measures": {"hits": "count"},
    });
    let pages = serde_json::json!({
        "stream": "access", "by": ["path", "status"], "measures": {"hits": "count"},
    });
    let rollups = [("pages", pages), ("prefixes", prefixes)];
    let rollups = rollups.map(|(name, table)| {
        let table: RollupTable = serde_json::from_value(table).unwrap();
        (name.to_owned(), table)
    });
    let config = CascadeConfig {
        rollups: BTreeMap::from(rollups),
        ..CascadeConfig::default()
    };
    let fixture = Fixture::new(Arc::new(Cascade::new(config).unwrap()));
    fixture.write("access", StreamKind::Access, batch(events));
    fixture.store.seal().unwrap();
    fixture
}

async fn measured(fixture: &Fixture, also: &[ShardKey]) -> Result<Option<ShardKeyInfo>> {
    let sources = (fixture.store.snapshot(), Arc::new(NoSystemInfo) as Arc<_>);
    let stream = Name::new("access").unwrap();
    shard_keys(&fixture.engine, sources, &stream, SHARDS, also).await
}

fn key(text: &str) -> ShardKey {
    text.parse().unwrap()
}

/// Divides the events into stores as a key says, and counts their cells, events and values there.
#[tokio::test]
async fn figures_are_those_of_stores_that_the_key_divides() {
    let events = events(EVENTS);
    let one = store(&events);
    let also = ["path, host", "path + hash if hot"].map(key);
    let info = measured(&one, &also).await.unwrap().unwrap();
    assert_eq!((info.events, info.from_us), (EVENTS as u64, DAY_US));
    assert!(info.keys.len() >= 9, "{info:#?}");
    let stream = Name::new("access").unwrap();
    let snapshot = one.store.snapshot();
    let meta = snapshot.streams()["access"].clone();
    let fields = ["host", "path", "site", "status", "user"]
        .map(str::to_owned)
        .into();
    let sources = (one.store.snapshot(), Arc::new(NoSystemInfo) as Arc<_>);
    let rows = SampleRows::read(&one.engine, sources, (&stream, &meta), &fields, &[]);
    let sample = EventSample::new(rows.await.unwrap(), &fields, &[]);
    // Numbers follow the times here.
    let first = *sample.seqs.iter().min().unwrap();
    for figures in &info.keys {
        let values = sample.values_of(&figures.key);
        let places = sample.places(&figures.key, &values, SHARDS);
        let mut divided = vec![Vec::new(); usize::from(SHARDS)];
        for (seq, shard) in sample.seqs.iter().zip(places) {
            divided[usize::from(shard)].push(events[(*seq - first) as usize].clone());
        }
        let most = divided.iter().map(Vec::len).max().unwrap();
        let mean = EVENTS as f64 / f64::from(SHARDS);
        assert_eq!(figures.busiest, most as f64 / mean, "{}", figures.key);
        let hosts = |events: &[Event]| events.iter().map(|e| e.host).collect::<HashSet<_>>();
        let read = events.iter().map(|event| {
            let shards = divided
                .iter()
                .filter(|events| hosts(events).contains(event.host));
            shards.count() as f64
        });
        let lookup = figures.lookups.iter().find(|l| l.field == "host").unwrap();
        let expected = read.sum::<f64>() / EVENTS as f64;
        assert!(
            (lookup.shards - expected).abs() < 1e-9,
            "{}: {lookup:?} {expected}",
            figures.key
        );
        let stores: Vec<Fixture> = divided.iter().map(|events| store(events)).collect();
        for found in &figures.cells {
            let level = aggregator::Level::from_name(&found.level).unwrap();
            let of_one = cells(&one, level).await;
            let mut of_all = 0;
            for store in &stores {
                of_all += cells(store, level).await;
            }
            let ratio = of_all as f64 / of_one as f64;
            assert_eq!(found.ratio, ratio, "{} {level:?}", figures.key);
        }
    }
}

/// Counts the cells of all rollups of the stream at a level.
async fn cells(store: &Fixture, level: aggregator::Level) -> u64 {
    let (level, table) = (level.as_str(), level.table());
    let rollups = format!("SELECT name FROM system.rollups WHERE level = '{level}'");
    let mut cells = 0;
    for row in store.rows(&rollups).await {
        let rollup = row["name"].as_str().unwrap();
        let count = store
            .value(&format!("SELECT count(*) FROM {rollup}.{table}"))
            .await;
        cells += count.as_u64().unwrap();
    }
    cells
}

#[tokio::test]
async fn keys_are_told_apart_by_what_they_keep_together() {
    let fixture = store(&events(4_000));
    let info = measured(&fixture, &[]).await.unwrap().unwrap();
    // Whole minutes, as many as fit.
    assert!(
        info.from_us > DAY_US && info.from_us % 60_000_000 == 0,
        "{}",
        info.from_us
    );
    assert!((2_990..=3_000).contains(&info.events), "{}", info.events);
    let of = |text: &str| {
        let found = info.keys.iter().find(|f| f.key == key(text));
        found.unwrap_or_else(|| panic!("{text}: {info:#?}"))
    };
    let lookup = |text: &str, field: &str| {
        let lookups = &of(text).lookups;
        lookups.iter().find(|l| l.field == field).unwrap().shards
    };
    assert_eq!((lookup("host", "host"), lookup("path", "path")), (1.0, 1.0));
    assert!(lookup("path", "host") > 3.9);
    assert_eq!(of("time").busiest_in_minute, f64::from(SHARDS));
    assert_eq!(of("batch").parts, 1.0);
    assert!(of("path").parts > 3.5);
    let hot = of("path").hottest.as_ref().unwrap();
    assert_eq!(hot.values, [Some("/hot".to_owned())]);
    assert!((0.25..0.35).contains(&hot.share), "{hot:?}");
    // A salt needs the values that it divides.
    let divided = info.keys.iter().find(|f| !f.hot_values.is_empty()).unwrap();
    assert!(divided.key.to_string().ends_with("+ hash if hot"));
    assert!(
        divided
            .hot_values
            .iter()
            .any(|value| value.contains(&"/hot".to_owned()))
    );
    let said = setting("access", divided);
    assert!(
        said.contains("[stream.access] shard_key = \"") && said.contains("\"/hot\""),
        "{said}"
    );
    let advised = &info.keys[info.advised.unwrap()];
    let least = info.keys.iter().filter(|f| f.key != ShardKey::Time);
    let least = least.map(|f| f.work).fold(f64::MAX, f64::min);
    assert_eq!(advised.work, least);
    assert!(
        info.notes[0].starts_with(&advised.key.to_string()),
        "{:?}",
        info.notes
    );
}

#[tokio::test]
async fn wrong_questions_are_refused() {
    let fixture = store(&events(10));
    let refused = measured(&fixture, &[key("nonsense")]).await.unwrap_err();
    assert!(
        refused.to_string().contains("no column \"nonsense\""),
        "{refused}"
    );
    for (also, why) in [
        (vec![ShardKey::Batch; 9], "9 keys"),
        (vec![key("host, path, host")], "host twice"),
        (vec![key("a,b,c,d,e,f,g,h,i")], "9 fields"),
    ] {
        let refused = measured(&fixture, &also).await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let sources = (fixture.store.snapshot(), Arc::new(NoSystemInfo) as Arc<_>);
    let stream = Name::new("never").unwrap();
    let none = shard_keys(&fixture.engine, sources.clone(), &stream, 4, &[]).await;
    assert_eq!(none.unwrap(), None);
    let stream = Name::new("access").unwrap();
    for shards in [0, 1, SHARDS_MAX + 1] {
        let refused = shard_keys(&fixture.engine, sources.clone(), &stream, shards, &[]).await;
        assert!(refused.unwrap_err().to_string().contains("2 to 1024"));
    }
}

#[test]
fn keys_are_read_as_they_are_written() {
    for text in [
        "batch",
        "time",
        "path",
        "site, path",
        "path + hash",
        "a, b + hash if hot",
    ] {
        assert_eq!(key(text).to_string(), text);
    }
    assert_eq!(key("site,path"), key("site, path"));
    for wrong in ["", ",", "a,,b", " + hash", "a, + hash"] {
        assert!(wrong.parse::<ShardKey>().is_err(), "{wrong:?}");
    }
}

/// More events in the newest minute than a sample has, in the order of hosts: those that arrived
/// last, of each host.
#[tokio::test]
async fn a_sample_has_the_events_that_arrived_last_whatever_the_order_of_the_stream() {
    const HOSTS: [&str; 4] = ["a", "b", "c", "d"];
    for begin_us in [DAY_US, DAY_US + 1] {
        let fixture = store(&events(100));
        let late: Vec<Event> = (0..5_000)
            .map(|n| Event {
                time: begin_us + 2 * 86_400_000_000,
                host: HOSTS[n % 4],
                path: Some(if n < 2_000 { "/early" } else { "/late" }.to_owned()),
                ..Event::default()
            })
            .collect();
        fixture.write("access", StreamKind::Access, batch(&late));
        fixture.store.seal().unwrap();
        let info = measured(&fixture, &[]).await.unwrap().unwrap();
        assert_eq!(info.events, 3_000, "{info:#?}");
        let hottest = |text: &str| {
            let figures = info.keys.iter().find(|f| f.key == key(text));
            figures.and_then(|figures| figures.hottest.clone()).unwrap()
        };
        assert_eq!(hottest("path").values, [Some("/late".to_owned())]);
        assert_eq!((hottest("path").share, hottest("host").share), (1.0, 0.25));
    }
}
