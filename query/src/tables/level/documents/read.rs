//! Reads documents in three nested loops: windows of the coarsest level, the days or months of a
//! window, and the documents of a day or month.

use std::collections::BTreeSet;

use aggregator::{Bucket, Calendar, Filter, Level};
use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::form::Shape;
use super::rows::{KeyRows, LevelRows};
use super::sheet::Sheet;
use crate::tables::level::read::{Reader, Work};

/// Rows of the coarsest level in one window, and the number of rows that have become documents.
struct Window {
    rows: LevelRows,
    taken: usize,
    _memory: MemoryReservation,
}

impl Window {
    /// Returns the rows of the next day or month.
    fn next(&mut self, calendar: Calendar, document: Level) -> Option<(Bucket, LevelRows)> {
        let rest = &self.rows.buckets()[self.taken..];
        let interval = calendar.bucket(document, *rest.first()?);
        let len = rest.partition_point(|bucket| *bucket < interval.end_us);
        let from = self.taken;
        self.taken += len;
        Some((interval, self.rows.slice(from, self.taken)))
    }
}

/// Builds documents in batches, in the order of dates and keys.
pub(super) struct Documents {
    shape: Shape,
    coarse: (Work, Reader),
    fine: Option<(Work, Reader)>,
    keys: KeyRows,
    /// `None` before the first batch, because the windows are known only after a read of the
    /// memtable.
    windows: Option<std::vec::IntoIter<Bucket>>,
    window: Option<Window>,
    sheet: Option<Sheet>,
    memory: MemoryReservation,
}

impl Documents {
    /// Takes one or two levels, the coarsest first.
    pub(super) fn new(
        shape: Shape,
        levels: Vec<(Work, Reader)>,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let mut levels = levels.into_iter();
        let coarse = levels.next().expect("BUG: documents are made of a level");
        let by = coarse.0.definition.by().iter();
        Ok(Self {
            keys: KeyRows::new(by.map(|key| key.key_type.arrow()))?,
            shape,
            coarse,
            fine: levels.next(),
            windows: None,
            window: None,
            sheet: None,
            memory,
        })
    }

    /// Returns the next batch of documents; `None` after the last.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(sheet) = &mut self.sheet {
                if let Some(batch) = sheet.next_batch(&self.shape, &self.memory)? {
                    return Ok(Some(batch));
                }
                self.sheet = None;
            }
            let Some((interval, rows)) = self.next_interval()? else {
                return Ok(None);
            };
            self.sheet = Some(self.sheet_of(interval, &rows)?);
        }
    }

    /// Returns the next day or month that has documents, with its rows of the coarsest level.
    fn next_interval(&mut self) -> Result<Option<(Bucket, LevelRows)>> {
        let calendar = self.coarse.0.definition.calendar();
        loop {
            if let Some(window) = &mut self.window
                && let Some(next) = window.next(calendar, self.shape.form.document())
            {
                return Ok(Some(next));
            }
            self.window = None;
            let windows = match &mut self.windows {
                Some(windows) => windows,
                None => {
                    let found = windows(&self.coarse.0, self.shape.form.window())?;
                    self.windows.insert(found.into_iter())
                }
            };
            let Some(interval) = windows.next() else {
                return Ok(None);
            };
            let (rows, memory) = read(&self.coarse, interval, &self.shape.counter)?;
            self.window = Some(Window {
                rows,
                taken: 0,
                _memory: memory,
            });
        }
    }

    fn sheet_of(&self, interval: Bucket, coarse: &LevelRows) -> Result<Sheet> {
        let timezone = self.coarse.0.definition.timezone();
        let memory = self.memory.new_empty();
        let fine = match &self.fine {
            Some(level) => Some(read(level, interval, &self.shape.counter)?),
            None => None,
        };
        let fine = fine.as_ref().map(|(rows, _)| rows);
        Sheet::new(timezone, interval, &self.keys, coarse, fine, memory)
    }
}

/// Reads the rows of a level in an interval, with the reservation of their memory.
fn read(
    (work, reader): &(Work, Reader),
    interval: Bucket,
    counter: &str,
) -> Result<(LevelRows, MemoryReservation)> {
    let (batch, memory) = reader.read(&work.within(interval))?;
    Ok((LevelRows::of(work, &batch, counter), memory))
}

/// Returns the windows that hold cells of a level, ascending.
fn windows(work: &Work, window: Level) -> Result<Vec<Bucket>> {
    let calendar = work.definition.calendar();
    let sections = work.files.iter().flat_map(|(_, sections)| sections);
    let mut found: BTreeSet<Bucket> = sections
        .map(|section| calendar.bucket(window, section.bucket_min_us))
        .collect();
    for cells in work.beyond_tiles() {
        let mut rest = cells?;
        // The loop jumps from one window with cells to the next, so a long gap between two events
        // is cheap.
        while let Some((first, _)) = rest.bucket_range() {
            let interval = calendar.bucket(window, first);
            found.insert(interval);
            let later = Filter {
                from_us: interval.end_us,
                ..Filter::ALL
            };
            rest = rest.filter(&later, &work.projection);
        }
    }
    Ok(found.into_iter().collect())
}
