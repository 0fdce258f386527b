//! Processes that use a store on a simulated disk one after another, and its files between them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::concern::WriteConcern;
use crate::env::{Fs, ManualClock};
use crate::manifest::{self, Manifest};
use crate::model::{Ack, Batch, Identity, Name};
use crate::sim::SimFs;
use crate::store::{Config, Options, Store};
use crate::testing::{RECEIVED_US, batch};

pub(crate) const DATA: &str = "/data";
/// Fixed id: stores created here are the same each time.
pub(crate) const STORE: &str = "0123456789abcdef0123456789abcdef";

/// Returns options of a store that does no work on its own.
pub(crate) fn options(fs: &SimFs) -> Options {
    Options {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(RECEIVED_US)),
        config: Config {
            lag_us: 1 << 50,
            memtable_bytes_max: 1 << 30,
            sync_interval_ms: 3_600_000,
            tends: false,
            keeps_log: false,
            ..Config::default()
        },
        ..Options::default()
    }
}

/// The files of a store that no process has open, by their paths below [`DATA`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    /// Returns the files that the next process finds when the one that uses `fs` is killed.
    pub(crate) fn left_by(fs: &SimFs) -> Self {
        let mut files = Self::default();
        files.add(&fs.kill(), Path::new(DATA));
        files
    }

    fn add(&mut self, fs: &SimFs, directory: &Path) {
        for name in fs.list(directory).expect("a directory") {
            let path = directory.join(name);
            match fs.read(&path) {
                Ok(bytes) => {
                    let below = path.strip_prefix(DATA).expect("it lies there");
                    self.0.insert(below.into(), bytes);
                }
                Err(e) if e.kind() == ErrorKind::IsADirectory => self.add(fs, &path),
                Err(e) => panic!("{}: {e}", path.display()),
            }
        }
    }

    /// Returns a disk with a copy of the files.
    pub(crate) fn disk(&self) -> SimFs {
        let fs = SimFs::new();
        for (path, bytes) in &self.0 {
            let path = Path::new(DATA).join(path);
            let directory = path.parent().expect("it lies in a directory");
            fs.create_dir_all(directory).expect("created");
            let file = fs.create_new(&path).expect("created");
            file.write_all_at(bytes, 0).expect("written");
        }
        fs
    }

    /// Returns the paths in a folder, sorted.
    pub(crate) fn below(&self, folder: &str) -> Vec<PathBuf> {
        let inside = self.0.keys().filter(|path| path.starts_with(folder));
        inside.cloned().collect()
    }
}

/// A batch that was sent, with its acknowledgement.
pub(crate) struct Sent {
    pub(crate) batch: Batch,
    pub(crate) ack: Ack,
}

/// A store in use, with all batches sent to it.
pub(crate) struct Life {
    pub(crate) fs: SimFs,
    pub(crate) store: Option<Store>,
    pub(crate) sent: Vec<Sent>,
    events: i64,
    producer_at: u64,
}

impl Life {
    /// Creates a store with this id.
    pub(crate) fn of(store_id: &str) -> Self {
        let fs = SimFs::new();
        let data = Path::new(DATA);
        fs.create_dir_all(&data.join(manifest::DIR))
            .expect("created");
        let created_s = (RECEIVED_US / 1_000_000) as u32;
        let new = Manifest::new(store_id.to_owned(), created_s);
        manifest::commit(&fs, data, None, new).expect("committed");
        let mut life = Self {
            fs,
            store: None,
            sent: Vec::new(),
            events: 0,
            producer_at: 0,
        };
        life.open();
        life
    }

    pub(crate) fn open(&mut self) {
        self.store = Some(Store::open(Path::new(DATA), options(&self.fs)).expect("opens"));
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    /// Returns the next batch of a stream: each event has a time of its own.
    pub(crate) fn next(
        &mut self,
        stream: &str,
        events: i64,
        bad: &[u32],
        identity: Option<Identity>,
    ) -> Batch {
        let times: Vec<i64> = (self.events..self.events + events).collect();
        self.events += events;
        Batch {
            stream: Name::new(stream).expect("a name"),
            ..batch(&times, bad, identity)
        }
    }

    pub(crate) fn range(&mut self, len: u64) -> Option<Identity> {
        let from = self.producer_at;
        self.producer_at += len;
        Some(Identity::Range {
            producer: "file".into(),
            from,
            to: self.producer_at,
            content: from,
        })
    }

    /// Writes one batch, or several of which all but the first go into one group: the first
    /// creates its stream, and the others queue while the manifest's write is held.
    pub(crate) fn write(&mut self, batches: Vec<Batch>, concern: WriteConcern) {
        let (send, receive) = crossbeam_channel::unbounded();
        if batches.len() > 1 {
            self.fs.hold_writes("manifest");
        }
        for (i, batch) in batches.iter().enumerate() {
            let send = send.clone();
            let reply = move |answer| send.send((i, answer)).expect("somebody waits");
            self.store()
                .submit(batch.clone(), concern, reply)
                .expect("taken");
            while i == 0 && batches.len() > 1 && !self.fs.is_held() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        self.fs.release();
        let mut answers: Vec<_> = batches
            .iter()
            .map(|_| receive.recv().expect("answered"))
            .collect();
        answers.sort_by_key(|(i, _)| *i);
        for (batch, (_, answer)) in batches.into_iter().zip(answers) {
            let ack = answer.expect("acknowledged");
            self.sent.push(Sent { batch, ack });
        }
    }

    /// Writes batches of all kinds; ends with `tail` groups after the last sync.
    pub(crate) fn live(&mut self, name: &str, tail: usize) {
        let (w, j) = (WriteConcern::ACKNOWLEDGED, WriteConcern::JOURNALED);
        let key = |n| {
            Some(Identity::Key {
                key: format!("events\0{name}{n}"),
                body_hash: n,
            })
        };
        let range = self.range(62);
        let first = self.next("events", 60, &[3, 7], range);
        self.write(vec![first], w);
        let keyed = self.next("other", 120, &[], key(1));
        self.write(vec![keyed], j);
        let empty = self.range(5);
        let empty = self.next("events", 0, &[], empty);
        self.write(vec![empty], w);
        let burst = vec![
            self.next(name, 40, &[0], None),
            self.next("other", 150, &[], None),
            self.next("events", 30, &[5, 6], key(2)),
            self.next("events", 0, &[0, 1], None),
        ];
        self.write(burst, j);
        for n in 0..tail as u64 {
            let identity = if n % 2 == 0 {
                self.range(50)
            } else {
                key(10 + n)
            };
            let batch = self.next("events", 50 * (n as i64 + 1), &[n as u32], identity);
            self.write(vec![batch], w);
        }
    }

    /// Kills the process and prepares the disk for the next one.
    pub(crate) fn killed(&mut self) -> Files {
        let files = Files::left_by(&self.fs);
        self.store = None;
        self.fs = files.disk();
        files
    }
}
