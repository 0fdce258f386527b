use super::*;
use crate::bytes_io::ByteReader;
use crate::cascade;
use crate::cells::{Filter, Projection};
use crate::error::Result;
use crate::keys::KeyValue;
use crate::read::{compare, merge};
use crate::testing::{
    AccessEvent, TestRandom, batch, default_definitions, definition, events, filtered, is_full,
    keyed, recompute, rows, zoned,
};
use bytes::Bytes;
use chrono_tz::Tz;
use serde_json::json;
use std::sync::Arc;

fn tile(definition: &Definition, all: &[AccessEvent]) -> (TileImage, TileFile) {
    in_blocks(definition, all, BLOCK_CELLS_MAX)
}

fn in_blocks(
    definition: &Definition,
    all: &[AccessEvent],
    block_cells: usize,
) -> (TileImage, TileFile) {
    let set = cascade(&[definition], &[batch(all)])
        .expect("cells")
        .remove(0);
    let image = encode_in_blocks(definition, &set, block_cells);
    let file = open(definition, &image.bytes).expect("a tile");
    (image, file)
}

fn open(definition: &Definition, bytes: &[u8]) -> Result<TileFile> {
    TileFile::open(Arc::new(definition.clone()), Bytes::copy_from_slice(bytes))
}

fn sections(image: &TileImage, level: Level) -> Vec<&Section> {
    image
        .sections
        .iter()
        .filter(|s| s.level == level.as_str())
        .collect()
}

/// Returns the defaults, a definition with keys of every kind, and one with measures of every kind.
fn every_kind() -> Vec<Definition> {
    let mut definitions = default_definitions();
    definitions.push(keyed(Tz::named("Europe/Berlin")));
    definitions.push(filtered(&["site", "path"], Tz::UTC, "hour"));
    definitions
}

fn sample() -> Vec<AccessEvent> {
    events(&mut TestRandom(21), 2_500, 40, 30, 900)
}

#[test]
fn every_level_holds_every_event_once() {
    for definition in every_kind() {
        let (image, file) = tile(&definition, &sample());
        assert_eq!(image.events, 2_500);
        let mut end = 0;
        for level in definition.levels() {
            let own = sections(&image, *level);
            assert_eq!(own.iter().map(|s| s.events).sum::<u64>(), 2_500, "{level}");
            let mut partitions: Vec<i64> = own.iter().map(|s| s.partition_us).collect();
            partitions.dedup();
            assert_eq!(partitions.len(), own.len());
            for section in own {
                let cells = file
                    .read(section, &Projection::all(&definition), &Filter::ALL)
                    .expect("cells");
                assert_eq!(
                    (cells.len() as u64, cells.events()),
                    (section.cells, section.events)
                );
                assert_eq!(
                    cells.bucket_range(),
                    Some((section.bucket_min_us, section.bucket_max_us))
                );
                let partition = |b: &i64| definition.calendar().partition(*level, *b);
                assert!(
                    cells
                        .bucket
                        .iter()
                        .all(|b| partition(b) == section.partition_us)
                );
                end = end.max(section.offset + section.len);
            }
        }
        assert_eq!(end, image.bytes.len() as u64);
    }
}

#[test]
fn a_filter_and_a_projection_read_what_they_name() {
    let all = sample();
    for (definition, block_cells) in [
        (
            zoned(&["site", "path"], Tz::named("Europe/Berlin"), "hour"),
            4_096,
        ),
        (
            zoned(&["site", "path"], Tz::named("Europe/Berlin"), "hour"),
            50,
        ),
        (zoned(&["site", "status"], Tz::UTC, "minute"), 7),
        (filtered(&["site", "path"], Tz::UTC, "hour"), 60),
    ] {
        let (image, file) = in_blocks(&definition, &all, block_cells);
        let second = &definition.by()[1].name;
        let value = if second == "path" {
            KeyValue::Text("/page/3".to_owned())
        } else {
            KeyValue::Int(404)
        };
        let from_us = 1_729_814_400_000_000 + 3 * 86_400_000_000;
        let filters = [
            Filter::ALL,
            Filter {
                from_us,
                to_us: from_us + 20 * 86_400_000_000,
                keys: Vec::new(),
            },
            Filter {
                keys: vec![None, Some(vec![value.clone()])],
                ..Filter::ALL
            },
            Filter {
                keys: vec![
                    Some(vec![KeyValue::Null]),
                    Some(vec![value, KeyValue::Null]),
                ],
                ..Filter::ALL
            },
            Filter {
                keys: vec![Some(Vec::new())],
                ..Filter::ALL
            },
        ];
        for level in definition.levels() {
            let expected = recompute(&definition, *level, &all);
            for filter in &filters {
                let read = |projection: &Projection| {
                    let read = |s: &&Section| file.read(s, projection, filter).expect("cells");
                    let cells: Vec<Cells> = sections(&image, *level).iter().map(read).collect();
                    merge(&definition, *level, &cells.iter().collect::<Vec<_>>())
                };
                let mut wanted = expected.clone();
                wanted.retain(|(bucket, key), _| {
                    let passes = |(k, list): (&KeyValue, &Option<Vec<KeyValue>>)| {
                        list.as_ref().is_none_or(|l| l.contains(k))
                    };
                    filter.from_us <= *bucket
                        && *bucket < filter.to_us
                        && key.iter().zip(&filter.keys).all(passes)
                });
                let cells = read(&Projection::all(&definition));
                assert_eq!(
                    rows(&definition, *level, &cells),
                    wanted,
                    "{level} {filter:?}"
                );
                let few = read(
                    &Projection::of_columns(&definition, *level, &["hits", "bytes"])
                        .expect("columns"),
                );
                assert_eq!(few.columns.iter().flatten().count(), 1);
                assert_eq!(compare(&definition, *level, &few, &cells).total, 0);
                // Memtable cells are filtered the same way.
                let set = cascade(&[&definition], &[batch(&all)])
                    .expect("cells")
                    .remove(0);
                let projection = Projection::all(&definition);
                let fresh = set
                    .level(*level)
                    .expect("the level")
                    .filter(filter, &projection);
                assert_eq!(rows(&definition, *level, &fresh), wanted);
            }
        }
    }
}

#[test]
fn one_late_event_costs_a_few_hundred_bytes() {
    let one = &events(&mut TestRandom(2), 40, 1, 5, 5)[30..31];
    for definition in default_definitions() {
        let (image, _) = tile(&definition, one);
        assert_eq!(image.sections.len(), 6);
        assert!(image.bytes.len() < 500, "{} bytes", image.bytes.len());
    }
}

#[test]
fn levels_with_the_same_cells_share_their_payload() {
    // All events are of one day, and so of one week, month and year.
    let (image, _) = tile(
        &default_definitions()[0],
        &events(&mut TestRandom(3), 2_000, 1, 50, 50),
    );
    let bytes = |level| sections(&image, level)[0].len;
    assert!(bytes(Level::Day) > 2_000);
    for level in [Level::Week, Level::Month, Level::Year] {
        assert!(bytes(level) < 40, "{level}: {} bytes", bytes(level));
    }
}

#[test]
fn levels_with_the_same_blocks_share_them() {
    let all = events(&mut TestRandom(3), 2_000, 1, 50, 50);
    let (image, _) = in_blocks(&default_definitions()[0], &all, 10);
    let bytes = |level| sections(&image, level)[0].len;
    let blocks = sections(&image, Level::Day)[0].cells.div_ceil(10);
    assert!(bytes(Level::Day) > 2_000);
    for level in [Level::Week, Level::Month, Level::Year] {
        let most = 30 + 12 * blocks;
        assert!(bytes(level) < most, "{level}: {} bytes", bytes(level));
    }
}

#[test]
fn blocks_that_cannot_hold_passing_cells_are_not_read() {
    const CELLS: usize = 8;
    let definition = zoned(&["path"], Tz::UTC, "hour");
    let (image, file) = in_blocks(&definition, &sample(), CELLS);
    let projection = Projection::all(&definition);
    let of_key = Filter {
        keys: vec![Some(vec![KeyValue::Text("/page/3".to_owned())])],
        ..Filter::ALL
    };
    for (level, is_by_key) in [
        (Level::Minute, false),
        (Level::Hour, false),
        (Level::Hour, true),
        (Level::Day, true),
        (Level::Week, true),
    ] {
        let section = sections(&image, level)[0];
        let from_us = section.bucket_max_us;
        let filter = match is_by_key {
            true => of_key.clone(),
            false => Filter {
                from_us,
                to_us: from_us + 1,
                keys: Vec::new(),
            },
        };
        let expected = file.read(section, &projection, &filter).expect("cells");
        let head = file.head(section, section.offset as usize).expect("a head");
        let begins_run = |pair: &&[TileBlock]| pair[0].ranks.end <= pair[1].ranks.start;
        let runs = match level {
            Level::Hour => 1 + head.blocks.windows(2).filter(begins_run).count(),
            _ => 1,
        };
        let least = (section.cells as usize).div_ceil(CELLS);
        assert!(
            (least..least + runs).contains(&head.blocks.len()),
            "{level}"
        );
        assert_eq!(runs > 2, level == Level::Hour);
        // A block was read when damage to it makes the read fail.
        let mut read = 0;
        for block in &head.blocks {
            let mut bytes = image.bytes.clone();
            bytes[block.payload.start] ^= 1;
            let file = open(&definition, &bytes).expect("its header is whole");
            assert!(file.check(section).is_err());
            match file.read(section, &projection, &filter) {
                Ok(found) => assert_eq!(found.columns, expected.columns),
                Err(_) => read += 1,
            }
        }
        let most = match (level, is_by_key) {
            (Level::Hour, true) => 2 * runs,
            (Level::Hour, false) => HOUR_RUN_BLOCKS,
            _ => expected.len().div_ceil(CELLS) + 1,
        };
        assert!(
            1 <= read && read <= most && most < head.blocks.len(),
            "{level}: {read}"
        );
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let mut random = TestRandom(13);
    for definition in every_kind() {
        let (image, _) = in_blocks(&definition, &sample()[..400], 64);
        for _ in 0..150 {
            let mut bytes = image.bytes.clone();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
            let failed = match open(&definition, &bytes) {
                Err(_) => true,
                Ok(file) => image.sections.iter().any(|s| file.check(s).is_err()),
            };
            assert!(failed, "the byte at {at} may be anything");
            bytes.truncate(at);
            if let Ok(file) = open(&definition, &bytes) {
                assert!(
                    image.sections.iter().any(|s| file.check(s).is_err()),
                    "cut at {at}"
                );
            }
        }
    }
}

#[test]
fn damage_that_the_checksums_hide_is_no_panic_either() {
    let mut random = TestRandom(17);
    for definition in every_kind() {
        let (image, file) = in_blocks(&definition, &sample()[..300], 64);
        let mut blocks = vec![file.keys_at.clone(), file.coupons_at.clone()];
        for section in &image.sections {
            let at = section.offset as usize;
            let mut reader = ByteReader::new(&image.bytes[at + 4..], at + 4);
            let len = reader.varint_len().expect("a length");
            blocks.push(at..reader.offset() + len);
            let head = file.head(section, at).expect("a head");
            blocks.extend(head.blocks.into_iter().map(|b| b.payload));
        }
        for _ in 0..if is_full() { 2_000 } else { 200 } {
            let mut bytes = image.bytes.clone();
            let block = blocks[random.below(blocks.len() as u64) as usize].clone();
            for _ in 0..1 + random.below(3) {
                let at = block.start + 4 + random.below(block.len() as u64 - 4) as usize;
                bytes[at] = random.next() as u8;
            }
            let crc = crc32c::crc32c(&bytes[block.start + 4..block.end]).to_le_bytes();
            bytes[block.start..block.start + 4].copy_from_slice(&crc);
            let Ok(file) = open(&definition, &bytes) else {
                continue;
            };
            for section in &image.sections {
                let level = Level::from_name(&section.level).expect("a level");
                if let Ok(cells) = file.read(section, &Projection::all(&definition), &Filter::ALL) {
                    let fields = crate::columns(&definition, level);
                    let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
                    let _ = crate::finalise(&definition, level, &cells, &names);
                    assert_eq!(
                        (cells.len() as u64, cells.events()),
                        (section.cells, section.events)
                    );
                }
            }
        }
    }
}

#[test]
fn a_block_or_a_section_that_counts_otherwise_than_is_said_is_refused() {
    let definition = definition(json!({
        "stream": "events", "by": ["path"], "measures": { "hits": "count" },
    }));
    let one = sample().swap_remove(0);
    let (image, file) = tile(&definition, &vec![one.clone(); 2]);
    let (other, _) = tile(&definition, &vec![one; 3]);
    let section = &image.sections[0];
    let head = file.head(section, section.offset as usize).expect("a head");
    let block = head.blocks[0].payload.clone();
    for said in [
        Section {
            events: 3,
            ..section.clone()
        },
        Section {
            cells: 2,
            ..section.clone()
        },
    ] {
        let error = file.check(&said).expect_err("one cell of two events");
        assert!(error.to_string().contains("manifest entry"), "{error}");
    }
    let mut bytes = image.bytes.clone();
    bytes[block.clone()].copy_from_slice(&other.bytes[block]);
    let file = open(&definition, &bytes).expect("its header is whole");
    let error = file.check(section).expect_err("three events are not two");
    assert!(
        error.to_string().contains("differ from its head"),
        "{error}"
    );
}

#[test]
fn a_tile_of_another_definition_is_refused() {
    let [stats, traffic] = &default_definitions()[..] else {
        panic!("two defaults")
    };
    let (image, _) = tile(stats, &sample()[..10]);
    assert!(open(traffic, &image.bytes).is_err());
    assert!(open(stats, &[]).is_err());
}

/// Every byte of a file is counted once, in files of several blocks and with blocks that sections
/// share.
#[test]
fn the_sizes_of_its_parts_are_the_file() {
    // The week, month and year of one day share their blocks.
    let day = events(&mut TestRandom(22), 2_500, 1, 30, 900);
    for (all, block_cells) in [(&day, BLOCK_CELLS_MAX), (&sample(), 100)] {
        for definition in every_kind() {
            let (image, file) = in_blocks(&definition, all, block_cells);
            let (keys, coupons) = file.dictionary_sizes();
            let mut counted = file.keys_at.start as u64 + keys + coupons;
            for section in &image.sections {
                let sizes = file.sizes(section).expect("whole");
                let states: u64 = sizes.states.iter().map(|(_, bytes)| bytes).sum();
                let sum = sizes.head + sizes.shape + sizes.counts + states + sizes.frame;
                assert_eq!(sum, section.len, "{} {section:?}", definition.name());
                counted += sum;
            }
            assert_eq!(counted, image.bytes.len() as u64);
        }
    }
}

#[test]
fn the_sizes_name_the_states_of_a_level() {
    let definition = &default_definitions()[0];
    let (image, file) = tile(definition, &sample());
    let names = |level| -> Vec<String> {
        let sizes = file.sizes(sections(&image, level)[0]).expect("whole");
        let all = sizes.states.iter();
        assert!(all.clone().all(|(_, bytes)| *bytes > 0));
        assert!(sizes.shape > 0 && sizes.counts > 0);
        all.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(Level::Minute), ["sum(response_size)"]);
    assert_eq!(
        names(Level::Hour),
        ["sum(response_size)", "histogram", "distinct(host)"]
    );
}

#[test]
fn a_tile_of_another_version_is_refused() {
    let (image, _) = tile(&default_definitions()[0], &sample());
    for version in [0, VERSION + 1, u16::MAX] {
        let mut bytes = image.bytes.clone();
        bytes[6..8].copy_from_slice(&version.to_le_bytes());
        let error = open(&default_definitions()[0], &bytes).expect_err("unknown");
        let wanted = format!("its version is {version}, this program reads 2 to {VERSION};");
        assert!(error.to_string().contains(&wanted), "{error}");
    }
}
