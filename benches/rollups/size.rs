//! Size of cells on disk: by rollup, level and state.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use aggregator::{Definition, SectionSizes, TileFile};
use storage::{RollupMeta, Snapshot};

use crate::account::Accounted;
use crate::metered::LEVELS;
use crate::{Settings, files};

/// The bytes of one level of a rollup.
#[derive(Debug, Default)]
struct LevelSizes {
    cells: u64,
    sections: u64,
    sum: SectionSizes,
    /// Bytes of the dictionaries of keys and of coupons. Where sections share one, each has a
    /// share by its cells.
    keys: f64,
    coupons: f64,
}

impl LevelSizes {
    fn add(&mut self, sizes: SectionSizes) {
        self.sections += 1;
        self.sum.head += sizes.head;
        self.sum.shape += sizes.shape;
        self.sum.counts += sizes.counts;
        self.sum.frame += sizes.frame;
        if self.sum.states.is_empty() {
            self.sum.states = sizes.states;
        } else {
            let both = self.sum.states.iter_mut().zip(sizes.states);
            both.for_each(|((_, sum), (_, bytes))| *sum += bytes);
        }
    }

    fn own_bytes(&self) -> u64 {
        let states: u64 = self.sum.states.iter().map(|(_, bytes)| bytes).sum();
        self.sum.head + self.sum.shape + self.sum.counts + self.sum.frame + states
    }

    /// Returns the bytes of the states whose names begin so.
    fn state(&self, begins: &str) -> u64 {
        let states = self.sum.states.iter();
        let named = states.filter(|(name, _)| name.starts_with(begins));
        named.map(|(_, bytes)| bytes).sum()
    }
}

/// Prints the sizes before and after everything is compacted; of the store of `seal` too, if it
/// is there.
pub(crate) fn measure(s: &Settings) {
    print_both(s, &s.imported());
    if s.history().exists() {
        print_both(s, &s.history());
    }
}

fn print_both(s: &Settings, from: &Path) {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let data = temporary.path().join("size");
    files::link(from, &data);
    let accounted = Accounted::open(&data);
    println!("  {} as it was left", from.display());
    print(&accounted.store.snapshot());
    let cost = accounted.compact(true);
    if cost.manifest.files == 0 {
        return println!("  nothing is left to compact");
    }
    println!(
        "  compacted: {} cells became {}, {} bytes read, {} written, {} edits, {:.2} CPU s",
        cost.merged_cells,
        cost.merged_into_cells,
        cost.tiles.read,
        cost.tiles.written,
        cost.manifest.files,
        cost.cpu_us() / 1e6
    );
    print(&accounted.store.snapshot());
}

fn print(snapshot: &Snapshot) {
    println!(
        "  rollup   level  sections     cells cells/event | bytes per cell: shape counts    sum  hist distinct  rest   own |  keys coupons   all | B/event"
    );
    let (mut all, mut files) = (0.0, 0.0);
    for rollup in &snapshot.manifest().rollups {
        let events: u64 = snapshot
            .manifest()
            .tiles_of(rollup.id)
            .map(|t| t.events)
            .sum();
        let mut levels = sizes(snapshot, rollup);
        let (mut cells, mut bytes) = (0, 0.0);
        for level in LEVELS {
            let sizes = levels.remove(level).unwrap_or_default();
            println!("{}", row(rollup, level, &sizes, events));
            cells += sizes.cells;
            bytes += sizes.own_bytes() as f64 + sizes.keys + sizes.coupons;
        }
        println!(
            "  {:<8} together {cells:>15} {:>11.4} | {:>60.2} | {:>21.2} B/event",
            rollup.name.as_str(),
            cells as f64 / events as f64,
            bytes / cells as f64,
            bytes / events as f64,
        );
        let on_disk = snapshot
            .manifest()
            .tiles_of(rollup.id)
            .flat_map(|t| &t.files);
        let on_disk: u64 = on_disk.map(|f| f.file.len).sum();
        println!(
            "  {:<8} files have {:.2} B/event: {:.2} of them are sections that compaction gave up and headers",
            rollup.name.as_str(),
            on_disk as f64 / events as f64,
            (on_disk as f64 - bytes) / events as f64,
        );
        all += bytes / events as f64;
        files += on_disk as f64 / events as f64;
    }
    println!("  both {all:.2} B/event, on disk {files:.2}");
}

fn row(rollup: &RollupMeta, level: &str, sizes: &LevelSizes, events: u64) -> String {
    let per_cell = |bytes: f64| bytes / sizes.cells as f64;
    let own = sizes.own_bytes() as f64;
    let all = own + sizes.keys + sizes.coupons;
    format!(
        "  {:<8} {level:<6} {:>8} {:>9} {:>11.4} | {:>21.2} {:>6.2} {:>6.2} {:>5.2} {:>8.2} {:>5.2} {:>5.2} | {:>5.2} {:>7.2} {:>5.2} | {:>7.3}",
        rollup.name.as_str(),
        sizes.sections,
        sizes.cells,
        sizes.cells as f64 / events as f64,
        per_cell(sizes.sum.shape as f64),
        per_cell(sizes.sum.counts as f64),
        per_cell(sizes.state("sum") as f64),
        per_cell(sizes.state("histogram") as f64),
        per_cell(sizes.state("distinct") as f64),
        per_cell((sizes.sum.head + sizes.sum.frame) as f64),
        per_cell(own),
        per_cell(sizes.keys),
        per_cell(sizes.coupons),
        per_cell(all),
        all / events as f64,
    )
}

fn sizes(snapshot: &Snapshot, rollup: &RollupMeta) -> BTreeMap<String, LevelSizes> {
    let definition = Arc::new(Definition::from_meta(rollup).expect("a definition"));
    let mut levels: BTreeMap<String, LevelSizes> = BTreeMap::new();
    let tiles = snapshot.manifest().tiles_of(rollup.id);
    for file in tiles.flat_map(|t| &t.files) {
        let bytes = snapshot.read(&file.file).expect("whole");
        let tile = TileFile::open(Arc::clone(&definition), bytes).expect("a tile");
        let (keys, coupons) = tile.dictionary_sizes();
        let in_file: u64 = file.sections.iter().map(|s| s.cells).sum();
        for section in &file.sections {
            let level = levels.entry(section.level.clone()).or_default();
            let share = section.cells as f64 / in_file as f64;
            level.cells += section.cells;
            level.keys += keys as f64 * share;
            level.coupons += coupons as f64 * share;
            level.add(tile.sizes(section).expect("whole"));
        }
    }
    levels
}
