use std::path::Path;
use std::sync::Arc;

use object_store::memory::InMemory;

use super::current::{Current, ManifestBody};
use super::mark::{AttachStage, Mark};
use super::{Adoption, writer_address};
use crate::depot::{Depot, S3Depot};
use crate::env::{Fs, ManualClock, RealFs};
use crate::error::Error;
use crate::sim::SimFs;
use crate::store::{Config, Options, Store};
use crate::testing::batch;
use crate::{WriteConcern, backup, repair};

fn current() -> Current {
    let body = ManifestBody::of(7, "0123", b"a manifest");
    let ids = (
        "00000000000000000000000000000123",
        "00000000000000000000000000000456",
    );
    Current::new(
        (7, 3),
        ids,
        ("00000000000000000000000000000789", "web1"),
        body,
    )
}

#[test]
fn current_comes_back_and_no_changed_byte_is_taken() {
    let (current, bytes) = (current(), current().encode());
    assert_eq!(Current::decode(&bytes), Ok(current.clone()));
    assert!(!current.is_claim());
    for at in 0..bytes.len() - 1 {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        let read = Current::decode(&changed);
        // Hexadecimal digits of the checksum have two cases.
        assert!(read.is_err() || read == Ok(current.clone()), "byte {at}");
    }
    for len in 0..bytes.len() - 1 {
        assert!(Current::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_later_format_of_current_is_named() {
    let bytes = current().encode();
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    let (_, json) = text.split_once('\n').expect("two lines");
    let json = json.trim_end().replace("\"format\":1", "\"format\":2");
    let crc = crc32c::crc32c(json.as_bytes());
    let told = Current::decode(format!("logmill current {crc:08x}\n{json}\n").as_bytes());
    let told = told.expect_err("it is of a later format");
    assert!(
        told.contains("format 2") && told.contains("newer logmill"),
        "{told}"
    );
}

#[test]
fn a_mark_comes_back_and_a_damaged_one_is_an_error() {
    let (fs, data) = (SimFs::new(), Path::new("/data"));
    fs.create_dir_all(data).expect("made");
    assert_eq!(Mark::read(&fs, data).expect("read"), None);
    for stage in [
        AttachStage::Attaching,
        AttachStage::Attached,
        AttachStage::Adopting,
    ] {
        let mark = Mark {
            id: "00000000000000000000000000000123".into(),
            stage,
            url: "s3://logs/a prefix".into(),
        };
        mark.keep(&fs, data).expect("kept");
        assert_eq!(Mark::read(&fs, data).expect("read"), Some(mark));
    }
    let path = data.join("OBJECTS");
    let bytes = fs.read(&path).expect("read");
    for (at, byte) in bytes.iter().enumerate() {
        let file = fs.open(&path).expect("opened");
        file.write_all_at(&[byte ^ 1], at as u64).expect("written");
        let read = Mark::read(&fs, data);
        assert!(
            matches!(read, Err(Error::Corrupt { .. })),
            "byte {at}: {read:?}"
        );
        file.write_all_at(&[*byte], at as u64).expect("written");
    }
}

/// A store whose files may be elsewhere must not be written, saved or repaired as a whole one.
#[test]
fn a_marked_directory_is_refused_without_its_object_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let store = Store::open(&data, Options::default()).expect("opens");
    store
        .write(batch(&[1], &[], None), WriteConcern::JOURNALED)
        .expect("taken");
    store.close().expect("closes");
    let mark = Mark {
        id: "00000000000000000000000000000123".into(),
        stage: AttachStage::Attached,
        url: "s3://logs/store".into(),
    };
    mark.keep(&RealFs, &data).expect("kept");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let to = dir.path().join("copy");
    let refused = [
        Store::open(&data, Options::default()).map(|_| ()),
        repair(&data, &Options::default()).map(|_| ()),
        backup(&fs, &ManualClock::at(0), &data, &to).map(|_| ()),
    ];
    for told in refused {
        let told = told.expect_err("it is refused").to_string();
        assert!(told.contains("s3://logs/store"), "{told}");
    }
    assert!(!to.exists());
    assert!(crate::ReadOnlyStore::open(fs, &data).is_ok());
}

#[test]
fn the_writer_that_committed_last_is_found_with_its_address() {
    let (store, prefix) = (
        Arc::new(InMemory::new()),
        object_store::path::Path::from("s"),
    );
    let depot = S3Depot::over(store, "s3://bucket/s", prefix, None).expect("opens");
    let depot: Arc<dyn Depot> = Arc::new(depot);
    let open = |address: &str| {
        let options = Options {
            fs: Arc::new(SimFs::new()),
            depot: Some(Arc::clone(&depot)),
            config: Config {
                adoption: Adoption::Any,
                address: Some(address.to_owned()),
                ..Config::default()
            },
            ..Options::default()
        };
        Store::open(Path::new("/data"), options).expect("opens")
    };
    let address = || writer_address(&*depot).expect("read");
    assert_eq!(address(), None);
    drop(open("http://a:7100"));
    assert_eq!(address().as_deref(), Some("http://a:7100"));
    let second = open("http://b:7100");
    assert_eq!(address().as_deref(), Some("http://b:7100"));
    let batch = batch(&[1, 2], &[], None);
    second
        .write(batch, WriteConcern::ACKNOWLEDGED)
        .expect("stored");
    second.seal().expect("sealed");
    assert_eq!(address().as_deref(), Some("http://b:7100"));
}
