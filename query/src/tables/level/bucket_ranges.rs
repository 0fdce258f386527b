//! Cuts the buckets of a level into ranges that are read independently of each other.
//!
//! # Invariants
//! * Ranges are adjacent and cover all requested buckets. Sections and chunks that may hold cells
//!   of the same bucket lie in the same range, so cells are merged as if everything were read at
//!   once.
//! * The ranges of a share are consecutive, so the rows of the share are in the order of buckets.

use std::ops::Range;

use aggregator::Bucket;

use super::read::Work;

/// Number of cells from which a merge of their own, and a thread, is worth its cost.
const CELLS: u64 = 32 * 1024;

/// Range of buckets: those of a section or a chunk, or those that are read by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BucketRange {
    /// Starts of buckets, microseconds since 1970.
    buckets: Range<i64>,
    /// Estimated number of cells.
    cells: u64,
}

/// Returns the bucket intervals of each thread, at most `threads` of them. A thread reads its
/// intervals one after the other.
pub(super) fn shares(work: &Work, threads: usize) -> Vec<Vec<Bucket>> {
    let all = work.filter.from_us..work.filter.to_us;
    let stretches = if work.grain.buckets && work.peers.is_empty() {
        cut(spans(work), all, CELLS)
    } else {
        // The merge spans all buckets, or the buckets of peers are not known yet: they cannot be
        // cut.
        vec![BucketRange {
            buckets: all,
            cells: 0,
        }]
    };
    let shares = dealt(stretches, threads, CELLS);
    let buckets = |stretch: BucketRange| Bucket {
        start_us: stretch.buckets.start,
        end_us: stretch.buckets.end,
    };
    shares
        .into_iter()
        .map(|share| share.into_iter().map(buckets).collect())
        .collect()
}

/// Returns the ranges of the sources of cells: sections of tiles, and chunks.
fn spans(work: &Work) -> Vec<BucketRange> {
    let sections = work.files.iter().flat_map(|(_, sections)| sections);
    let sections = sections.map(|section| BucketRange {
        buckets: section.bucket_min_us..section.bucket_max_us.saturating_add(1),
        cells: section.cells,
    });
    let calendar = work.definition.calendar();
    let bucket = |at_us| calendar.bucket(work.level, at_us).start_us;
    let chunks = work.snapshot.chunks(work.definition.stream().as_str());
    let chunks = chunks.iter().map(|chunk| BucketRange {
        buckets: bucket(chunk.time.0)..bucket(chunk.time.1).saturating_add(1),
        cells: chunk.events.num_rows() as u64,
    });
    sections.chain(chunks).collect()
}

/// Cuts `all` into ranges of at least `least` cells, where no span crosses the cut. The last
/// range may have fewer cells.
fn cut(mut spans: Vec<BucketRange>, all: Range<i64>, least: u64) -> Vec<BucketRange> {
    spans.sort_unstable_by_key(|span| span.buckets.start);
    let mut stretches = Vec::new();
    let (mut start, mut cells, mut reach) = (all.start, 0, i64::MIN);
    for span in spans {
        let at = span.buckets.start;
        if cells >= least && at >= reach && at > start && at < all.end {
            stretches.push(BucketRange {
                buckets: start..at,
                cells,
            });
            (start, cells) = (at, 0);
        }
        reach = reach.max(span.buckets.end);
        cells += span.cells;
    }
    stretches.push(BucketRange {
        buckets: start..all.end,
        cells,
    });
    stretches
}

/// Distributes ranges over at most `threads` shares with about the same number of cells. There
/// are fewer shares if their average would be below `least` cells.
fn dealt(stretches: Vec<BucketRange>, threads: usize, least: u64) -> Vec<Vec<BucketRange>> {
    let total: u64 = stretches.iter().map(|stretch| stretch.cells).sum();
    let shares = (threads as u64).min(total / least).max(1);
    let mut dealt = vec![Vec::new()];
    let mut done = 0;
    for stretch in stretches {
        let begun = dealt.len() as u64;
        let share = dealt.last_mut().expect("BUG: there is one");
        let is_full = !share.is_empty() && done >= total / shares * begun;
        done += stretch.cells;
        if is_full && begun < shares {
            dealt.push(vec![stretch]);
        } else {
            share.push(stretch);
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_bucket_of_a_span_lies_in_one_stretch_and_stretches_lie_side_by_side(
            spans in prop::collection::vec((-50i64..50, 0i64..20, 0u64..100), 0..20),
            (from, len) in (-40i64..40, 1i64..60),
            (least, threads) in (1u64..300, 1usize..5),
        ) {
            let spans: Vec<BucketRange> = spans
                .into_iter()
                .map(|(first, len, cells)| BucketRange { buckets: first..first + len + 1, cells })
                .collect();
            let all = from..from + len;
            let shares = dealt(cut(spans.clone(), all.clone(), least), threads, least);
            prop_assert!(shares.len() <= threads);
            prop_assert!(shares.iter().all(|share| !share.is_empty()));
            let stretches: Vec<BucketRange> = shares.into_iter().flatten().collect();
            prop_assert_eq!(stretches[0].buckets.start, all.start);
            prop_assert_eq!(stretches[stretches.len() - 1].buckets.end, all.end);
            for pair in stretches.windows(2) {
                prop_assert_eq!(pair[0].buckets.end, pair[1].buckets.start);
                prop_assert!(!pair[0].buckets.is_empty());
            }
            for span in spans {
                let within = span.buckets.start.max(all.start)..span.buckets.end.min(all.end);
                let meets = |stretch: &&BucketRange| {
                    stretch.buckets.start < within.end && within.start < stretch.buckets.end
                };
                prop_assert!(within.is_empty() || stretches.iter().filter(meets).count() == 1);
            }
        }
    }

    #[test]
    fn days_are_dealt_to_threads_by_their_cells() {
        let spans = |cells: u64| {
            (0..14).map(move |day| BucketRange {
                buckets: day..day + 1,
                cells,
            })
        };
        let days = |shares: Vec<Vec<BucketRange>>| -> Vec<Vec<Range<i64>>> {
            let ranges = |share: Vec<BucketRange>| share.into_iter().map(|s| s.buckets).collect();
            shares.into_iter().map(ranges).collect()
        };
        let shares = dealt(cut(spans(100).collect(), -5..20, 100), 2, 100);
        let first: Vec<Range<i64>> = [-5..1, 1..2, 2..3, 3..4, 4..5, 5..6, 6..7].into();
        let second: Vec<Range<i64>> = [7..8, 8..9, 9..10, 10..11, 11..12, 12..13, 13..20].into();
        assert_eq!(days(shares), [first, second]);
        let few = dealt(cut(spans(1).collect(), 0..14, 100), 2, 100);
        assert_eq!((few.len(), few[0].len()), (1, 1));
    }
}
