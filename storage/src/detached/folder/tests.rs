//! A folder is read elsewhere as a whole, in order and with the old `_id`s, or not at all.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::concern::WriteConcern;
use crate::env::RealFs;
use crate::store::{Options, Store};
use crate::testing::batch;

const DAY_US: i64 = 86_400_000_000;

/// Makes a store that has detached its first day, of two parts; returns it and the folder.
fn detached() -> (tempfile::TempDir, Store, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Options::default()).expect("opens");
    for times in [[5, 3, DAY_US, 4], [1, 2, DAY_US, 7]] {
        let ack = store.write(batch(&times, &[], None), WriteConcern::ACKNOWLEDGED);
        ack.expect("taken");
        store.seal().expect("seals");
    }
    let events = Name::new("events").expect("a name");
    let did = store.detach_partitions(&events, (0, DAY_US), false);
    assert_eq!(did.expect("detaches").events, 6);
    let folder = dir.path().join("detached/events/date=1970-01-01");
    (dir, store, folder)
}

fn open(folder: &Path) -> Result<DetachedFolder> {
    DetachedFolder::open(Arc::new(RealFs), folder)
}

#[test]
fn events_come_in_the_order_of_their_numbers_with_the_ids_they_had() {
    let (_dir, store, folder) = detached();
    let folder = open(&folder).expect("opens");
    let snapshot = store.snapshot();
    assert_eq!(folder.store_id(), snapshot.manifest().store_id);
    assert_eq!(folder.partition(), "date=1970-01-01");
    let prefix = snapshot.manifest().id_prefix();
    let (mut times, mut ids) = (Vec::new(), Vec::new());
    for nth in 0..folder.parts().len() {
        let events = folder.events(nth).expect("reads");
        assert!(events.column_by_name(SEQ).is_none());
        let column: &arrow::array::Int64Array = column(&events, "n");
        times.extend_from_slice(column.values());
        let of_part = events[ID].as_string::<i32>();
        ids.extend(of_part.iter().map(|id| id.expect("an id").to_owned()));
    }
    assert_eq!(times, [5, 3, 4, 1, 2, 7]);
    let wanted = [0, 1, 3, 4, 5, 7].map(|seq| object_id(prefix, seq));
    let wanted = wanted.map(|id| String::from_utf8_lossy(&id).into_owned());
    assert_eq!(ids, wanted);
}

#[test]
fn a_folder_of_which_anything_is_amiss_is_refused() {
    let (dir, _store, folder) = detached();
    let refused = |words: &str| match open(&folder) {
        Err(Error::Invalid { what }) => assert!(what.contains(words), "{what}"),
        other => panic!("{other:?}"),
    };
    let nowhere = open(dir.path()).expect_err("no card").to_string();
    assert!(
        nowhere.contains("give the folder of a detached partition"),
        "{nowhere}"
    );
    for name in std::fs::read_dir(&folder).expect("listed") {
        let path = name.expect("listed").path();
        let whole = std::fs::read(&path).expect("read");
        let links = std::fs::metadata(&path).expect("there").nlink();
        assert_eq!(links, 1, "nothing else is changed with it");
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        std::fs::write(&path, &damaged).expect("written");
        refused("copy the folder again");
        std::fs::remove_file(&path).expect("removed");
        refused("the file is missing");
        std::fs::write(&path, &whole).expect("written");
        open(&folder).expect("whole again");
    }
}

/// Changes a folder's card and gives it a valid checksum.
fn rewrite(folder: &Path, change: impl FnOnce(&mut Card)) {
    let path = folder.join(FILE);
    let bytes = std::fs::read(&path).expect("read");
    let mut card = Card::decode(&path, &bytes).expect("a card");
    change(&mut card);
    std::fs::write(&path, card.encode()).expect("written");
}

#[test]
fn a_card_that_says_what_is_not_so_is_refused_whatever_its_checksum() {
    let (dir, _store, folder) = detached();
    let whole = std::fs::read(folder.join(FILE)).expect("read");
    let refused = |words: &str, change: &dyn Fn(&mut Vec<PartMeta>)| {
        rewrite(&folder, |card| change(&mut card.parts));
        match open(&folder) {
            Err(Error::Invalid { what }) => assert!(what.contains(words), "{what}"),
            other => panic!("{words}: {other:?}"),
        }
        std::fs::write(folder.join(FILE), &whole).expect("written");
    };
    let elsewhere = "lies outside the folder";
    let outside = dir.path().join("outside.parquet").display().to_string();
    let part = folder.join(&open(&folder).expect("whole").card.parts[0].file.path);
    std::fs::copy(part, &outside).expect("copied");
    for name in ["../../../outside.parquet", &outside, "..", ".", "", "a/b"] {
        refused(elsewhere, &|parts| parts[0].file.path = name.into());
    }
    refused(elsewhere, &|parts| parts[1] = parts[0].clone());
    refused("the manifest says 4", &|parts| parts[0].rows += 1);
    refused("the manifest says 2", &|parts| parts[1].rows -= 1);
    refused("sequence (0, 3)", &|parts| parts[0].seq = (0, 9));
    open(&folder).expect("whole again");
}

#[test]
fn a_file_that_is_no_part_is_refused() {
    let (_dir, _store, folder) = detached();
    let ids = StringArray::from(vec!["a"]);
    let batch = RecordBatch::try_from_iter([(SEQ, Arc::new(ids) as ArrayRef)]).expect("a batch");
    let mut bytes = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a file");
    writer.write(&batch).expect("written");
    writer.close().expect("whole");
    rewrite(&folder, |card| {
        let file = &mut card.parts[0].file;
        file.len = bytes.len() as u64;
        file.crc = crc32c::crc32c(&bytes);
        std::fs::write(folder.join(&file.path), &bytes).expect("written");
    });
    let refused = open(&folder).expect_err("no part").to_string();
    assert!(
        refused.contains("column time or _seq is missing"),
        "{refused}"
    );
}
