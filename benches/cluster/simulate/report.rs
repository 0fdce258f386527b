//! The tables.

use storage::{FileRef, PartitionWidth};

use super::bill::Bill;
use super::peers::Tokens;
use super::requests::{PerSeal, Trial};
use super::shape::{DAY_S, DAYS, SIZES, Shape, part_bytes};
use super::table::{Table, bytes, count, dollars, ms, scaled};
use super::{Case, PartRule};

/// Prints the requests of the small store, and the sizes of its events.
pub(crate) fn requests(trial: &Trial) {
    let mut table = Table::new(&[
        "for one seal",
        "puts",
        "gets",
        "lists",
        "deletes",
        "commits",
    ]);
    let of = |name: &str, r: PerSeal| {
        let counts = [r.puts, r.gets, r.lists, r.deletes, r.commits];
        let counts = counts.map(|count| format!("{count:.2}"));
        std::iter::once(name.to_owned()).chain(counts)
    };
    table.row(of("seal", trial.seal));
    table.row(of("compaction after it", trial.compaction));
    table.row(of("deletions", trial.tending));
    table.row(of("together", trial.all()));
    table.print("Requests of a real store with an object store in memory");
    println!(
        "  a look at CURRENT: {} get; a reader that sees a version: {} gets",
        trial.look_gets, trial.version_gets
    );
    println!(
        "  an event: {:.0} B in memory, {:.0} B in a record, {:.1} B of it with zstd",
        trial.memtable_bytes, trial.record_bytes, trial.message_bytes
    );
    for size in SIZES {
        let rate = size.events_per_shard();
        let rows = trial.rows_per_seal(rate);
        let seconds = rows / rate;
        println!(
            "  {}: {} events/s a shard, {} a seal, each {seconds:.0} s",
            size.name,
            count(rate),
            count(rows)
        );
    }
}

/// Prints the parts of a shard by both widths of partitions.
pub(crate) fn rules(rules: &[PartRule], width: PartitionWidth) {
    let mut table = Table::new(&[
        "parts of a shard",
        "rows",
        "bytes",
        "blocks",
        "days",
        "by day",
        "by hour",
    ]);
    for size in SIZES {
        for rule in rules {
            let len = part_bytes(rule.rows);
            for days in DAYS {
                let parts = |width: PartitionWidth| {
                    let shape = Shape {
                        events_per_second: size.events_per_shard(),
                        part_rows: rule.rows,
                        width,
                        days,
                    };
                    let all = shape.partitions();
                    count(all.iter().map(|(_, _, parts)| *parts as f64).sum())
                };
                table.row([
                    format!("{}, {}", size.name, rule.name),
                    count(rule.rows as f64),
                    bytes(len as f64),
                    len.div_ceil(FileRef::block_bytes_of(len)).to_string(),
                    days.to_string(),
                    parts(PartitionWidth::Day),
                    parts(PartitionWidth::Hour),
                ]);
            }
        }
    }
    table.print(&format!(
        "Parts at rest; manifests below have partitions of a {}",
        match width {
            PartitionWidth::Hour => "hour",
            _ => "day",
        }
    ));
}

fn case_name(case: &Case) -> String {
    let (size, rule, days) = (case.size.name, case.rule.name, case.days);
    format!("{size}, {rule}, {days} d")
}

/// Prints the manifests of a shard.
pub(crate) fn manifests(cases: &[Case]) {
    let mut table = Table::new(&[
        "manifest of a shard",
        "parts",
        "tile files",
        "checksums",
        "JSON",
        "a commit",
        "encode",
        "decode",
        "commit CPU",
        "wall",
        "open",
        "memory",
    ]);
    for case in cases {
        let m = &case.measured;
        let cells = [
            count(m.parts),
            count(m.tile_files),
            count(m.checksums),
            bytes(m.json_bytes),
            bytes(m.commit_bytes),
            ms(m.encode_ms),
            ms(m.decode_ms),
            ms(m.commit_ms),
            ms(m.commit_wall_ms),
            ms(m.open_ms),
            bytes(m.memory_bytes),
        ];
        let cells = cells.map(|cell| scaled(m.scale, cell));
        table.row(std::iter::once(case_name(case)).chain(cells));
    }
    table.print("Manifests, as the store writes and reads them (~ scaled by the days)");
}

/// Prints the plans over a shard.
pub(crate) fn planning(cases: &[Case]) {
    let mut table = Table::new(&[
        "plan over a shard",
        "fixed",
        "an hour",
        "parts",
        "a day",
        "parts",
        "all days",
        "parts",
    ]);
    for case in cases {
        let (p, by) = (&case.measured.planned, case.measured.scale);
        let mut cells = vec![case_name(case), ms(p.fixed.ms)];
        for plan in [p.hour, p.day, p.all] {
            cells.push(scaled(by, ms(plan.ms)));
            cells.push(count(plan.parts));
        }
        table.row(cells);
    }
    table.print("Plans of a question that reads raw events, with the pruning of parts");
}

/// Prints the states of peers.
pub(crate) fn tokens(tokens: &[Tokens]) {
    let mut table = Table::new(&[
        "states of peers",
        "of a shard",
        "of all",
        "tell one",
        "read all",
        "plan over all",
    ]);
    for t in tokens {
        table.row([
            t.size.name.to_owned(),
            bytes(t.bytes),
            bytes(t.all_bytes()),
            ms(t.encode_ms),
            ms(t.all_decode_ms()),
            ms(t.front.ms),
        ]);
    }
    table.print("States that one question over all shards is told");
}

fn bill_name(bill: &Bill) -> String {
    format!("{}, {}, {} d", bill.size.name, bill.rule.name, bill.days)
}

/// Prints the load of the clusters.
pub(crate) fn load(bills: &[Bill]) {
    let mut table = Table::new(&[
        "a second",
        "seal of a shard",
        "its commits",
        "their bytes a day",
        "parts a day",
        "cores: events",
        "commits",
        "nodes",
        "puts",
        "lists",
        "deletes",
        "gets",
        "looks",
        "a reader: bytes",
        "gets",
    ]);
    for b in bills {
        let of = |text: String| scaled(b.scale, text);
        table.row([
            bill_name(b),
            format!("{:.3}", b.seals),
            format!("{:.3}", b.commits),
            of(bytes(b.commit_bytes * DAY_S)),
            bytes(b.part_bytes * DAY_S),
            format!("{:.1}", b.event_cores),
            of(format!("{:.1}", b.commit_cores)),
            format!("{:.0}", b.nodes),
            format!("{:.1}", b.puts),
            format!("{:.2}", b.lists),
            format!("{:.2}", b.deletes),
            format!("{:.1}", b.gets),
            count(b.looks),
            of(bytes(b.reader_bytes)),
            count(b.reader_gets),
        ]);
    }
    table.print(
        "Load of the cluster (nodes of 8 cores, with three times as many as events keep busy)",
    );
}

/// Prints the prices.
pub(crate) fn bills(bills: &[Bill]) {
    let mut table = Table::new(&[
        "dollars a month",
        "stored",
        "S3 bytes",
        "puts",
        "gets",
        "looks",
        "between zones a day",
        "between zones",
        "together",
    ]);
    for b in bills {
        let d = b.dollars();
        table.row([
            bill_name(b),
            bytes(b.stored),
            dollars(d.storage),
            dollars(d.puts),
            dollars(d.gets),
            dollars(d.looks),
            bytes(b.between_zones),
            dollars(d.between_zones),
            dollars(d.all()),
        ]);
    }
    table.print(
        "Bill ($23 a TB, $0.005 for 1,000 puts, $0.0004 for 1,000 gets, $0.02 a GB between zones)",
    );
}
