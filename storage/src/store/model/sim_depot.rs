//! An object store in memory whose calls come late, twice, without an answer, or with a wrong one.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::depot::{Content, Depot, Swap, Tag};
use crate::sim::Random;

/// A call that changes something.
#[derive(Debug, Clone)]
enum Effect {
    Put(String, Bytes),
    Delete(Vec<String>),
    Swap(Option<Tag>, Bytes),
}

#[derive(Debug)]
struct Bucket {
    objects: BTreeMap<String, Bytes>,
    current: Option<(Bytes, Tag)>,
    tags: u64,
    /// Calls that have not arrived yet.
    late: Vec<Effect>,
    random: Random,
    /// One of so many calls goes wrong; 0 for none.
    one_in: u64,
}

impl Bucket {
    fn is(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    fn apply(&mut self, effect: &Effect) -> Option<Swap> {
        match effect {
            Effect::Put(name, bytes) => {
                self.objects.insert(name.clone(), bytes.clone());
                None
            }
            Effect::Delete(names) => {
                self.objects.retain(|name, _| !names.contains(name));
                None
            }
            Effect::Swap(expected, content) => {
                if self.current.as_ref().map(|(_, tag)| tag) != expected.as_ref() {
                    return Some(Swap::Refused);
                }
                self.tags += 1;
                let tag = Tag(self.tags.to_string());
                self.current = Some((content.clone(), tag.clone()));
                Some(Swap::Done(tag))
            }
        }
    }

    /// Lets some late calls arrive, in any order.
    fn arrive(&mut self, at_most: u64) {
        for _ in 0..at_most {
            if !self.late.is_empty() {
                let which = self.random.below(self.late.len() as u64) as usize;
                let effect = self.late.swap_remove(which);
                self.apply(&effect);
            }
        }
    }

    /// Makes a call that changes something, or not.
    fn call(&mut self, effect: &Effect) -> io::Result<Option<Swap>> {
        if self.is(4) {
            self.arrive(1);
        }
        if !self.is(self.one_in) {
            return Ok(self.apply(effect));
        }
        let timeout = || Err(io::Error::from(ErrorKind::TimedOut));
        match self.random.below(5) {
            // It is lost.
            0 => timeout(),
            // It comes later.
            1 => {
                self.late.push(effect.clone());
                timeout()
            }
            // Its answer is lost.
            2 => {
                self.apply(effect);
                timeout()
            }
            // It arrives twice; a second swap is refused, and that is the answer.
            3 => {
                let first = self.apply(effect);
                let again = self.apply(effect);
                Ok(first.and(again))
            }
            // It arrives now and later.
            _ => {
                self.late.push(effect.clone());
                Ok(self.apply(effect))
            }
        }
    }

    fn read<T>(&mut self, what: impl FnOnce(&Self) -> T) -> io::Result<T> {
        match self.is(self.one_in) {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(what(self)),
        }
    }
}

/// The object store as one process reaches it.
#[derive(Debug, Clone)]
pub(super) struct SimDepot {
    bucket: Arc<Mutex<Bucket>>,
    /// False once the process has been killed.
    lives: Arc<AtomicBool>,
}

impl SimDepot {
    /// Returns an empty object store; one of `one_in` calls goes wrong.
    pub(super) fn new(seed: u64, one_in: u64) -> Self {
        let bucket = Bucket {
            objects: BTreeMap::new(),
            current: None,
            tags: 0,
            late: Vec::new(),
            random: Random::new(seed),
            one_in,
        };
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
            lives: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Returns it as another process reaches it.
    pub(super) fn for_process(&self) -> Self {
        Self {
            bucket: Arc::clone(&self.bucket),
            lives: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Returns a copy of everything that is there.
    pub(super) fn copy(&self) -> Self {
        let bucket = self.bucket.lock();
        let bucket = Bucket {
            objects: bucket.objects.clone(),
            current: bucket.current.clone(),
            tags: bucket.tags,
            late: bucket.late.clone(),
            random: Random::new(1),
            one_in: bucket.one_in,
        };
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
            lives: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Ends the process: nothing that it calls arrives any more.
    pub(super) fn kill(&self) {
        self.lives.store(false, Ordering::SeqCst);
    }

    /// Lets all late calls arrive, and makes no more faults.
    pub(super) fn settle(&self) {
        let mut bucket = self.bucket.lock();
        bucket.one_in = 0;
        let late = bucket.late.len() as u64;
        bucket.arrive(late);
    }

    /// Deletes `CURRENT`, as an operator may.
    pub(super) fn delete_current(&self) {
        self.bucket.lock().current = None;
    }

    /// Makes no faults while `what` runs.
    pub(super) fn calmly<T>(&self, what: impl FnOnce() -> T) -> T {
        let one_in = std::mem::take(&mut self.bucket.lock().one_in);
        let output = what();
        self.bucket.lock().one_in = one_in;
        output
    }

    fn reach(&self) -> io::Result<parking_lot::MutexGuard<'_, Bucket>> {
        match self.lives.load(Ordering::SeqCst) {
            true => Ok(self.bucket.lock()),
            false => Err(ErrorKind::ConnectionRefused.into()),
        }
    }
}

impl Depot for SimDepot {
    fn url(&self) -> &str {
        "s3://sim/store"
    }

    fn put(&self, name: &str, content: Content<'_>) -> io::Result<()> {
        let bytes = match content {
            Content::Bytes(bytes) => bytes.clone(),
            Content::File(file) => {
                let mut bytes = vec![0; file.len()? as usize];
                file.read_exact_at(&mut bytes, 0)?;
                bytes.into()
            }
        };
        let effect = Effect::Put(name.to_owned(), bytes);
        self.reach()?.call(&effect).map(|_| ())
    }

    fn get(&self, name: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        let mut bucket = self.reach()?;
        let found = bucket.read(|bucket| bucket.objects.get(name).cloned())?;
        let bytes = found.ok_or(ErrorKind::NotFound)?;
        let cut = |range: &Range<u64>| match range.end <= bytes.len() as u64 {
            true => Ok(bytes.slice(range.start as usize..range.end as usize)),
            false => Err(ErrorKind::UnexpectedEof.into()),
        };
        ranges.iter().map(cut).collect()
    }

    fn delete(&self, names: &[String]) -> io::Result<()> {
        let effect = Effect::Delete(names.to_vec());
        self.reach()?.call(&effect).map(|_| ())
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        let begins = |name: &&String| name.starts_with(prefix);
        self.reach()?
            .read(|bucket| bucket.objects.keys().filter(begins).cloned().collect())
    }

    fn load_current(&self) -> io::Result<Option<(Bytes, Tag)>> {
        self.reach()?.read(|bucket| bucket.current.clone())
    }

    fn swap_current(&self, expected: Option<&Tag>, content: &Bytes) -> io::Result<Swap> {
        let effect = Effect::Swap(expected.cloned(), content.clone());
        let answer = self.reach()?.call(&effect)?;
        // A conflict is answered as a refusal, too, and nothing has happened.
        Ok(answer.expect("BUG: a swap has an answer"))
    }

    fn pause(&self, _: u32) {
        if let Ok(mut bucket) = self.reach() {
            bucket.arrive(1);
        }
    }
}
