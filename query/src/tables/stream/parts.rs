//! Plans the read of a stream's parts: selects the parts that may hold requested rows, and the
//! way to read each of them. An index names some rows of the part, or a slice of its sort order
//! is enough, or DataFusion's scan reads all of it.

use std::collections::BTreeSet;
use std::path::{Component, Path};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileGroupPartitioner, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::ExecutionPlan;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use storage::{IndexValue, SEQ, TIME};

use super::StreamTable;
use super::exec::ScanStats;
use super::indexed::{self, Candidate, Picked};
use super::prune::{Bounds, TimeRange};
use super::read::{FileContent, PartReaders};
use super::slices::{SliceCondition, SliceExec, Slices};
use crate::plan_node::PlanNode;
use crate::stats::Count;

/// Scans of fewer bytes are not split: another thread costs more than it saves.
const SPLIT_BYTES: u64 = 1 << 20;
/// Rows in a row group, as storage writes parts.
const ROW_GROUP_ROWS: u64 = 1 << 20;

/// Inputs for planning the read of a stream's parts.
pub(super) struct PartScans<'a> {
    pub(super) table: &'a StreamTable,
    pub(super) bounds: &'a Bounds,
    pub(super) projection: Option<&'a Vec<usize>>,
    pub(super) limit: Option<usize>,
    pub(super) partitions: usize,
}

impl PartScans<'_> {
    /// Returns plan nodes for the parts that may hold requested rows: slices of parts that are
    /// sorted by a requested column, scans of the others. Parts wholly inside the time range are
    /// scanned without a predicate, the rest with one.
    pub(super) async fn plan(&self, looked: &mut ScanStats) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let StreamTable {
            snapshot,
            name,
            files,
            ..
        } = self.table;
        // A part that is sorted by a requested column is not read from a covering index instead.
        let asked = (self.bounds, self.leading().is_some());
        let picked = indexed::pick(files, snapshot, name, asked).await?;
        let (mut sliced, mut scanned): (Vec<_>, Vec<_>) = self
            .candidates(picked, looked)
            .into_iter()
            .partition(|part| self.wanted(part).is_some());
        let mut inputs: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        match self.slices(&sliced).await? {
            Some(slices) => {
                looked.rows += slices.kind.rows();
                inputs.push(Arc::new(slices));
            }
            None => scanned.append(&mut sliced),
        }
        looked.rows += scanned.iter().map(Candidate::rows).sum::<u64>();
        let is_covered = |part: &Candidate<'_>| self.bounds.time.covers(part.part.time);
        let (covered, partial): (Vec<_>, Vec<_>) = scanned.into_iter().partition(is_covered);
        for (parts, range) in [(covered, TimeRange::ALL), (partial, self.bounds.time)] {
            let (picked, scanned): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|part| part.rows.is_some());
            for parts in [picked, scanned].iter().filter(|parts| !parts.is_empty()) {
                inputs.push(self.scan(parts, range)?);
            }
        }
        Ok(inputs)
    }

    /// Returns the parts that may hold requested rows, and counts parts and partitions.
    fn candidates(&self, mut picked: Picked, looked: &mut ScanStats) -> Vec<Candidate<'_>> {
        let StreamTable { snapshot, name, .. } = self.table;
        let mut starts = (BTreeSet::new(), BTreeSet::new());
        let mut candidates = Vec::new();
        for part in snapshot.manifest().parts_of(name) {
            starts.0.insert(part.partition_us);
            looked.parts.total += 1;
            let Some(part) = picked
                .candidate(part)
                .filter(|_| self.bounds.may_hold(part))
            else {
                continue;
            };
            starts.1.insert(part.part.partition_us);
            looked.parts.examined += 1;
            candidates.push(part);
        }
        looked.partitions = Count {
            total: starts.0.len() as u64,
            examined: starts.1.len() as u64,
        };
        if looked.parts.examined > 0 {
            looked.answered_by.push(format!("parts of {name}"));
        }
        for field in &picked.fields {
            looked.answered_by.push(format!("index {field} of {name}"));
        }
        candidates
    }

    /// Returns the first column of the sort order and its requested values, if these are few: the
    /// rows of each value lie together.
    fn leading(&self) -> Option<(&str, &[IndexValue])> {
        let streams = self.table.snapshot.streams();
        let first = streams.get(&self.table.name)?.order_by.first()?;
        self.bounds.few_of(first)
    }

    /// Returns the wanted rows of a part that is sorted by a requested column; `None` for other
    /// parts.
    fn wanted(&self, part: &Candidate<'_>) -> Option<SliceCondition> {
        let (column, values) = match (&part.rows, &part.covering) {
            (Some(_), _) => None,
            (None, Some(covering)) => self.bounds.few_of(covering.column()),
            (None, None) => self.leading(),
        }?;
        let stored = self.table.schema.field_with_name(column).ok()?.data_type();
        let is_of_type = |value: &IndexValue| match value {
            IndexValue::Text(_) => *stored == DataType::Utf8View,
            IndexValue::Integer(_) => *stored == DataType::Int64,
        };
        let is_covered = self.bounds.time.covers(part.part.time);
        let range = if is_covered {
            TimeRange::ALL
        } else {
            self.bounds.time
        };
        values
            .iter()
            .all(is_of_type)
            .then(|| SliceCondition::new(column, values, range))
    }

    /// Plans slices of these parts; `None` if there are no parts, if the slices would read too
    /// many rows, or if a page index is missing.
    async fn slices(&self, parts: &[Candidate<'_>]) -> Result<Option<PlanNode<SliceExec>>> {
        if parts.is_empty() {
            return Ok(None);
        }
        let wanted = parts.iter().map(|part| {
            let wanted = self.wanted(part).expect("BUG: it was told before");
            Ok((self.file(part)?, wanted))
        });
        let readers = self.readers();
        let Some(slices) = Slices::find(&readers, wanted.collect::<Result<_>>()?).await? else {
            return Ok(None);
        };
        let statistics = self.statistics(parts, slices.rows).to_inexact();
        let statistics = statistics.project(self.projection);
        let schemas = (
            Arc::clone(&self.table.schema),
            self.table.projected(self.projection)?,
        );
        let asked = (statistics, self.partitions);
        Ok(Some(SliceExec::plan(slices, readers, schemas, asked)))
    }

    /// Plans a scan of parts, of which an index has picked rows either in all or in none. The
    /// scan evaluates filters before it reads the other columns, unless that saves nothing:
    /// nearly all picked rows pass the filters, and a single column leaves no other column to
    /// read.
    fn scan(&self, parts: &[Candidate<'_>], range: TimeRange) -> Result<Arc<dyn ExecutionPlan>> {
        let is_late = self.projection.is_none_or(|columns| columns.len() > 1)
            && parts.iter().all(|part| part.rows.is_none());
        let mut source = ParquetSource::new(Arc::clone(&self.table.schema))
            .with_enable_page_index(true)
            .with_pushdown_filters(is_late)
            .with_parquet_file_reader_factory(Arc::new(self.readers()));
        if let Some(predicate) = self.predicate(range)? {
            source = source.with_predicate(predicate).with_pushdown_filters(true);
        }
        let rows = parts.iter().map(Candidate::rows).sum();
        let mut statistics = self.statistics(parts, rows);
        if parts.iter().any(|part| part.rows.is_some()) {
            statistics = statistics.to_inexact();
        }
        let config =
            FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
                .with_file_groups(self.groups(parts)?)
                .with_statistics(statistics)
                .with_limit(self.limit.filter(|_| range == TimeRange::ALL))
                .with_projection_indices(self.projection.cloned())?
                .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// Distributes files over the partitions of the scan, with about the same number of bytes in
    /// each. A part of one row group is read by one thread, and larger parts are split. Covering
    /// indexes are not split: the rows of a value lie together, so the other threads would open
    /// the file and find nothing.
    fn groups(&self, parts: &[Candidate<'_>]) -> Result<Vec<FileGroup>> {
        let files = parts
            .iter()
            .map(|part| self.file(part))
            .collect::<Result<Vec<_>>>()?;
        let len = |i: usize| parts[i].file().len;
        let bytes: u64 = (0..parts.len()).map(len).sum();
        if bytes < SPLIT_BYTES {
            return Ok(vec![FileGroup::new(files)]);
        }
        let is_covering = parts.iter().any(|part| part.covering.is_some());
        if !is_covering && parts.iter().any(|p| p.part.rows > ROW_GROUP_ROWS) {
            let whole = [FileGroup::new(files)];
            let split = FileGroupPartitioner::new()
                .with_target_partitions(self.partitions)
                .with_repartition_file_min_size(0)
                .repartition_file_groups(&whole);
            return Ok(split.unwrap_or_else(|| whole.to_vec()));
        }
        // Files are placed by size, the largest first, each in the group with the fewest bytes so
        // far.
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(len(*i)));
        let mut groups: Vec<(u64, Vec<usize>)> =
            vec![(0, Vec::new()); self.partitions.min(files.len())];
        for i in order {
            let least = groups
                .iter_mut()
                .min_by_key(|g| g.0)
                .expect("BUG: there is a group");
            least.0 += len(i);
            least.1.push(i);
        }
        let in_order = |mut group: Vec<usize>| {
            group.sort_unstable();
            FileGroup::new(group.into_iter().map(|i| files[i].clone()).collect())
        };
        Ok(groups
            .into_iter()
            .map(|(_, group)| in_order(group))
            .collect())
    }

    /// Returns the predicate of a time range, and of a single requested sequence number, for
    /// which it prunes pages.
    fn predicate(&self, range: TimeRange) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let (schema, seq) = (&self.table.schema, self.bounds.seq);
        let mut terms = Vec::new();
        let mut compare = |column: &str, op: Operator, value: ScalarValue| -> Result<()> {
            terms.push(binary(col(column, schema)?, op, lit(value), schema)?);
            Ok(())
        };
        let stamp = |t: i64| ScalarValue::TimestampMicrosecond(Some(t), Some("UTC".into()));
        if range.first > i64::MIN {
            compare(TIME, Operator::GtEq, stamp(range.first))?;
        }
        if range.last < i64::MAX {
            compare(TIME, Operator::LtEq, stamp(range.last))?;
        }
        if seq.0 == seq.1 {
            compare(SEQ, Operator::Eq, ScalarValue::UInt64(Some(seq.0)))?;
        }
        Ok((!terms.is_empty()).then(|| conjunction(terms)))
    }

    fn file(&self, candidate: &Candidate<'_>) -> Result<PartitionedFile> {
        let (part, file) = (candidate.part, candidate.file());
        let path = self.table.snapshot.data_dir().join(&file.path);
        let meta = ObjectMeta {
            location: location(&path),
            // A constant is enough: a part never changes, and its store never reuses the name.
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size: file.len,
            e_tag: Some(format!("{:08x}", file.crc)),
            version: None,
        };
        let rows = match &candidate.covering {
            Some(covering) => FileContent::Covering(covering.clone()),
            None => FileContent::Part(file.clone()),
        };
        let file = PartitionedFile::new_from_meta(meta).with_extension(rows);
        let statistics = self.table.statistics_of(part.rows, part.time);
        Ok(match &candidate.rows {
            None => file.with_statistics(Arc::new(statistics)),
            Some(rows) => file
                .with_extension(indexed::selection(rows, part))
                .with_statistics(Arc::new(statistics.to_inexact())),
        })
    }

    /// Returns the statistics of `rows` rows of these parts.
    fn statistics(&self, parts: &[Candidate<'_>], rows: u64) -> Statistics {
        let time = parts.iter().fold((i64::MAX, i64::MIN), |t, p| {
            (t.0.min(p.part.time.0), t.1.max(p.part.time.1))
        });
        self.table.statistics_of(rows, time)
    }

    fn readers(&self) -> PartReaders {
        PartReaders {
            snapshot: Arc::clone(&self.table.snapshot),
            footers: Arc::clone(&self.table.files.footers),
            dictionaries: Arc::clone(&self.table.files.dictionaries),
        }
    }
}

/// Returns the name under which the metadata of a file is cached. The file is not opened by this
/// name, so it only has to be unique. It also serves a store behind `..`, for which an object
/// store has no name.
fn location(path: &Path) -> ObjectPath {
    let name = |part: Component<'_>| {
        part.as_os_str()
            .as_encoded_bytes()
            .escape_ascii()
            .to_string()
    };
    path.components().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_name_of_its_own() {
        let paths = [
            "/a/b",
            "/a/../b",
            "/b",
            "/a/./c",
            "/a/.../b",
            "/a/%2E%2E/b",
            "/a b/c",
            "/\u{e4}/\u{1f9ea}",
            "/a\\b",
            "relative/b",
            "../b",
        ];
        let names: BTreeSet<_> = paths.map(|path| location(Path::new(path))).into();
        assert_eq!(names.len(), paths.len(), "{names:?}");
    }
}
