use super::*;
use crate::cells::{Filter, Projection};
use crate::testing::{
    AccessEvent, TestRandom, batch, default_definitions, events, filtered, keyed, zoned,
};
use crate::{TileFile, cascade};
use chrono_tz::Tz;

fn cells_of(definition: &Definition, all: &[AccessEvent]) -> CellSet {
    cascade(&[definition], &[batch(all)])
        .expect("cells")
        .remove(0)
}

/// Reads the cells of a partition from its section of a tile, if the tile has one.
fn read(definition: &Definition, image: &TileImage, at: (Level, i64)) -> Option<Cells> {
    let (level, partition_us) = at;
    let section = image
        .sections
        .iter()
        .find(|s| s.level == level.as_str() && s.partition_us == partition_us)?;
    let file = TileFile::open(Arc::new(definition.clone()), image.bytes.clone().into());
    let cells = file
        .expect("a tile")
        .read(section, &Projection::all(definition), &Filter::ALL);
    Some(cells.expect("cells"))
}

/// Encodes a cascade of the events of one partition.
fn at_once(definition: &Definition, all: &[AccessEvent], at: (Level, i64)) -> TileImage {
    let (level, partition_us) = at;
    let calendar = definition.calendar();
    let partition =
        |e: &AccessEvent| calendar.partition(level, calendar.bucket(level, e.time).start_us);
    let own = all.iter().filter(|e| partition(e) == partition_us);
    let mut set = cells_of(definition, &own.cloned().collect::<Vec<_>>());
    set.levels.retain(|(l, _)| *l == level);
    encode(definition, &set)
}

/// Merges cells a few at a time, in random order, until one file remains.
fn in_some_order(
    definition: &Definition,
    mut remaining: Vec<Cells>,
    at: (Level, i64),
    random: &mut TestRandom,
) -> TileImage {
    loop {
        let mut some = Vec::new();
        for _ in 0..2 + random.below(3) {
            if !remaining.is_empty() {
                some.push(remaining.swap_remove(random.below(remaining.len() as u64) as usize));
            }
        }
        let image = merge_sections(definition, at.0, some);
        if remaining.is_empty() {
            return image;
        }
        remaining.push(read(definition, &image, at).expect("what was merged"));
    }
}

fn check(definition: &Definition, all: &[AccessEvent], random: &mut TestRandom) {
    let mut tiles = Vec::new();
    let mut rest = all;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
        tiles.push(encode(definition, &cells_of(definition, piece)));
        rest = after;
    }
    for section in &encode(definition, &cells_of(definition, all)).sections {
        let level = Level::from_name(&section.level).expect("a level");
        let at = (level, section.partition_us);
        let expected = at_once(definition, all, at);
        assert_eq!(expected.events, section.events);
        for _ in 0..2 {
            let inputs = tiles
                .iter()
                .filter_map(|t| read(definition, t, at))
                .collect();
            let merged = in_some_order(definition, inputs, at, random);
            assert_eq!(merged.sections, expected.sections);
            assert!(merged.bytes == expected.bytes, "{at:?}");
        }
    }
}

#[test]
fn sections_merged_in_any_order_are_the_bytes_of_one_cascade() {
    let mut random = TestRandom(31);
    for zone in [
        Tz::UTC,
        Tz::named("Europe/Berlin"),
        Tz::named("Asia/Kolkata"),
    ] {
        for (len, days, paths, hosts) in [(1, 1, 1, 1), (300, 12, 4, 90), (1_500, 3, 6, 900)] {
            let all = events(&mut random, len, days, paths, hosts);
            check(
                &filtered(&["site", "path"], zone, "hour"),
                &all,
                &mut random,
            );
            check(&filtered(&["status"], zone, "day"), &all, &mut random);
            check(&zoned(&[], zone, "day"), &all, &mut random);
            check(&keyed(zone), &all, &mut random);
        }
    }
}

#[test]
fn sections_of_many_blocks_merge_too() {
    let mut random = TestRandom(32);
    let all = events(&mut random, 9_000, 1, 4_000, 9_000);
    check(&default_definitions()[0], &all, &mut random);
}

#[test]
fn nothing_merges_to_nothing() {
    let image = merge_sections(&default_definitions()[0], Level::Day, Vec::new());
    assert_eq!((image.bytes.len(), image.sections.len()), (0, 0));
}
