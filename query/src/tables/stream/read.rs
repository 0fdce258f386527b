//! Access of the Parquet reader to the parts of a snapshot. It reads through storage, which
//! compares every block with the manifest before a byte of it is parsed.
//!
//! The engine caches footers from one query to the next. A footer is used only for the file from
//! which it was read: same path, length and checksum.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::CachedParquetMetaData;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use object_store::ObjectMeta;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use storage::{CheckedFile, FileRef, Snapshot};

use super::indexed::Covering;
use super::slices::Dictionaries;
use crate::error::Error;

/// Bytes that usually hold a part's footer. Storage reads the blocks around them, which mostly
/// have the page index too.
const FOOTER_BYTES: usize = 16 * 1024;
/// Reads of at most this many bytes of this machine run on the calling thread, which no other query
/// needs: to wake another thread takes longer.
const AT_ONCE_BYTES: u64 = 4 << 20;

/// Name of the counter of bytes that were read.
pub(crate) const BYTES_READ: &str = "bytes_scanned";

/// Content of a file of a scan: a part, or a covering index of a part.
pub(super) enum FileContent {
    Part(FileRef),
    Covering(Covering),
}

/// Opens the parts of one snapshot. The files of a scan carry their [`FileContent`].
pub(crate) struct PartReaders {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) footers: Arc<FileMetadataCache>,
    pub(crate) dictionaries: Arc<Dictionaries>,
}

impl fmt::Debug for PartReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartReaders").finish_non_exhaustive()
    }
}

impl PartReaders {
    /// Returns a reader of a file that carries its [`FileContent`].
    pub(super) fn open(
        &self,
        partition: usize,
        file: &PartitionedFile,
        metrics: &ExecutionPlanMetricsSet,
    ) -> PartReader {
        let rows = file.extension::<FileContent>();
        let (opened, covering) = match rows.expect("BUG: a file of a scan carries its rows") {
            FileContent::Part(part) => (self.snapshot.open(part), None),
            FileContent::Covering(index) => (index.read(&self.snapshot), Some(index.clone())),
        };
        PartReader {
            file: Arc::new(Mutex::new(opened)),
            covering,
            bytes_read: MetricBuilder::new(metrics).counter(BYTES_READ, partition),
            meta: file.object_meta.clone(),
            footers: self.footers.clone(),
        }
    }
}

impl ParquetFileReaderFactory for PartReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(self.open(partition, &file, metrics)))
    }
}

/// Reads one part, or one covering index.
pub(super) struct PartReader {
    file: Arc<Mutex<CheckedFile>>,
    covering: Option<Covering>,
    meta: ObjectMeta,
    bytes_read: Count,
    footers: Arc<FileMetadataCache>,
}

impl AsyncFileReader for PartReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        self.get_byte_ranges(vec![range])
            .map_ok(|mut bytes| bytes.pop().expect("BUG: one range, one piece"))
            .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        let file = self.file.clone();
        let bytes_read = self.bytes_read.clone();
        let covering = self.covering.clone();
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let is_local = file.lock().is_local();
        let read = move || {
            let mut file = file.lock();
            let before = file.bytes_read();
            let pieces = file.read_ranges(&ranges);
            bytes_read.add(usize::try_from(file.bytes_read() - before).unwrap_or(usize::MAX));
            pieces.map_err(|error| {
                if let Some(covering) = &covering {
                    covering.is_damaged(&error);
                }
                ParquetError::External(Error::from(error).into())
            })
        };
        async move {
            if bytes <= AT_ONCE_BYTES && is_local {
                return read();
            }
            match tokio::task::spawn_blocking(read).await {
                Ok(pieces) => pieces,
                Err(stopped) => Err(ParquetError::External(stopped.into())),
            }
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let pages = options.map_or(PageIndexPolicy::Optional, |o| o.column_index_policy());
        async move {
            let footer = match self.known_footer() {
                Some(known) if known.offset_index().is_some() => return Ok(known),
                // A footer that is requested again gets its page index: a reader that needs the
                // index would read it each time.
                Some(known) => {
                    let mut reader =
                        ParquetMetaDataReader::new_with_metadata(Arc::unwrap_or_clone(known))
                            .with_page_index_policy(PageIndexPolicy::Optional);
                    reader.load_page_index(&mut *self).await?;
                    reader.finish()?
                }
                None => {
                    let reader = ParquetMetaDataReader::new()
                        .with_page_index_policy(pages)
                        .with_prefetch_hint(Some(FOOTER_BYTES));
                    let len = self.meta.size;
                    reader.load_and_finish(&mut *self, len).await?
                }
            };
            let footer = Arc::new(footer);
            let kept = Arc::new(CachedParquetMetaData::new(footer.clone()));
            let entry = CachedFileMetadataEntry::new(self.meta.clone(), kept);
            self.footers.put(&self.meta.location, entry);
            Ok(footer)
        }
        .boxed()
    }
}

impl PartReader {
    /// Returns the footer with its page index.
    pub(super) async fn footer(&mut self) -> Result<Arc<ParquetMetaData>> {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        self.get_metadata(Some(&options)).await
    }

    /// Returns the footer of this very file, if it is cached. Its page index may be missing.
    fn known_footer(&self) -> Option<Arc<ParquetMetaData>> {
        let kept = self.footers.get(&self.meta.location)?;
        let footer = kept
            .file_metadata
            .as_any()
            .downcast_ref::<CachedParquetMetaData>()?;
        (kept.meta == self.meta).then(|| footer.parquet_metadata().clone())
    }
}
