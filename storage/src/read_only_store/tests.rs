//! Tests of readers where nothing can be written.

use std::io::ErrorKind;

use super::*;
use crate::concern::WriteConcern;
use crate::env::RealFs;
use crate::store::{Options, Store};
use crate::testing::{FaultFs, Op, batch};

#[test]
fn a_reader_that_cannot_register_itself_reads_all_the_same() {
    for error in [
        ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded,
        ErrorKind::ReadOnlyFilesystem,
        ErrorKind::PermissionDenied,
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path(), Options::default()).expect("opens");
        let ack = store.write(batch(&[1, 2], &[], None), WriteConcern::JOURNALED);
        ack.expect("taken");
        let fs = FaultFs::default();
        fs.fail(Op::Write, "readers", error, usize::MAX);
        let reader = ReadOnlyStore::open(Arc::new(fs), dir.path()).expect("opens");
        assert!(!reader.is_registered(), "{error:?}");
        assert_eq!(reader.snapshot().chunks("events").len(), 1);
        let left = RealFs.list(&dir.path().join("readers")).expect("listed");
        assert_eq!(left, Vec::<String>::new(), "{error:?}");
        let beside = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
        assert!(beside.is_registered());
        drop(store);
    }
}

#[test]
fn another_error_of_the_disk_is_no_reason_to_read_without_being_registered() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(Store::open(dir.path(), Options::default()).expect("opens"));
    let fs = FaultFs::default();
    fs.fail(Op::Write, "readers", ErrorKind::Other, 1);
    let refused = ReadOnlyStore::open(Arc::new(fs), dir.path()).map(|_| ());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
}
