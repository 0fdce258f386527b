use super::*;
use crate::cascade;
use crate::cells::KeyValue;
use crate::cells::{Filter, Projection};
use crate::error::Result;
use crate::read::{compare, merge};
use crate::testing::{
    Event, Random, batch, default_definitions, events, filtered, keyed, recompute, rows,
    without_limit, zoned,
};
use bytes::Bytes;
use chrono_tz::Tz;
use std::sync::Arc;

fn tile(definition: &Definition, all: &[Event]) -> (TileImage, TileFile) {
    let set = cascade(&[definition], &[batch(all)])
        .expect("cells")
        .remove(0);
    let image = encode(definition, &set);
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

/// The defaults, one definition with keys of every kind, one with measures of every kind.
fn every_kind() -> Vec<Definition> {
    let mut definitions = default_definitions();
    definitions.push(keyed(Tz::Europe__Berlin));
    definitions.push(filtered(&["site", "path"], Tz::UTC, "hour"));
    definitions
}

fn sample() -> Vec<Event> {
    events(&mut Random(21), 2_500, 40, 30, 900)
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
    for definition in [
        zoned(&["site", "path"], Tz::Europe__Berlin, "hour"),
        zoned(&["site", "status"], Tz::UTC, "minute"),
    ] {
        let (image, file) = tile(&definition, &all);
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
    let one = &events(&mut Random(2), 40, 1, 5, 5)[30..31];
    for definition in default_definitions() {
        let (image, _) = tile(&definition, one);
        assert_eq!(image.sections.len(), 6);
        assert!(image.bytes.len() < 500, "{} bytes", image.bytes.len());
    }
}

#[test]
fn levels_with_the_same_cells_share_their_payload() {
    // A single day within one week, month and year.
    let (image, _) = tile(
        &default_definitions()[0],
        &events(&mut Random(3), 2_000, 1, 50, 50),
    );
    let bytes = |level| sections(&image, level)[0].len;
    assert!(bytes(Level::Day) > 2_000);
    for level in [Level::Week, Level::Month, Level::Year] {
        assert!(bytes(level) < 40, "{level}: {} bytes", bytes(level));
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let mut random = Random(13);
    for definition in every_kind() {
        let (image, _) = tile(&definition, &sample()[..400]);
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
    let mut random = Random(17);
    for definition in every_kind() {
        let (image, file) = tile(&definition, &sample()[..300]);
        let mut blocks = vec![file.keys_at.clone(), file.coupons_at.clone()];
        for section in &image.sections {
            let head = file.head(section, section.offset as usize).expect("a head");
            blocks
                .push(section.offset as usize..head.payload.start.max(section.offset as usize + 8));
            blocks.push(head.payload);
        }
        for _ in 0..600 {
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
                }
            }
        }
    }
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

/// Events of which the files under `fixtures` were written, by the version before filters.
fn recorded() -> Vec<Event> {
    (0..400)
        .map(|i: i64| Event {
            time: 1_729_814_400_000_000 + i * 977_000_000,
            site: None,
            path: Some(format!("/page/{}", i % 11)),
            status: Some([200, 404, 500][i as usize % 3]),
            method: Some(["GET", "POST"][i as usize % 2].to_owned()),
            host: Some(format!("10.0.{}.{}", i % 2, i % 149)),
            size: (i % 13 > 0).then_some(i * i * 37),
        })
        .collect()
}

#[test]
fn tiles_of_earlier_versions_are_read_and_written_the_same() {
    let files = [
        &include_bytes!("fixtures/stats.tile")[..],
        include_bytes!("fixtures/traffic.tile"),
    ];
    let definitions = default_definitions().into_iter().map(without_limit);
    for (definition, bytes) in definitions.zip(files) {
        let definition = &definition;
        let (image, _) = tile(definition, &recorded());
        let file = open(definition, bytes).expect("the definition is known by the same hash");
        image
            .sections
            .iter()
            .for_each(|s| file.check(s).expect("whole"));
        assert_eq!(image.bytes, bytes, "{}", definition.name());
    }
}
