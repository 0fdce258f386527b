//! Tests of the rollups that streams get, and of the tiles that a seal writes.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::testing::{TestRandom, batch, events};
use serde_json::json;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn cascade_of(config: Value) -> Cascade {
    Cascade::new(serde_json::from_value(config).expect("a configuration")).expect("a cascade")
}

/// Adds the rollups that the stream is to get to `existing`, and returns their names.
fn create(
    cascade: &Cascade,
    stream: &str,
    kind: StreamKind,
    existing: &mut Vec<RollupMeta>,
) -> Vec<String> {
    let new = cascade
        .rollups_for(&name(stream), kind, existing)
        .expect("rollups");
    let names = new.iter().map(|r| r.name.to_string()).collect();
    for new in new {
        let NewRollup {
            name,
            definition,
            levels,
            ..
        } = new;
        let id = existing.len() as u32 + 1;
        let stream = Name::new(stream).expect("a name");
        existing.push(RollupMeta {
            id,
            name,
            stream,
            definition,
            levels,
            first_seq: 1,
            created_us: 0,
            floors: BTreeMap::new(),
            history: None,
            zone_data: None,
        });
    }
    names
}

#[test]
fn streams_get_their_defaults_once() {
    let cascade = cascade_of(json!({}));
    let mut existing = Vec::new();
    assert_eq!(
        create(&cascade, "notes", StreamKind::Documents, &mut existing),
        ["notes_traffic"]
    );
    assert_eq!(
        create(&cascade, "events", StreamKind::Access, &mut existing),
        ["stats", "traffic"]
    );
    assert_eq!(
        create(&cascade, "web", StreamKind::Access, &mut existing),
        ["web_stats", "web_traffic"]
    );
    assert_eq!(
        create(
            &cascade,
            "_quarantine",
            StreamKind::Quarantine,
            &mut existing
        ),
        [""; 0]
    );
    for stream in ["events", "web"] {
        assert_eq!(
            create(&cascade, stream, StreamKind::Access, &mut existing),
            [""; 0]
        );
    }
}

#[test]
fn a_stream_may_do_without_or_define_its_own() {
    let cascade = cascade_of(json!({
        "streams": { "quiet": [] },
        "rollups": { "pages": { "stream": "events", "by": ["path"], "measures": { "hits": "count" } } },
    }));
    let mut existing = Vec::new();
    assert_eq!(
        create(&cascade, "quiet", StreamKind::Access, &mut existing),
        [""; 0]
    );
    assert_eq!(
        create(&cascade, "events", StreamKind::Access, &mut existing),
        ["pages"]
    );
    assert_eq!(
        create(&cascade, "web", StreamKind::Access, &mut existing),
        ["stats", "traffic"]
    );
}

#[test]
fn a_name_that_the_configuration_gives_away_is_not_a_default() {
    let cascade = cascade_of(json!({
        "rollups": { "stats": { "stream": "later", "measures": { "hits": "count" } } },
    }));
    assert_eq!(
        create(&cascade, "events", StreamKind::Access, &mut Vec::new()),
        ["events_stats", "events_traffic"]
    );
}

#[test]
fn a_changed_definition_is_an_error_that_says_what_differs() {
    let table = |by: &str, zone: &str| json!({ "rollups": { "pages": { "stream": "events", "by": [by], "timezone": zone, "measures": { "hits": "count" } } } });
    let mut existing = Vec::new();
    create(
        &cascade_of(table("path", "UTC")),
        "events",
        StreamKind::Access,
        &mut existing,
    );
    let same = cascade_of(table("path", "UTC")).rollups_for(
        &name("events"),
        StreamKind::Access,
        &existing,
    );
    assert_eq!(same.expect("nothing new"), []);
    let changed = cascade_of(table("host", "Asia/Kolkata")).rollups_for(
        &name("events"),
        StreamKind::Access,
        &existing,
    );
    let error = changed.expect_err("a difference").to_string();
    for part in [
        "pages",
        "\"path\"",
        "\"host\"",
        "Asia/Kolkata",
        "another name",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("week is"), "{error}");
}

#[test]
fn a_rollup_from_before_the_limit_goes_on_without() {
    let pages = |limit: Option<u64>| {
        let mut table = json!({ "stream": "events", "by": ["path"], "levels": ["hour"], "measures": { "hits": "count" } });
        if let Some(limit) = limit {
            table["max_keys"] = limit.into();
        }
        cascade_of(json!({ "rollups": { "pages": table } }))
    };
    let kind = StreamKind::Access;
    let mut existing = Vec::new();
    create(&pages(None), "events", kind, &mut existing);
    let limited = existing.clone();
    // The form in which it was stored before there was a key limit.
    let form = &mut existing[0].definition;
    form["version"] = json!(1);
    form["levels"] = json!(["hour"]);
    form.as_object_mut().expect("a form").remove("max_keys");
    let rollups_for = |limit, existing: &[RollupMeta]| {
        let rollups = pages(limit).rollups_for(&name("events"), kind, existing);
        rollups.map_err(|e| e.to_string())
    };
    assert_eq!(rollups_for(None, &existing).expect("nothing new"), []);
    let error = rollups_for(Some(9), &existing).expect_err("a difference");
    assert!(
        error.contains("max_keys is null in the store and 9 in the configuration"),
        "{error}"
    );
    assert_eq!(rollups_for(None, &limited).expect("nothing new"), []);
    assert_eq!(rollups_for(Some(100_000), &limited).expect("the same"), []);
    let error = rollups_for(Some(9), &limited).expect_err("a difference");
    assert!(
        error.contains("max_keys is 100000 in the store and 9 in the configuration"),
        "{error}"
    );
}

#[test]
fn a_wrong_configuration_is_refused_at_once() {
    for config in [
        json!({ "rollups": { "Pages": { "stream": "events", "measures": { "hits": "count" } } } }),
        json!({ "rollups": { "pages": { "stream": "events", "measures": { "hits": "counts" } } } }),
        json!({ "streams": { "events": ["pages"] } }),
    ] {
        let config = serde_json::from_value(config).expect("a configuration");
        assert!(Cascade::new(config).is_err());
    }
    assert!(serde_json::from_value::<CascadeConfig>(json!({ "rollup": {} })).is_err());
}

fn nothing_sealed() -> Arc<Snapshot> {
    let options = storage::Options {
        fs: Arc::new(storage::sim::SimFs::new()),
        ..storage::Options::default()
    };
    let store = storage::Store::open(Path::new("/data"), options);
    store.expect("opens").snapshot()
}

#[test]
fn a_seal_makes_one_tile_for_each_rollup() {
    let cascade = cascade_of(json!({}));
    let mut existing = Vec::new();
    create(&cascade, "events", StreamKind::Access, &mut existing);
    let events = batch(&events(&mut TestRandom(4), 700, 2, 5, 50));
    let metas: Vec<&RollupMeta> = existing.iter().rev().collect();
    let tiles = cascade
        .tiles(&metas, &[events], &nothing_sealed())
        .expect("tiles");
    assert_eq!(
        tiles.iter().map(|t| t.events).collect::<Vec<_>>(),
        [700, 700]
    );
    for (meta, tile) in metas.iter().zip(tiles) {
        let definition = Definition::from_meta(meta).expect("a definition");
        let file = TileFile::open(definition.into(), tile.bytes.into()).expect("a tile");
        tile.sections
            .iter()
            .for_each(|s| file.check(s).expect("whole"));
    }
    let empty = cascade
        .tiles(&metas, &[], &nothing_sealed())
        .expect("tiles");
    assert!(
        empty
            .iter()
            .all(|t| t.bytes.is_empty() && t.sections.is_empty() && t.events == 0)
    );
}
