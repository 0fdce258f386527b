//! The catalog of one gateway; `shards/tests.rs` has those of several, with faults.

use std::sync::Arc;

use super::*;

/// A place that another server changes between reading and replacing.
#[derive(Debug, Default)]
struct SharedPlace(Mutex<Option<String>>);

impl CatalogPlace for Arc<SharedPlace> {
    fn load(&self) -> Result<Option<(String, String)>, String> {
        let text = self.0.lock().clone();
        Ok(text.map(|text| (text.clone(), text)))
    }

    fn is_near(&self) -> bool {
        true
    }

    fn replace(&self, expected: Option<&str>, text: &str) -> Result<Replaced, String> {
        let mut known = self.0.lock();
        if known.as_deref() != expected {
            return Ok(Replaced::Other);
        }
        *known = Some(text.to_owned());
        Ok(Replaced::Done(text.to_owned()))
    }
}

fn batch(stream: &str, kind: StreamKind) -> Batch {
    let columns = storage::Config::first_columns(kind);
    Batch {
        stream: Name::new(stream).expect("a name"),
        kind,
        received_us: 0,
        source: "test".into(),
        events: arrow::array::RecordBatch::new_empty(storage::arrow_schema(&columns)),
        quarantine: Vec::new(),
        identity: None,
    }
}

fn catalog(place: &Arc<SharedPlace>, shards: u16, config: &str) -> SharedCatalog {
    let config: Config = toml::from_str(config).expect("a configuration");
    SharedCatalog::new(Box::new(Arc::clone(place)), shards, &config)
}

#[test]
fn a_stream_keeps_its_first_key_and_the_order_of_streams_is_one() {
    let place = Arc::default();
    let one = catalog(&place, 3, "[stream.b]\nshard_key = \"host\"\n");
    let other = catalog(&place, 3, "[stream.b]\nshard_key = \"path\"\n");
    let key = |catalog: &SharedCatalog, stream: &str, kind| {
        let agreed = catalog.agree(&mut batch(stream, kind)).expect("agreed");
        agreed.shard_key.to_string()
    };
    assert_eq!(key(&one, "a", StreamKind::Documents), "batch");
    assert_eq!(key(&other, "c", StreamKind::Access), "site, path");
    assert_eq!(key(&one, "b", StreamKind::Access), "host");
    assert_eq!(key(&other, "b", StreamKind::Access), "host");
    for catalog in [one, other] {
        let name = Name::new("b").expect("a name");
        let streams = catalog.streams_to(&name).expect("known");
        let names: Vec<&str> = streams.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "b"]);
    }
}

#[test]
fn a_server_with_another_number_of_shards_takes_nothing() {
    let place = Arc::default();
    let right = catalog(&place, 3, "");
    right
        .agree(&mut batch("a", StreamKind::Documents))
        .expect("agreed");
    let wrong = catalog(&place, 4, "");
    let refused = wrong.agree(&mut batch("a", StreamKind::Documents));
    let refused = refused.expect_err("four shards").to_string();
    assert!(refused.contains("3 shards"), "{refused}");
    assert!(refused.contains("is 4"), "{refused}");
}
