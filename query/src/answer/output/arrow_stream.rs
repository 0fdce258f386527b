//! An answer as an Arrow stream that is about as large as its rows.
//!
//! # Rule
//! An Arrow answer is never larger than the same answer as NDJSON, with four exceptions:
//! * its headers: 512 bytes, and 256 bytes and the name for each column, where fields of records
//!   and elements of lists count as columns too. Headers are written once for every 8,192 rows or
//!   4 MiB, and once for the schema;
//! * values of a fixed width that JSON does not need: a 64-bit number takes eight bytes,
//!   and `"n":1,` six. Under a name of four letters the number takes no more than its JSON. In a
//!   list `1,` is two bytes, and of a record that is null JSON writes nothing at all; so there
//!   each number and each text may take its fixed width more;
//! * `_rest`, whose BSON is written as it is: the JSON of a list is shorter than its BSON;
//! * states, whose bytes are written as they are: JSON only describes them.
//!
//! So rows are written in their plain form, and the rows of small batches are written together.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

use super::plain_batches::PlainBatches;

/// Minimum alignment that the format allows. The default of 64 costs a small answer more than its
/// values.
const ALIGNMENT: usize = 8;

/// Maximum bytes of a message, and of each column of it, beside values.
#[cfg(test)]
pub(crate) const HEADER_BYTES: usize = 512;
#[cfg(test)]
pub(crate) const HEADER_COLUMN_BYTES: usize = 256;

/// Writes batches as an Arrow stream.
pub(super) struct ArrowStream {
    stream: StreamWriter<Vec<u8>>,
    batches: PlainBatches,
}

impl ArrowStream {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let batches = PlainBatches::new(schema);
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        Ok(Self {
            stream: StreamWriter::try_new_with_options(Vec::new(), batches.schema(), options)?,
            batches,
        })
    }

    /// Adds the rows of a batch. Appends to `out` the messages that are complete.
    pub(super) fn batch(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        let mut complete = Vec::new();
        self.batches.add(batch, &mut complete)?;
        for batch in complete {
            self.stream.write(&batch)?;
            out.append(self.stream.get_mut());
        }
        Ok(())
    }

    /// Writes the remaining rows and the end of the stream.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(rest) = self.batches.finish()? {
            self.stream.write(&rest)?;
        }
        self.stream.finish()?;
        out.append(self.stream.get_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
