//! A connection of the forward protocol.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ingest::Records;
use storage::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::message::{self, Entries, Message};
use super::msgpack::{Scanner, Unreadable};
use super::records::{RecordLimits, identity, records};
use super::{Fluent, MEDIUM_BYTES_MAX};
use crate::access::Principal;
use crate::shippers::{CHUNK_BYTES_MAX, Caller, log_malformed};

/// Bytes that a connection holds and reads at once without asking for room.
const READ_BYTES: usize = 64 << 10;
/// Messages above this size are read on a thread that may block.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// Bytes of the records of a short message, and of a long one.
const SHORT_RECORDS_BYTES_MAX: usize = 512 << 10;
const LONG_RECORDS_BYTES_MAX: usize = 256 << 20;

/// A connection whose client shows an account.
pub(super) struct ForwardSession {
    fluent: Arc<Fluent>,
    caller: Caller,
    who: Arc<Principal>,
    /// Bytes of messages that were not read yet.
    bytes: BytesMut,
    /// Places for those beyond [`READ_BYTES`], and beyond [`MEDIUM_BYTES_MAX`].
    places: Vec<OwnedSemaphorePermit>,
    scanner: Scanner,
    /// Records without acknowledgement that wait, all of one stream.
    waiting: Option<(Name, Records)>,
    storing: Option<JoinHandle<()>>,
}

/// Reason for which a connection ends.
enum ForwardEnd {
    /// The client has gone, was silent for too long, may not write any more, or its chunk was not
    /// stored: it sends the chunk again in another connection. Or the server stops.
    Closed,
    Unreadable(Unreadable),
}

impl From<Unreadable> for ForwardEnd {
    fn from(why: Unreadable) -> Self {
        Self::Unreadable(why)
    }
}

impl ForwardSession {
    /// Serves a connection until it ends.
    pub(super) async fn serve(fluent: &Arc<Fluent>, caller: Caller) {
        let (user, address) = (caller.user.clone(), caller.address);
        // Each message is checked for its own stream.
        let stream = &fluent.streams.other;
        let Some(who) = fluent.door.admit(user, address, stream).await else {
            return;
        };
        let mut session = Self {
            scanner: Scanner::within(fluent.message_bytes_max as u64),
            fluent: Arc::clone(fluent),
            caller,
            who,
            bytes: BytesMut::new(),
            places: Vec::new(),
            waiting: None,
            storing: None,
        };
        let end = session.run().await;
        session.store_waiting().await;
        session.finish_storing().await;
        if let ForwardEnd::Unreadable(why) = end {
            session.log_unreadable(why);
        }
    }

    async fn run(&mut self) -> ForwardEnd {
        loop {
            match self.take_messages().await {
                Ok(()) => {}
                Err(end) => return end,
            }
            self.store_waiting().await;
            if let Err(end) = self.read().await {
                return end;
            }
        }
    }

    /// Reads some bytes. Those beyond the first [`READ_BYTES`] of a connection need a place.
    async fn read(&mut self) -> Result<(), ForwardEnd> {
        let limit = self.caller.limit(!self.bytes.is_empty());
        let stop = self.caller.stop.clone();
        if self.bytes.len() < READ_BYTES {
            self.places.clear();
        }
        let rooms = [
            (READ_BYTES, &self.fluent.medium),
            (MEDIUM_BYTES_MAX, &self.fluent.large),
        ];
        let read = async {
            for (rank, (bytes, room)) in rooms.into_iter().enumerate() {
                if self.bytes.len() >= bytes && self.places.len() == rank {
                    let place = Arc::clone(room).acquire_owned().await;
                    self.places
                        .push(place.expect("BUG: the places are never closed"));
                }
            }
            self.bytes.reserve(READ_BYTES);
            let mut limited = (&mut self.caller.io).take(READ_BYTES as u64);
            limited.read_buf(&mut self.bytes).await
        };
        let read = tokio::select! {
            read = tokio::time::timeout(limit, read) => read,
            () = stop.heard() => return Err(ForwardEnd::Closed),
        };
        match read {
            Ok(Ok(1..)) => Ok(()),
            _ => Err(ForwardEnd::Closed),
        }
    }

    /// Takes the messages that are whole.
    async fn take_messages(&mut self) -> Result<(), ForwardEnd> {
        while !self.bytes.is_empty() {
            // Another protocol is recognised by its first byte: an array, or nil.
            if !matches!(self.bytes[0], 0x90..=0x9f | 0xc0 | 0xdc | 0xdd) {
                return Err(Unreadable::Malformed.into());
            }
            let Some(end) = self.scanner.end(&self.bytes)? else {
                return Ok(());
            };
            self.scanner = Scanner::within(self.fluent.message_bytes_max as u64);
            self.caller.end_message();
            let message = self.bytes.split_to(end).freeze();
            self.take(message).await?;
        }
        // Its memory goes with it: most messages are small.
        self.bytes = BytesMut::new();
        self.places.clear();
        Ok(())
    }

    async fn take(&mut self, bytes: Bytes) -> Result<(), ForwardEnd> {
        let Some(message) = message::read(&bytes)? else {
            return Ok(());
        };
        let stream = self.fluent.streams.of(message.tag).clone();
        let renewed = self
            .fluent
            .door
            .renew(&self.who, self.caller.address, &stream);
        self.who = renewed.ok_or(ForwardEnd::Closed)?;
        let chunk = message.chunk.map(str::to_owned);
        let (records, long) = read_entries(&self.fluent, &bytes, &message).await?;
        match chunk {
            Some(chunk) => self.store_chunk(&stream, &chunk, records).await,
            None => {
                self.add(stream, records).await;
                if long.is_some() {
                    self.store_waiting().await;
                    self.finish_storing().await;
                }
                Ok(())
            }
        }
    }

    /// Stores a chunk and acknowledges it.
    async fn store_chunk(
        &mut self,
        stream: &Name,
        chunk: &str,
        records: Records,
    ) -> Result<(), ForwardEnd> {
        let identity = identity(stream, chunk, &records);
        let (gatherer, who) = (&self.fluent.gatherer, &self.who);
        let stored = gatherer.store_once(who, stream, records, identity).await;
        if stored.is_err() {
            return Err(ForwardEnd::Closed);
        }
        let io = &mut self.caller.io;
        let answered = io.write_all(&acknowledgement(chunk)).await;
        answered.map_err(|_| ForwardEnd::Closed)?;
        io.flush().await.map_err(|_| ForwardEnd::Closed)
    }

    /// Adds records that are not acknowledged to those that wait.
    async fn add(&mut self, stream: Name, records: Records) {
        match &mut self.waiting {
            Some((of, waiting)) if *of == stream => waiting.append(&records),
            _ => {
                self.store_waiting().await;
                self.waiting = Some((stream, records));
            }
        }
        let is_full = |(_, waiting): &(Name, Records)| waiting.bytes() >= CHUNK_BYTES_MAX;
        if self.waiting.as_ref().is_some_and(is_full) {
            self.store_waiting().await;
        }
    }

    /// Begins to store the records that wait, after those before them were stored.
    async fn store_waiting(&mut self) {
        if let Some((stream, records)) = self.waiting.take() {
            self.finish_storing().await;
            let gatherer = Arc::clone(&self.fluent.gatherer);
            let stored = gatherer.store_surely(Arc::clone(&self.who), stream, records);
            self.storing = Some(tokio::spawn(stored));
        }
    }

    async fn finish_storing(&mut self) {
        if let Some(storing) = self.storing.take() {
            // Its panic is in the log.
            let _ignored = storing.await;
        }
    }

    fn log_unreadable(&self, why: Unreadable) {
        let Fluent {
            serving, malformed, ..
        } = &*self.fluent;
        let why = match why {
            Unreadable::Malformed => "its bytes are no message of the forward protocol",
            Unreadable::TooLong => {
                "a message is longer than server.batch_bytes_max; set chunk_limit_size of Fluentd below it"
            }
        };
        log_malformed((serving, malformed), "Fluent", self.caller.address, why);
    }
}

/// Reads the entries of a message. Those of a long one have a place, held until they are
/// stored.
async fn read_entries(
    fluent: &Fluent,
    bytes: &Bytes,
    message: &Message<'_>,
) -> Result<(Records, Option<OwnedSemaphorePermit>), ForwardEnd> {
    let is_compressed = matches!(message.entries, Entries::Compressed(_));
    let mut limits = RecordLimits {
        decompressed: fluent.message_bytes_max,
        records: SHORT_RECORDS_BYTES_MAX,
    };
    if bytes.len() <= SHORT_BYTES_MAX
        && !is_compressed
        && let Some(records) = records(message, limits)
    {
        return Ok((records, None));
    }
    limits.records = LONG_RECORDS_BYTES_MAX;
    let place = Arc::clone(&fluent.long).acquire_owned().await;
    let place = place.expect("BUG: the places are never closed");
    let bytes = bytes.clone();
    let read = tokio::task::spawn_blocking(move || {
        let message = message::read(&bytes)?.ok_or(Unreadable::Malformed)?;
        records(&message, limits).ok_or(Unreadable::TooLong)
    });
    // A panic is in the log.
    let read: Result<Records, Unreadable> = read.await.map_err(|_| ForwardEnd::Closed)?;
    Ok((read?, Some(place)))
}

/// Returns `{"ack": chunk}` in MessagePack.
fn acknowledgement(chunk: &str) -> Vec<u8> {
    let mut out = vec![0x81];
    for text in ["ack", chunk] {
        // A text of up to 255 bytes: 0xd9 and its length. No chunk is longer.
        out.push(0xd9);
        out.push(u8::try_from(text.len()).expect("BUG: a chunk's name is short"));
        out.extend_from_slice(text.as_bytes());
    }
    out
}
