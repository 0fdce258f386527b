//! Batches of several gateways through the real catalog, division and stores: parts are refused,
//! lost on their way, and answered too late, and their batches are sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use ingest::{BatchOrigin, ParseOptions, Parser};
use parking_lot::Mutex;
use proptest::prelude::*;
use query::{Engine, EngineOptions};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng};
use serde_json::Value;
use storage::{
    Ack, Batch, Config as StoreConfig, EncodedBatch, Identity, Name, Options, Store, StreamKind,
    WriteConcern,
};
use tempfile::TempDir;

use super::split::split;
use super::*;
use crate::cluster::catalog::Replaced;
use crate::wiring::StoreInfo;

const SHARDS: u16 = 3;
const GATEWAYS: usize = 2;
const RECEIVED_US: i64 = 1_700_100_000_000_000;
const KEYS: [&str; 6] = ["batch", "time", "a", "a, b", "b + hash", "a + hash if hot"];

/// A catalog in memory. Some replacements are answered by an error, whether they happened or not.
#[derive(Debug, Default)]
struct FaultyPlace(Mutex<PlaceState>);

#[derive(Debug)]
struct PlaceState {
    text: Option<String>,
    random: SmallRng,
}

impl Default for PlaceState {
    fn default() -> Self {
        Self {
            text: None,
            random: SmallRng::seed_from_u64(1),
        }
    }
}

impl CatalogPlace for Arc<FaultyPlace> {
    fn load(&self) -> Result<Option<(String, String)>, String> {
        let text = self.0.lock().text.clone();
        Ok(text.map(|text| (text.clone(), text)))
    }

    fn is_near(&self) -> bool {
        true
    }

    fn replace(&self, expected: Option<&str>, text: &str) -> Result<Replaced, String> {
        let mut state = self.0.lock();
        let fault = state.random.random_range(0..8);
        if fault == 0 {
            return Err("lost on its way".to_owned());
        }
        if state.text.as_deref() != expected {
            return Ok(Replaced::Other);
        }
        state.text = Some(text.to_owned());
        match fault {
            1 => Err("its answer is lost".to_owned()),
            _ => Ok(Replaced::Done(text.to_owned())),
        }
    }
}

/// Stores that are the shards of a cluster, and one that gets every batch whole.
struct Cluster {
    _dirs: Vec<TempDir>,
    shards: Vec<Store>,
    alone: Store,
    gateways: Vec<SharedCatalog>,
    random: SmallRng,
    /// The time of the next attempt.
    now_us: i64,
}

fn opened(shard: Option<u16>) -> (TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options {
        shard,
        config: StoreConfig {
            tends: false,
            columns_max: 6,
            ..StoreConfig::default()
        },
        ..Options::default()
    };
    let store = Store::open(dir.path(), options).expect("opens");
    (dir, store)
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let key = KEYS[random.random_range(0..KEYS.len())];
        let hot = if key.ends_with("if hot") {
            "hot_values = [\"1\", \"x\"]"
        } else {
            ""
        };
        let text = format!("[ingest]\ncolumns_max = 6\n[stream.s]\nshard_key = \"{key}\"\n{hot}\n");
        let config: Config = toml::from_str(&text).expect("a configuration");
        let place = Arc::new(FaultyPlace::default());
        place.0.lock().random = SmallRng::seed_from_u64(seed + 1);
        let gateway = |_| SharedCatalog::new(Box::new(Arc::clone(&place)), SHARDS, &config);
        let (mut dirs, mut shards) = (Vec::new(), Vec::new());
        for shard in 0..SHARDS {
            let (dir, store) = opened(Some(shard));
            dirs.push(dir);
            shards.push(store);
        }
        let (dir, alone) = opened(None);
        dirs.push(dir);
        Self {
            _dirs: dirs,
            shards,
            alone,
            gateways: (0..GATEWAYS).map(gateway).collect(),
            random,
            now_us: RECEIVED_US,
        }
    }

    /// Sends a batch until all of its parts are stored, each time through any gateway. Returns the
    /// acknowledgements of the last attempt.
    fn send(&mut self, lines: &str, identity: &Identity) -> Vec<Ack> {
        let mut is_alone = false;
        loop {
            let gateway = &self.gateways[self.random.random_range(0..GATEWAYS)];
            let stream = Name::new("s").expect("a name");
            let known = gateway.stream(&stream);
            let columns = known.map(|known| known.columns).unwrap_or_default();
            let mut batch = parsed(columns, lines, identity, self.now_us);
            let Ok(agreed) = gateway.agree(&mut batch) else {
                continue;
            };
            if !is_alone {
                // The store alone decides about columns in the same order.
                let columns = crate::intake::stream_schema(&self.alone.snapshot(), &stream);
                let whole = parsed(columns, lines, identity, self.now_us);
                let alone = self.alone.write(whole, WriteConcern::ACKNOWLEDGED);
                assert!(!alone.expect("taken").duplicate);
                is_alone = true;
            }
            let home = ShardKey::home(identity, SHARDS);
            let places = ItemShards::of(&batch, Some(&agreed), home, SHARDS);
            let mut parts = split(batch, &places, home, SHARDS).expect("divided");
            let mut acks = Vec::new();
            let all = parts.len();
            while !parts.is_empty() {
                let next = self.random.random_range(0..parts.len());
                let (shard, part) = parts.swap_remove(next);
                let fault = self.random.random_range(0..6);
                if fault == 0 {
                    continue;
                }
                let bytes = part.encode().expect("a batch");
                let part = EncodedBatch::read(&bytes).expect("reads");
                let ack = taken(&self.shards[usize::from(shard)], part);
                // An answer may be lost.
                acks.extend((fault != 1).then_some(ack));
            }
            if acks.len() == all {
                return acks;
            }
            if self.now_us < RECEIVED_US {
                self.now_us += self.random.random_range(0..40_000_000);
            }
        }
    }

    /// Returns the rows of the stream in some stores, sorted.
    fn rows<'a>(stores: impl IntoIterator<Item = &'a Store>) -> Vec<BTreeMap<String, String>> {
        let has_stream = |store: &&Store| store.snapshot().streams().contains_key("s");
        Self::asked(
            stores.into_iter().filter(has_stream),
            "SELECT *, to_unixtime(time) AS second FROM s",
        )
    }

    /// Returns the answers of some stores, sorted.
    fn asked<'a>(
        stores: impl IntoIterator<Item = &'a Store>,
        sql: &str,
    ) -> Vec<BTreeMap<String, String>> {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let runtime = wiring::runtime().expect("a runtime");
        let mut rows = Vec::new();
        for store in stores {
            let asked = async {
                let system = Arc::new(StoreInfo::default());
                let answer = engine.sql(store.snapshot(), system, sql, None).await;
                let mut stream = answer.expect("an answer").stream;
                while let Some(batch) = stream.next().await {
                    rows.extend(texts(&batch.expect("rows")));
                }
            };
            runtime.block_on(asked);
        }
        rows.sort();
        rows
    }
}

/// Returns the values of rows that are not null, but for the numbers that the stores have given.
fn texts(batch: &arrow::array::RecordBatch) -> Vec<BTreeMap<String, String>> {
    let own = ["_id", "_seq", "time_source"];
    let mut writer = arrow::json::ArrayWriter::new(Vec::new());
    writer.write(batch).expect("JSON");
    writer.finish().expect("JSON");
    let rows: Vec<serde_json::Map<String, Value>> =
        serde_json::from_slice(&writer.into_inner()).expect("rows");
    let texts = rows.into_iter().map(|row| {
        let values = row
            .into_iter()
            .filter(|(name, _)| !own.contains(&name.as_str()));
        let text = |value: Value| match value.as_f64() {
            // A column of integers of one shard may be one of floats elsewhere.
            Some(number) if !value.is_i64() || number.abs() < 9e15 => format!("{number:?}"),
            _ => value.to_string(),
        };
        values.map(|(name, value)| (name, text(value))).collect()
    });
    texts.collect()
}

fn taken(store: &Store, part: EncodedBatch) -> Ack {
    let (tell, told) = std::sync::mpsc::channel();
    let reply = move |outcome| tell.send(outcome).expect("the test waits");
    let submitted = store.submit_encoded(part, WriteConcern::ACKNOWLEDGED, reply);
    submitted.expect("queued");
    told.recv().expect("an answer").expect("stored")
}

fn parsed(
    columns: Vec<storage::Column>,
    lines: &str,
    identity: &Identity,
    received_us: i64,
) -> Batch {
    let stream = Name::new("s").expect("a name");
    let mut parser = Parser::new(ParseOptions {
        format: "json".parse().expect("a format"),
        columns_max: 6,
        received_us,
        reads_future: true,
        schema: columns,
        ..ParseOptions::default()
    });
    let origin = BatchOrigin {
        received_us,
        kind: Some(StreamKind::Documents),
        stream,
        source: "test".into(),
        identity: Some(identity.clone()),
    };
    origin.batch(parser.parse(lines.as_bytes()).expect("parses"))
}

fn lines(random: &mut SmallRng) -> String {
    let mut lines = String::new();
    for _ in 0..random.random_range(0..12) {
        if random.random_range(0..8) == 0 {
            lines += "{\"broken\n";
            continue;
        }
        let time = 1_700_000_000 + random.random_range(0..20_000);
        lines += &line(random, time);
    }
    lines
}

fn line(random: &mut SmallRng, time: i64) -> String {
    let mut fields = vec![format!("\"time\":{time}")];
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let value = match random.random_range(0..14) {
            0..=3 => random.random_range(0..3).to_string(),
            4 => "0.5".to_owned(),
            5 => "1.0".to_owned(),
            6 => "\"x\"".to_owned(),
            7 => "true".to_owned(),
            8 => "9007199254740993".to_owned(),
            _ => continue,
        };
        fields.push(format!("\"{name}\":{value}"));
    }
    format!("{{{}}}\n", fields.join(","))
}

/// Returns the identity of the batch of a number: a key, or the next range of a source.
fn identity(random: &mut SmallRng, number: usize, to: &mut u64) -> Identity {
    match random.random_range(0..2) {
        0 => Identity::Key {
            key: format!("k{number}"),
            body_hash: 7,
        },
        _ => {
            let from = *to;
            *to += 100;
            Identity::Range {
                producer: "p".to_owned(),
                from,
                to: *to,
                content: *to,
            }
        }
    }
}

fn history(seed: u64) -> (usize, usize) {
    let mut cluster = Cluster::new(seed);
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut to, mut quarantined, mut again) = (0, 0, 0);
    for n in 0..random.random_range(1..10) {
        let lines = lines(&mut random);
        let identity = identity(&mut random, n, &mut to);
        let acks = cluster.send(&lines, &identity);
        let [items, bad] = [0, 1].map(|which| {
            let of = |ack: &Ack| [ack.accepted + ack.quarantined, ack.quarantined][which];
            acks.iter().map(of).sum::<u64>()
        });
        assert_eq!(items, lines.lines().count() as u64, "seed {seed}");
        quarantined += bad;
        again += acks.iter().filter(|ack| ack.duplicate).count();
    }
    let counters = |store: &Store| {
        let counters = store.counters();
        counters.values().map(|c| c.quarantined).sum::<u64>()
    };
    let of_shards: u64 = cluster.shards.iter().map(counters).sum();
    assert_eq!(
        (of_shards, counters(&cluster.alone)),
        (quarantined, quarantined)
    );
    let (all, alone) = (
        Cluster::rows(&cluster.shards),
        Cluster::rows([&cluster.alone]),
    );
    assert_eq!(all, alone, "seed {seed}");
    let used = cluster
        .shards
        .iter()
        .filter(|s| s.snapshot().streams().contains_key("s"));
    (used.count(), again)
}

#[test]
fn batches_of_several_gateways_count_once_and_agree_on_columns() {
    let first = std::env::var("LOGMILL_SEED").ok();
    let first = first.map_or(0, |seed| seed.parse().expect("a number"));
    let number = std::env::var("LOGMILL_SIM_HISTORIES").ok();
    let number = number.map_or(40, |n| n.parse().expect("a number"));
    let (mut used, mut again) = (0, 0);
    for seed in first..first + number {
        let (shards, parts) = history(seed);
        used += shards;
        again += parts;
    }
    println!("{number} histories, {used} shards used, {again} parts sent again in vain");
    assert!(used as u64 > number, "batches are divided");
    assert!(again > 0, "parts are sent again");
}

#[test]
fn a_line_counts_once_whose_time_comes_between_attempts() {
    let mut both = [0, 0];
    for seed in 0..60 {
        let mut cluster = Cluster::new(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut time, mut to) = (1_700_000_000, 0);
        for n in 0..random.random_range(1..10) {
            // The time of some of these lines comes between the attempts.
            cluster.now_us =
                (time + random.random_range(0..60)) * 1_000_000 - ingest::MAX_FUTURE_US;
            let mut lines = String::new();
            for _ in 0..random.random_range(0..12) {
                time += 7;
                lines += &line(&mut random, time);
            }
            let identity = identity(&mut random, n, &mut to);
            let acks = cluster.send(&lines, &identity);
            let items: u64 = acks.iter().map(|ack| ack.accepted + ack.quarantined).sum();
            assert_eq!(items, lines.lines().count() as u64, "seed {seed}");
        }
        let events = Cluster::rows(&cluster.shards);
        let raws = Cluster::asked(
            &cluster.shards,
            "SELECT arrow_cast(raw, 'Utf8') AS raw FROM system.quarantine",
        );
        let of_event = |row: &BTreeMap<String, String>| {
            let second: f64 = row["second"].parse().expect("a number");
            second as i64
        };
        let of_raw = |row: &BTreeMap<String, String>| {
            let line: String = serde_json::from_str(&row["raw"]).expect("a text");
            let line: Value = serde_json::from_str(&line).expect("a line");
            line["time"].as_i64().expect("a time")
        };
        let mut times: Vec<i64> = events.iter().map(of_event).collect();
        times.extend(raws.iter().map(of_raw));
        times.sort_unstable();
        let all: Vec<i64> = (1_700_000_007..=time).step_by(7).collect();
        assert_eq!(times, all, "seed {seed}");
        both = [both[0] + events.len(), both[1] + raws.len()];
    }
    assert!(both.iter().all(|number| *number > 100), "{both:?}");
}

fn small(events: usize, bad: &BTreeSet<u32>) -> Batch {
    let times = arrow::array::TimestampMicrosecondArray::from_iter_values(0..events as i64);
    let times: arrow::array::ArrayRef = Arc::new(times.with_timezone("UTC"));
    let items = events + bad.len();
    let schema = storage::arrow_schema(&[storage::Column::new(
        storage::TIME,
        storage::ColumnType::Time,
    )]);
    Batch {
        stream: Name::new("s").expect("a name"),
        kind: StreamKind::Documents,
        received_us: 0,
        source: "test".into(),
        events: arrow::array::RecordBatch::try_new(schema, vec![times]).expect("a batch"),
        quarantine: bad
            .iter()
            .filter(|rank| (**rank as usize) < items)
            .map(|rank| storage::Quarantined {
                rank: *rank,
                index: u64::from(*rank),
                reason: "bad",
                detail: String::new(),
                line: 0,
                byte: 0,
                raw: Vec::new(),
                event: None,
            })
            .collect(),
        identity: None,
    }
}

proptest! {
    /// Each item is in one part, and a part has its items in the order of the batch.
    #[test]
    fn a_division_has_each_item_once_and_in_order(
        places in prop::collection::vec(0..SHARDS, 0..30),
        bad in prop::collection::btree_set(0_u32..40, 0..10),
        bad_places in prop::collection::vec(prop::option::of(0..SHARDS), 10),
        home in 0..SHARDS,
        identity in 0..3,
    ) {
        use arrow::array::AsArray;
        use arrow::datatypes::TimestampMicrosecondType;
        // Ranks of quarantined items lie within the items.
        let mut bad = bad;
        while bad.last().is_some_and(|last| *last as usize >= places.len() + bad.len()) {
            bad.pop_last();
        }
        let mut batch = small(places.len(), &bad);
        batch.identity = match identity {
            0 => None,
            1 => Some(Identity::Key { key: "k".to_owned(), body_hash: 1 }),
            _ => Some(Identity::Range { producer: "p".to_owned(), from: 0, to: 1, content: 1 }),
        };
        batch.validate().expect("a batch");
        // The items of the batch by rank: the time of an event, or the index of a bad line.
        let order = |batch: &Batch| {
            let times = batch.events.column(0).as_primitive::<TimestampMicrosecondType>();
            let mut times = times.values().iter();
            let mut bad = batch.quarantine.iter().peekable();
            (0..batch.items() as u32).map(|rank| match bad.next_if(|item| item.rank == rank) {
                Some(item) => (1, item.index as i64),
                None => (0, *times.next().expect("an event")),
            }).collect::<Vec<_>>()
        };
        let all = order(&batch);
        let of_bad = bad_places.iter().take(bad.len()).map(|place| place.unwrap_or(home));
        let places = ItemShards { events: places, quarantine: of_bad.collect() };
        let parts = split(batch.clone(), &places, home, SHARDS).expect("divided");
        let mut found = Vec::new();
        for (shard, part) in &parts {
            part.validate().expect("a part");
            let own = order(part);
            let positions = own.iter().map(|item| all.iter().position(|i| i == item));
            prop_assert!(positions.is_sorted());
            for (kind, number) in &own {
                let place = match kind {
                    1 => {
                        let of = |rank: &u32| i64::from(*rank) == *number;
                        places.quarantine[bad.iter().position(of).expect("a bad line")]
                    }
                    _ => places.events[*number as usize],
                };
                prop_assert_eq!(place, *shard);
            }
            prop_assert_eq!(&part.identity, &batch.identity);
            found.extend(own);
        }
        found.sort_unstable();
        let mut all = all;
        all.sort_unstable();
        prop_assert_eq!(found, all);
        let shards: BTreeSet<u16> = parts.iter().map(|(shard, _)| *shard).collect();
        prop_assert_eq!(shards.len(), parts.len());
        match identity {
            1 => prop_assert_eq!(parts[0].0, home),
            2 => prop_assert_eq!(parts.len(), usize::from(SHARDS)),
            _ => {}
        }
    }
}
