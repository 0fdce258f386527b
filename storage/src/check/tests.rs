//! Damage to any file of the manifest is found, and the report names the file.

use std::sync::Arc;

use super::check_stream;
use crate::check;
use crate::concern::WriteConcern;
use crate::env::RealFs;
use crate::model::Identity;
use crate::read_only_store::ReadOnlyStore;
use crate::store::{Options, Store};
use crate::testing::batch;

#[test]
fn a_sound_store_is_sound_and_every_damaged_file_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Options::default()).expect("opens");
    let identity = Identity::Key {
        key: "events\0k".into(),
        body_hash: 1,
    };
    store
        .write(
            batch(&[1, 2, 3], &[1], Some(identity)),
            WriteConcern::ACKNOWLEDGED,
        )
        .expect("taken");
    store.close().expect("closes");
    let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
    let snapshot = reader.snapshot();
    let sound = check(&snapshot);
    assert_eq!((sound.events, sound.damage.len()), (4, 0));
    let files: Vec<_> = snapshot
        .manifest()
        .files()
        .map(|f| f.path.clone())
        .collect();
    assert_eq!(files.len(), 3, "two parts and the identities");
    for path in files {
        let full = dir.path().join(&path);
        let whole = std::fs::read(&full).expect("read");
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&full, &damaged).expect("written");
            let report = check(&snapshot);
            assert_eq!(report.damage.len(), 1, "{path} at {at}");
            assert_eq!(report.damage[0].0, full);
            // Each part is of one stream, and the identities are of none.
            let damaged = snapshot.streams().keys().filter(|stream| {
                let (events, damage) = check_stream(&snapshot, stream);
                assert_eq!(events == 0, !damage.is_empty(), "{path} at {at}");
                !damage.is_empty()
            });
            assert_eq!(damaged.count(), usize::from(path.ends_with(".parquet")));
        }
        std::fs::write(&full, &whole[..whole.len() - 1]).expect("written");
        assert_eq!(check(&snapshot).damage.len(), 1, "{path} cut");
        std::fs::write(&full, &whole).expect("written");
    }
}
