//! Maintenance of a store without writes.

use std::path::Path;

use super::*;
use crate::concern::WriteConcern;
use crate::env::{Fs, ManualClock};
use crate::model::Name;
use crate::sim::SimFs;
use crate::store::{Config, Options, Store};
use crate::testing::batch;

#[test]
fn space_comes_back_once_the_last_reader_has_gone_and_nothing_is_written() {
    let fs = SimFs::new();
    let options = Options {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(0)),
        config: Config {
            tends: false,
            lag_us: 1 << 50,
            ..Config::default()
        },
        ..Options::default()
    };
    let store = Store::open(Path::new("/data"), options).expect("opens");
    let written = store.write(batch(&[1, 2], &[], None), WriteConcern::ACKNOWLEDGED);
    written.expect("taken");
    store.seal().expect("seals");
    let reader = store.snapshot();
    let part = Path::new("/data").join(&reader.manifest().parts[0].file.path);
    let stream = Name::new("events").expect("a name");
    let dropped = store.drop_partitions(&stream, (0, i64::MAX), false);
    assert_eq!(dropped.expect("drops").events, 2);
    let look = || run_once(&store.shared, &mut Quiet::default(), &mut Trust::default());
    look().expect("tends");
    assert!(fs.exists(&part), "it is read");
    drop(reader);
    look().expect("tends");
    assert!(!fs.exists(&part), "nobody reads it any more");
}
