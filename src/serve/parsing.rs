//! Lanes of parsing: short bodies do not wait for long ones.
//!
//! # Invariants
//! * A body of more than [`SHORT_BYTES_MAX`], compressed or not, is parsed on a thread of lower
//!   priority, one for each core. So the bodies that are large in memory are few, and other
//!   clients' requests get the processor first.
//! * A long body waits until the memtable has room for its rows beside those of short ones.
//! * A client parses at most its share of either length at once. A body that was refused after
//!   much work keeps the place of its client for a while, but not the one of all.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Share;
use super::shares::ClientPlace;
use super::workers::Workers;

/// Maximum bytes of a short body, decompressed: milliseconds of parsing.
pub(crate) const SHORT_BYTES_MAX: usize = 256 << 10;
/// Maximum short bodies parsed at once; more would only need more memory.
const SHORT_MAX: usize = 8;
/// Lower priority of the threads for long bodies, as a `nice` value.
const NICE: i32 = 10;

/// The length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Short,
    Long,
}

impl Length {
    /// Returns the length of a body of so many bytes, decompressed.
    pub(crate) fn of(bytes: usize) -> Self {
        match bytes > SHORT_BYTES_MAX {
            true => Self::Long,
            false => Self::Short,
        }
    }
}

/// The lanes of all clients.
#[derive(Debug)]
pub(crate) struct Parsing {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    threads: Workers,
}

/// A place in a lane, held until the body is parsed and the store has it.
#[derive(Debug)]
pub(crate) struct ParsingPlace {
    length: Length,
    of_client: Option<ClientPlace>,
    of_all: OwnedSemaphorePermit,
}

/// Returns the maximum number of bodies of a length that are parsed at once.
pub(super) fn most(length: Length) -> usize {
    match length {
        Length::Short => SHORT_MAX,
        Length::Long => std::thread::available_parallelism().map_or(1, NonZero::get),
    }
}

impl Parsing {
    /// Starts the threads for long bodies, which end when this is dropped.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start() -> std::io::Result<Self> {
        let places = |length| Arc::new(Semaphore::new(most(length)));
        Ok(Self {
            short: places(Length::Short),
            long: places(Length::Long),
            threads: Workers::start("logmill-parse", most(Length::Long), NICE)?,
        })
    }

    /// Waits for a place. The place of all is acquired last: a request that waits for others of
    /// its client must keep none from other clients.
    pub(crate) async fn place(&self, share: &Share, length: Length) -> ParsingPlace {
        let of_client = share.parse(length).await;
        let lane = match length {
            Length::Short => &self.short,
            Length::Long => &self.long,
        };
        let of_all = Arc::clone(lane).acquire_owned().await;
        ParsingPlace {
            length,
            of_client,
            of_all: of_all.expect("BUG: the places are never closed"),
        }
    }

    /// Runs `job` on a thread that may block, and gives the place back.
    pub(crate) fn run(&self, place: ParsingPlace, job: impl FnOnce() + Send + 'static) {
        self.run_and_rest(place, || {
            job();
            Duration::ZERO
        });
    }

    /// Runs `job` on a thread that may block, and gives the place back: the client's own part of it
    /// after the time that `job` returns.
    pub(crate) fn run_and_rest(
        &self,
        place: ParsingPlace,
        job: impl FnOnce() -> Duration + Send + 'static,
    ) {
        let length = place.length;
        let handle = Handle::current();
        let run = move || {
            // A panic of the job drops the place, too.
            let place = place;
            let rest = job();
            drop(place.of_all);
            keep_for(&handle, rest, place.of_client);
        };
        match length {
            Length::Short => drop(tokio::task::spawn_blocking(run)),
            Length::Long => self.threads.run(run),
        }
    }
}

/// Keeps a place of a client for a time.
pub(crate) fn keep_for<T: Send + 'static>(handle: &Handle, time: Duration, place: T) {
    if !time.is_zero() {
        handle.spawn(async move {
            tokio::time::sleep(time).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_job_that_lets_its_client_rest_holds_up_no_other_client() {
        let (parsing, share) = (Parsing::start().expect("threads"), Share::default());
        for length in [Length::Short, Length::Long] {
            let (tell, told) = tokio::sync::oneshot::channel();
            let place = parsing.place(&share, length).await;
            let job = move || {
                tell.send(()).expect("it is awaited");
                Duration::from_secs(3600)
            };
            parsing.run_and_rest(place, job);
            told.await.expect("it ran");
            let mut all = Vec::new();
            for _ in 0..most(length) {
                all.push(parsing.place(&share, length).await);
            }
        }
    }

    #[tokio::test]
    async fn long_bodies_take_no_place_of_short_ones_and_a_job_gives_its_place_back() {
        let (parsing, share) = (Parsing::start().expect("threads"), Share::default());
        let of = |length| parsing.place(&share, length).now_or_never();
        let mut long: Vec<_> = std::iter::from_fn(|| of(Length::Long)).collect();
        assert_eq!(long.len(), most(Length::Long));
        let short: Vec<_> = std::iter::from_fn(|| of(Length::Short)).collect();
        assert_eq!(short.len(), most(Length::Short));
        let (tell, told) = tokio::sync::oneshot::channel();
        let job = move || {
            // Its panic, too, gives the place back.
            tell.send(()).expect("it is awaited");
            panic!("a bug in a parser");
        };
        parsing.run(long.pop().expect("a place"), job);
        told.await.expect("it ran");
        parsing.place(&share, Length::Long).await;
        drop(short);
        let (tell, told) = tokio::sync::oneshot::channel();
        let place = parsing.place(&share, Length::Short).await;
        parsing.run(place, move || tell.send(()).expect("it is awaited"));
        told.await.expect("it ran");
    }
}
