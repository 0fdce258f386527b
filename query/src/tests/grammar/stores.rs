//! Random stores, alone or several that answer together, and a model of their content that knows no
//! store: the events that were written, less those of partitions that were dropped or detached, and
//! levels added up from all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use aggregator::{Cascade, CascadeConfig};
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use serde_json::json;
use storage::{IndexKind, Name, Snapshot, StreamKind};

use super::super::support::{DAY_US, Event, Fixture, Near, Random, batch};
use super::division::Divided;
use super::oracle::Oracle;
use super::tables::{LEVELS, column_of_events, column_of_lines, level, level_columns, lines, rows};
use super::values::{HOUR_US, Values, ZONES};
use crate::{Engine, EngineOptions, NoSystemInfo, Parameters, Peer, Session, Sources};

/// Days around which some zone changes its clocks, the end of a year, a leap day.
const STARTS: [&str; 8] = [
    "2026-10-22T00:00:00Z",
    "2026-10-02T00:00:00Z",
    "2026-10-29T00:00:00Z",
    "2026-03-27T00:00:00Z",
    "2026-04-02T00:00:00Z",
    "2026-12-29T00:00:00Z",
    "2024-02-26T00:00:00Z",
    "1969-12-28T00:00:00Z",
];
/// Keys by which the streams of several stores are divided.
const KEYS: [&str; 8] = [
    "host",
    "path",
    "path + hash",
    "path + hash if hot",
    "site, path",
    "user, method",
    "status",
    "request",
];
const KEYS_OF_LINES: [&str; 5] = ["service", "note", "n", "level, ok + hash", "ms"];
const INDEXED: [&str; 5] = ["path", "host", "status", "user", "method"];

/// A document of the stream `app`.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) time: i64,
    pub(super) service: &'static str,
    pub(super) level: Option<&'static str>,
    pub(super) note: Option<String>,
    pub(super) ms: Option<f64>,
    pub(super) ok: Option<bool>,
    pub(super) n: Option<i64>,
}

/// The store of an event, and its sequence number there.
type Place = (usize, u64);

/// An event, its place, and whether it is in a detached partition.
type Kept<T> = Vec<(Place, T, bool)>;

/// Some stores, and the same rows in plain tables.
pub(super) struct World {
    _fixtures: Vec<Fixture>,
    /// The snapshot of the first store.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) peers: Vec<Arc<dyn Peer>>,
    pub(super) engine: Engine,
    pub(super) oracle: Oracle,
    pub(super) values: Values,
}

impl World {
    /// Creates a world of this many stores.
    pub(super) async fn new(seed: u64, stores: usize) -> Self {
        let mut random = Random(seed);
        // Neighbouring seeds give similar first values.
        for _ in 0..3 {
            let _ = random.below(2);
        }
        let start_us = STARTS[random.below(STARTS.len())].parse::<chrono::DateTime<chrono::Utc>>();
        let mut values = Values {
            random,
            start_us: start_us.expect("a time").timestamp_micros(),
            days: 3 + seed as usize % 6,
            times: Vec::new(),
        };
        let rollups = cascade(&mut values);
        let fixtures = (0..stores).map(|_| Fixture::new(rollups()));
        let mut model = Model {
            fixtures: fixtures.collect(),
            next_seqs: vec![0; stores],
            access: Vec::new(),
            ever: Vec::new(),
            app: Vec::new(),
        };
        model.write_all(&mut values);
        values.times = model.times();
        let mut snapshots = model.snapshots();
        let oracle = model.oracle(&snapshots).await;
        let snapshot = snapshots.remove(0);
        let options = EngineOptions {
            target_partitions: 2,
            rollup_answers: crate::RollupUse::Always,
            ..EngineOptions::default()
        };
        Self {
            engine: Engine::new(options).expect("an engine"),
            snapshot,
            peers: model.peers(),
            oracle,
            values,
            _fixtures: model.fixtures,
        }
    }

    /// Returns all stores as the sources of a question.
    pub(super) fn sources(&self) -> Sources {
        let own = Sources::one(Arc::clone(&self.snapshot), Arc::new(NoSystemInfo));
        own.with_peers(self.peers.clone(), Vec::new())
    }
}

/// Returns the default rollups, two in random zones with a key limit, and one that lacks levels
/// and measures.
fn cascade(values: &mut Values) -> impl Fn() -> Arc<Cascade> + use<> {
    let (zone, other) = (values.of(&ZONES), values.of(&ZONES));
    let week = values.of(&["sunday", "monday"]);
    let max_keys = values.of(&[3, 9, 100]);
    let config: CascadeConfig = serde_json::from_value(json!({"rollups": {
        "stats": {"stream": "access", "by": ["site", "path"], "measures": {
            "hits": "count", "bytes": "sum(response_size)",
            "size": {"histogram": "response_size", "from": "hour"},
            "visitors": {"distinct": "host", "from": "hour"}}},
        "traffic": {"stream": "access", "by": ["site", "status", "method"], "measures": {
            "hits": "count", "size": {"histogram": "response_size"}}},
        "local": {"stream": "access", "by": ["path", "status"], "timezone": zone, "week": week,
            "max_keys": max_keys, "measures": {"n": "count", "bytes": "sum(response_size)"}},
        "zoned": {"stream": "access", "by": ["host", "method"], "timezone": other, "measures": {
            "n": "count", "least": "min(response_size)", "most": "max(response_size)", "bytes": "sum(response_size)"}},
        "coarse": {"stream": "access", "by": ["host"], "levels": ["hour", "day", "month"], "measures": {
            "n": "count", "least": "min(response_size)", "most": "max(response_size)"}},
    }, "streams": {}}))
    .expect("a configuration");
    move || Arc::new(Cascade::new(config.clone()).expect("rollups"))
}

struct Model {
    fixtures: Vec<Fixture>,
    /// The next sequence number of each store.
    next_seqs: Vec<u64>,
    access: Kept<Event>,
    /// All events that the rollups count.
    ever: Vec<Event>,
    app: Kept<Line>,
}

fn access() -> Name {
    Name::new("access").expect("a name")
}

fn within_a_day(values: &mut Values) -> i64 {
    match values.below(6) {
        // At the edges of buckets.
        0 => values.below(24) as i64 * HOUR_US,
        1 => (1 + values.below(24)) as i64 * HOUR_US - 1,
        2 => values.below(48) as i64 * HOUR_US / 2,
        _ => values.below(DAY_US as usize) as i64,
    }
}

fn event(values: &mut Values, day: usize) -> Event {
    let path = match values.below(10) {
        0 => None,
        1 => Some("/often".to_owned()),
        _ => Some(format!("/p{}", values.below(8))),
    };
    let method = values.of(&[Some("GET"), Some("GET"), Some("POST"), None]);
    Event {
        time: values.start_us + day as i64 * DAY_US + within_a_day(values),
        host: values.of(&["alpha", "beta", "gamma", "delta", "10.0.0.1", "::1"]),
        user: values.of(&[
            None,
            None,
            None,
            Some("frank"),
            Some(""),
            Some("Ærøskøbing"),
            Some("日本語"),
        ]),
        method,
        path,
        query: values.of(&[None, None, Some("a=1")]),
        protocol: values.of(&[None, Some("HTTP/1.1"), Some("HTTP/1.0")]),
        request: if method.is_none() {
            values.of(&[None, Some("garbage")])
        } else {
            None
        },
        status: values.of(&[Some(200), Some(200), Some(304), Some(404), Some(500), None]),
        size: (values.below(4) > 0).then(|| values.below(100_000) as i64),
        referrer: values.of(&[None, Some("http://a.example/")]),
        agent: values.of(&[None, Some("Mozilla/5.0 (X11)"), Some("curl/8")]),
    }
}

fn line(values: &mut Values, day: usize) -> Line {
    Line {
        time: values.start_us + day as i64 * DAY_US + within_a_day(values),
        service: values.of(&["api", "web", "beta"]),
        level: values.of(&[Some("info"), Some("error"), Some("GET"), None]),
        note: values.once_in(2).then(|| format!("/p{}", values.below(9))),
        ms: (values.below(5) > 0).then(|| values.below(4000) as f64 / 8.0),
        ok: values.of(&[Some(true), Some(false), None]),
        n: (values.below(5) > 0).then(|| values.below(600) as i64),
    }
}

fn day_of(at_us: i64) -> i64 {
    at_us.div_euclid(DAY_US) * DAY_US
}

/// Returns the rows of each store.
fn grouped<T>(places: Vec<usize>, rows: Vec<T>) -> BTreeMap<usize, Vec<T>> {
    let mut stores: BTreeMap<usize, Vec<T>> = BTreeMap::new();
    for (store, row) in places.into_iter().zip(rows) {
        stores.entry(store).or_default().push(row);
    }
    stores
}

impl Model {
    /// Returns the place of the next event of a store.
    fn next(&mut self, store: usize) -> Place {
        let seq = self.next_seqs[store];
        self.next_seqs[store] += 1;
        (store, seq)
    }

    fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let stores = self.fixtures.iter();
        stores.map(|fixture| fixture.store.snapshot()).collect()
    }

    /// Returns all stores but the first.
    fn peers(&self) -> Vec<Arc<dyn Peer>> {
        let others = self.fixtures.iter().enumerate().skip(1);
        let peers = others.map(|(nth, fixture)| Arc::new(Near::new(nth, fixture)) as _);
        peers.collect()
    }

    fn write_lines(&mut self, store: usize, some: Vec<Line>) {
        self.fixtures[store].write("app", StreamKind::Documents, lines(&some));
        for line in some {
            let place = self.next(store);
            self.app.push((place, line, false));
        }
    }

    /// Writes events where they belong.
    fn write_events(&mut self, divided: Option<&Divided>, events: Vec<Event>, values: &mut Values) {
        let places = self.places(divided, &batch(&events), values);
        self.ever.extend(events.iter().cloned());
        for (store, events) in grouped(places, events) {
            self.fixtures[store].write("access", StreamKind::Access, batch(&events));
            for event in events {
                let place = self.next(store);
                self.access.push((place, event, false));
            }
        }
    }

    /// Returns the stores of the rows of a batch.
    fn places(
        &self,
        divided: Option<&Divided>,
        batch: &RecordBatch,
        values: &mut Values,
    ) -> Vec<usize> {
        match divided {
            Some(divided) => divided.places(batch, values),
            None => vec![self.any(values); batch.num_rows()],
        }
    }

    fn write_all(&mut self, values: &mut Values) {
        let (events, documents) = (
            ("access", StreamKind::Access),
            ("app", StreamKind::Documents),
        );
        let of_events = Divided::some(events, &KEYS, &self.fixtures, values);
        let of_lines = Divided::some(documents, &KEYS_OF_LINES, &self.fixtures, values);
        let steps = 4 + values.below(7);
        let days = values.days;
        for step in 0..steps {
            let latest = (step * days / steps + 1).min(days);
            // Most events are of the day under way, some are late.
            let day = |values: &mut Values| match values.below(4) {
                0 => values.below(latest),
                _ => latest - 1,
            };
            let events: Vec<Event> = (0..8 + values.below(60))
                .map(|_| {
                    let day = day(values);
                    event(values, day)
                })
                .collect();
            self.write_events(of_events.as_ref(), events, values);
            if values.once_in(2) {
                let some: Vec<Line> = (0..1 + values.below(30))
                    .map(|_| {
                        let day = day(values);
                        line(values, day)
                    })
                    .collect();
                let places = self.places(of_lines.as_ref(), &lines(&some), values);
                for (store, some) in grouped(places, some) {
                    self.write_lines(store, some);
                }
            }
            if values.below(3) > 0 {
                let store = self.any(values);
                self.fixtures[store].store.seal().expect("seals");
            }
            let store = self.any(values);
            self.change(store, values);
        }
        if !values.once_in(5) {
            self.index(values);
        }
        if self.app.is_empty() {
            let some = vec![line(values, 0)];
            self.write_lines(0, some);
        }
    }

    fn any(&self, values: &mut Values) -> usize {
        match self.fixtures.len() {
            1 => 0,
            stores => values.below(stores),
        }
    }

    /// Returns the first and the last time of each day, and some others.
    fn times(&self) -> Vec<i64> {
        let mut days: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for (_, event, _) in &self.access {
            let known = days.entry(day_of(event.time));
            let known = known.or_insert((event.time, event.time));
            *known = (known.0.min(event.time), known.1.max(event.time));
        }
        let edges = days.into_values().flat_map(|(first, last)| [first, last]);
        let some = self.access.iter().step_by(17);
        edges.chain(some.map(|(_, event, _)| event.time)).collect()
    }

    /// Makes indexes of some columns of the sealed events.
    fn index(&self, values: &mut Values) {
        for field in INDEXED {
            if values.once_in(2) {
                let kind = match values.once_in(3) {
                    true => IndexKind::Covering,
                    false => IndexKind::Inverted,
                };
                for Fixture { store, .. } in &self.fixtures {
                    // It refuses a column that has an index of the other kind.
                    let _ = store.create_index(&access(), field, kind);
                }
            }
        }
        for Fixture { store, .. } in &self.fixtures {
            store.build_indexes().expect("builds");
        }
    }

    /// Does upkeep between two batches: compaction, indexes, a partition that is dropped,
    /// detached or attached.
    fn change(&mut self, at: usize, values: &mut Values) {
        let store = &self.fixtures[at].store;
        if !store.snapshot().streams().contains_key(&access()) {
            return;
        }
        let day = values.start_us + values.below(values.days) as i64 * DAY_US;
        let range = (day, day + DAY_US);
        match values.below(14) {
            0 => store.compact_parts(None, true).map(drop).expect("compacts"),
            1 => store.compact_tiles(true).map(drop).expect("compacts"),
            2 => {
                store
                    .drop_partitions(&access(), range, false)
                    .expect("drops");
                self.access
                    .retain(|((of, _), e, _)| *of != at || day_of(e.time) != day);
            }
            3 | 4 => {
                // The store refuses a range of which some is detached already.
                let detached = store.detach_partitions(&access(), range, false);
                if detached.is_ok() {
                    self.mark(at, day, true);
                }
            }
            5 => {
                let attached = store.attach_partitions(&access(), range);
                if attached.is_ok() {
                    self.mark(at, day, false);
                }
            }
            6..9 => {
                let field = values.of(&INDEXED);
                let kind = values.of(&[false, true]);
                let kind = if kind {
                    IndexKind::Covering
                } else {
                    IndexKind::Inverted
                };
                // The store refuses a column that has an index of the other kind.
                let _ = store.create_index(&access(), field, kind);
                store.build_indexes().expect("builds");
            }
            _ => {}
        }
    }

    fn mark(&mut self, at: usize, day: i64, detached: bool) {
        for ((of, _), event, is_detached) in &mut self.access {
            if *of == at && day_of(event.time) == day {
                *is_detached = detached;
            }
        }
    }

    /// Returns the rows in plain tables, in the order and of the types that the store shows them
    /// with.
    async fn oracle(&self, snapshots: &[Arc<Snapshot>]) -> Oracle {
        let of_stores = snapshots.iter();
        let prefixes: Vec<_> = of_stores.map(|s| s.manifest().id_prefix()).collect();
        let id = |(store, seq): &Place| (prefixes[*store], *seq);
        let mut oracle = Oracle::new();
        let live: Vec<(&Place, &Event)> = self
            .access
            .iter()
            .filter(|(_, _, detached)| !detached)
            .map(|(place, event, _)| (place, event))
            .collect();
        let of_events = |f: &Field| column_of_events(f, &|| live.iter().map(|(_, e)| *e));
        let ids: Vec<_> = live.iter().map(|(place, _)| id(place)).collect();
        let shown = self.shown("access").await;
        oracle.add("public", "access", rows(&shown, &ids, &of_events));
        let of_lines = |f: &Field| column_of_lines(f, &|| self.app.iter().map(|(_, l, _)| l));
        let ids: Vec<_> = self.app.iter().map(|(place, ..)| id(place)).collect();
        let shown = self.shown("app").await;
        oracle.add("public", "app", rows(&shown, &ids, &of_lines));
        for (table, width, keys, hits) in LEVELS {
            let (schema, name) = table.split_once('.').expect("of a rollup");
            let shown = self.columns_of(&level_columns(table, keys, hits)).await;
            oracle.add(schema, name, level(&self.ever, shown, *width, keys));
        }
        oracle
    }

    async fn shown(&self, stream: &str) -> SchemaRef {
        self.columns_of(&format!("SELECT *, _seq FROM {stream} LIMIT 0"))
            .await
    }

    async fn columns_of(&self, sql: &str) -> SchemaRef {
        let own = Sources::one(self.snapshots().remove(0), Arc::new(NoSystemInfo));
        let sources = own.with_peers(self.peers(), Vec::new());
        let (session, none) = (Session::default(), Parameters::None);
        let engine = &self.fixtures[0].engine;
        let answer = engine.ask(sources, &session, sql.into(), none).await;
        answer.unwrap_or_else(|e| panic!("{sql}: {e}")).schema
    }
}
