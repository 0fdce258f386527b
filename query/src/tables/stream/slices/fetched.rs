//! Bytes of a row group that were read, and their decoder.

use std::iter::once;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Fields, SchemaRef};
use bytes::Bytes;
use datafusion::common::Result;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::column::page::{Page, PageIterator, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::dictionaries::{Dictionary, Pages};
use super::places::position;

/// A column chunk of which some pages were read.
#[derive(Clone)]
pub(super) struct FetchedChunk {
    pub(super) pages: Vec<PageLocation>,
    pub(super) dictionary: Dictionary,
    pub(super) known: Option<Page>,
}

/// Bytes that were read of a row group.
pub(super) struct Fetched {
    pub(super) footer: Arc<ParquetMetaData>,
    pub(super) group: usize,
    pub(super) pieces: Arc<FilePieces>,
    pub(super) chunks: Vec<Option<FetchedChunk>>,
}

impl Fetched {
    /// Returns a reader of the selected rows in these columns. Columns that the file lacks are
    /// left out.
    pub(super) fn reader(
        &self,
        columns: &[&str],
        stored: &SchemaRef,
        rows: &RowSelection,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader> {
        let file = self.footer.file_metadata().schema_descr();
        let columns = columns
            .iter()
            .filter_map(|name| position(&self.footer, name));
        let mask = ProjectionMask::roots(file, columns);
        let hint: Option<Vec<FieldRef>> = file
            .columns()
            .iter()
            .map(|column| {
                let field = stored.field_with_name(column.name()).ok()?;
                Some(Arc::new(field.clone()))
            })
            .collect();
        let levels = parquet_to_arrow_field_levels(file, mask, hint.map(Fields::from).as_ref())?;
        let rows = Some(rows.clone());
        Ok(ParquetRecordBatchReader::try_new_with_row_groups(
            &levels, self, batch_rows, rows,
        )?)
    }
}

impl RowGroups for Fetched {
    fn num_rows(&self) -> usize {
        usize::try_from(self.footer.row_group(self.group).num_rows()).unwrap_or(0)
    }
    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let FetchedChunk {
            pages,
            dictionary,
            known,
        } = self.chunks[column]
            .clone()
            .expect("BUG: only what was read is decoded");
        let group = self.footer.row_group(self.group);
        let read = SerializedPageReader::new(
            Arc::clone(&self.pieces),
            group.column(column),
            self.num_rows(),
            Some(pages),
        )?;
        let pages = Pages {
            read,
            dictionary,
            known,
        };
        Ok(Box::new(OneChunk(Some(Box::new(pages)))))
    }
    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(once(self.footer.row_group(self.group)))
    }
    fn metadata(&self) -> &ParquetMetaData {
        &self.footer
    }
}

/// Iterator over the pages of one row group.
struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}

/// Pieces of a file with the offset of each, ascending.
pub(super) struct FilePieces(pub(super) Vec<(u64, Bytes)>);

impl Length for FilePieces {
    fn len(&self) -> u64 {
        self.0
            .last()
            .map_or(0, |(start, bytes)| start + bytes.len() as u64)
    }
}

impl ChunkReader for FilePieces {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let (from, bytes) = self.piece(start)?;
        Ok(bytes::Buf::reader(bytes.slice(from..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let (from, bytes) = self.piece(start)?;
        let end = from.saturating_add(length);
        if end > bytes.len() {
            return Err(not_read(start));
        }
        Ok(bytes.slice(from..end))
    }
}

impl FilePieces {
    /// Returns the piece that has the byte at an offset, and the position of the byte in the
    /// piece.
    fn piece(&self, at: u64) -> ParquetResult<(usize, &Bytes)> {
        let after = self.0.partition_point(|(start, _)| *start <= at);
        let (start, bytes) = after
            .checked_sub(1)
            .map(|nth| &self.0[nth])
            .ok_or_else(|| not_read(at))?;
        let from = usize::try_from(at - start).map_err(|_| not_read(at))?;
        if from > bytes.len() {
            return Err(not_read(at));
        }
        Ok((from, bytes))
    }
}

fn not_read(at: u64) -> ParquetError {
    ParquetError::General(format!("byte {at} is in no page that was read"))
}
