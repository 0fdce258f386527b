//! Cache of decompressed dictionaries of column chunks. Without it, a query for ten rows of a day
//! would decompress all paths of the day.

use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectMeta;
use object_store::path::Path;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::Result;

use crate::tables::byte_cache::ByteCache;

/// Dictionaries by file, row group and column, each with the file from which it was read.
pub(crate) type Dictionaries = ByteCache<(Path, usize, usize), (ObjectMeta, Page)>;

/// Cache entry for the dictionary of a column chunk.
#[derive(Clone)]
pub(super) struct Dictionary {
    cache: Arc<Dictionaries>,
    file: ObjectMeta,
    group: usize,
    column: usize,
}

impl Dictionary {
    /// Returns the entry for a column in a row group of a file.
    pub(super) fn of(
        cache: &Arc<Dictionaries>,
        file: &ObjectMeta,
        (group, column): (usize, usize),
    ) -> Self {
        Self {
            cache: Arc::clone(cache),
            file: file.clone(),
            group,
            column,
        }
    }

    /// Returns the dictionary page if the cache has it, and has it of this very file.
    pub(super) fn page(&self) -> Option<Page> {
        let (file, page) = self.cache.get(&self.key())?;
        (file == self.file).then_some(page)
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
        let key = self.key();
        let bytes = buf.len() + key.0.as_ref().len() + size_of::<(ObjectMeta, Page)>();
        self.cache.put(key, (self.file.clone(), page), bytes as u64);
    }

    fn key(&self) -> (Path, usize, usize) {
        (self.file.location.clone(), self.group, self.column)
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
