//! Batches that one server sends to the store of another: the bytes of a journal record.

use crate::error::{Error, Result};
use crate::model::{Batch, Identity, Name, StreamKind, arrow_schema, check_events};
use crate::record::{Record, quarantine_columns};

/// A batch as another server has encoded it ([`Batch::encode`]).
#[derive(Debug)]
pub struct EncodedBatch(Record);

impl EncodedBatch {
    /// Reads a batch.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the bytes are no batch, or one that breaks the invariants of
    /// [`Batch`].
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let record = Record::decode(bytes);
        let record = record.map_err(|why| Error::invalid(format!("not a batch: {why}")))?;
        check_events(&record.stream, &record.events)?;
        if matches!(record.identity, Some(Identity::Settles { .. })) {
            return Err(Error::invalid(
                "a store resolves the items of its quarantine itself",
            ));
        }
        let schema = record.quarantine.schema();
        if !record.ranks.is_empty() && schema != arrow_schema(&quarantine_columns()) {
            return Err(Error::invalid(
                "not a batch: its quarantined items have other columns",
            ));
        }
        Ok(Self(record))
    }

    /// Returns the stream of the events.
    pub fn stream(&self) -> &Name {
        &self.0.stream
    }

    /// Returns the kind of the stream.
    pub fn kind(&self) -> StreamKind {
        self.0.kind
    }

    /// Returns whether there are events.
    pub fn has_events(&self) -> bool {
        self.0.events.num_rows() > 0
    }

    pub(crate) fn into_record(self) -> Record {
        self.0
    }
}

impl Batch {
    /// Returns the batch as the bytes of a journal record, for another store.
    ///
    /// # Errors
    /// As [`Batch::validate`].
    pub fn encode(self) -> Result<Vec<u8>> {
        self.validate()?;
        Ok(Record::of(self).encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::QUARANTINE;
    use crate::testing::batch;

    #[test]
    fn a_batch_is_read_as_it_was_and_a_wrong_one_is_refused() {
        let sent: Batch = batch(&[1, 2, 3], &[1], None);
        let bytes = sent.clone().encode().expect("a batch");
        let read = EncodedBatch::read(&bytes).expect("reads");
        assert_eq!(read.stream(), &sent.stream);
        assert_eq!(read.0.events, sent.events);
        for end in 0..bytes.len() {
            EncodedBatch::read(&bytes[..end]).expect_err("a part");
        }
        let mut record = Record::of(sent);
        record.stream = Name::new(QUARANTINE).expect("a name");
        EncodedBatch::read(&record.encode()).expect_err("the quarantine");
    }
}
