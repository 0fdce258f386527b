//! Cache of decompressed dictionaries of column chunks. Without it, a query for ten rows of a day
//! would decompress all paths of the day. Dictionaries have a bounded cache of their own, so that
//! many of them do not evict footers.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::HashMap;
use datafusion::execution::cache::cache_manager::{
    CachedFileMetadataEntry, FileMetadata, FileMetadataCache,
};
use object_store::ObjectMeta;
use object_store::path::Path;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::Result;

/// Cache entry for the dictionary of a column chunk.
#[derive(Clone)]
pub(super) struct Dictionary {
    kept: Arc<FileMetadataCache>,
    name: Path,
    file: ObjectMeta,
}

impl Dictionary {
    /// Returns the entry for a column in a row group of a file.
    pub(super) fn of(
        kept: &Arc<FileMetadataCache>,
        file: &ObjectMeta,
        (group, column): (usize, usize),
    ) -> Self {
        Self {
            kept: Arc::clone(kept),
            name: file.location.clone().join(format!("{group}.{column}")),
            file: file.clone(),
        }
    }

    /// Returns the dictionary page if the cache has it, and has it of this very file.
    pub(super) fn page(&self) -> Option<Page> {
        let entry = self.kept.get(&self.name)?;
        let page = entry.file_metadata.as_any().downcast_ref::<Inflated>()?;
        (entry.meta == self.file).then(|| page.0.clone())
    }

    fn keep(&self, page: &Page) {
        let Page::DictionaryPage {
            buf,
            num_values,
            encoding,
            is_sorted,
        } = page
        else {
            return;
        };
        let page = Page::DictionaryPage {
            // A copy, because a slice would keep the whole buffer of the read in memory.
            buf: Bytes::copy_from_slice(buf),
            num_values: *num_values,
            encoding: *encoding,
            is_sorted: *is_sorted,
        };
        let entry = CachedFileMetadataEntry::new(self.file.clone(), Arc::new(Inflated(page)));
        self.kept.put(&self.name, entry);
    }
}

struct Inflated(Page);

impl FileMetadata for Inflated {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn memory_size(&self) -> usize {
        self.0.buffer().len() + size_of::<Self>()
    }
    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::new()
    }
}

/// Pages of a column chunk. A dictionary that was cached is not among the bytes that were read.
pub(super) struct Pages<R> {
    pub(super) read: R,
    pub(super) dictionary: Dictionary,
    pub(super) known: Option<Page>,
}

impl<R: PageReader> PageReader for Pages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        if let Some(known) = self.known.take() {
            // The reader skips the page without its bytes, which were not read.
            self.read.skip_next_page()?;
            return Ok(Some(known));
        }
        let page = self.read.get_next_page()?;
        if let Some(page) = &page {
            self.dictionary.keep(page);
        }
        Ok(page)
    }
    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.read.peek_next_page()
    }
    fn skip_next_page(&mut self) -> Result<()> {
        self.known = None;
        self.read.skip_next_page()
    }
    fn at_record_boundary(&mut self) -> Result<bool> {
        self.read.at_record_boundary()
    }
}

impl<R: PageReader> Iterator for Pages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
