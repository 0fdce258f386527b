#!/usr/bin/env python3
"""Hold rollups in several time zones against a recomputation from the text of the logs.

    zones.py --logmill BINARY (--data DIR | --server URL)
             --rollup NAME=ZONE... --log SITE=LOGFILE...

Each rollup is one of the same stream by site, method, status and path, in its own zone, with
weeks from Sunday and the measures

    hits = "count"; bytes = "sum(response_size)"; hosts = { distinct = "host" }

and each log was stored under its site. Lines are read, and buckets found, by `recompute.py`: hours
are cut where the offset changes; days, weeks, months and years are local; a bucket is the UTC
instant of its start.

Compared are, hourly to yearly, each measure of every (bucket, key) and of every (bucket, site)
merged over its keys, and where each bucket ends. Hits and bytes must be equal; hosts too up to 100,
beyond that within the tolerance of `compare.py`. It ends with 0 and "N figures equal" behind a line
for each log, with 1 when any differs, with 2 when the question itself could not be asked.
"""

import argparse
import collections
import datetime
import sys

from compare import LEVEL_TABLES, Report, Store, distinct_same
from recompute import EPOCH, Calendar, records, rfc3339

KEYS = ("site", "method", "status", "path")
MEASURES = ("hits", "bytes", "hosts")


class Cell:
    """The exact state of one bucket and key."""

    __slots__ = ("hits", "bytes", "hosts")

    def __init__(self):
        self.hits, self.bytes, self.hosts = 0, None, set()

    def add(self, host, size):
        self.hits += 1
        if size is not None:
            self.bytes = (self.bytes or 0) + size
        if host is not None:
            self.hosts.add(host)

    def figures(self):
        return self.hits, self.bytes, len(self.hosts)


def read(logs):
    """The events of all logs as (time, key, host, size)."""
    events = []
    for site, path in logs:
        for parsed in records(path):
            if isinstance(parsed, tuple):
                event = parsed[1]
                key = (site, event["method"], event["status"], event["path"])
                events.append((event["time"], key, event["host"], event["response_size"]))
    return events


def recompute(events, calendar):
    """Of each level the cells by (bucket, key) and by (bucket, site)."""
    levels = [(collections.defaultdict(Cell), collections.defaultdict(Cell))
              for _ in LEVEL_TABLES]
    for time, key, host, size in events:
        for (by_key, by_site), start in zip(levels, calendar.buckets(time)):
            by_key[start, *key].add(host, size)
            by_site[start, key[0]].add(host, size)
    return levels


def epoch(stamp):
    """The instant that `rfc3339` printed."""
    local = datetime.datetime.fromisoformat(stamp.removesuffix("Z"))
    return int((local - EPOCH).total_seconds())


def by_site(mapping):
    """{(bucket, site, …): figures} as {site: {(bucket, …): figures}}."""
    sites = collections.defaultdict(dict)
    for (bucket, site, *rest), figures in mapping.items():
        sites[site][bucket, *rest] = figures
    return sites


def compare(what, cells, rows, keys, reports):
    """Each measure of every cell, counted for the site that it belongs to."""
    expected = by_site({(rfc3339(start), *key): cell.figures()
                        for (start, *key), cell in cells.items()})
    found = {}
    for row in rows:
        key = tuple(row[name] for name in ("bucket", *keys))
        if key in found:
            print(f"DIFFERENT {what}: {key} came twice")
            reports[row["site"]].different += 1
        found[key] = tuple(row[name] for name in MEASURES)
    found = by_site(found)
    for site in set(expected) | set(found):
        for index, measure in enumerate(MEASURES):
            left, right = ({key: figures[index] for key, figures in side[site].items()}
                           for side in (expected, found))
            same = distinct_same if measure == "hosts" else (lambda a, b: a == b)
            reports[site].many(f"{what} {measure} of {site}", left, right, same)


def compare_ends(what, level, rows, calendar, report):
    """A bucket ends where the next one begins, and one second earlier it is still this one."""
    ends = {(row["bucket"], row["bucket_end"]) for row in rows}
    right = {}
    for start, end in ends:
        last, after = (calendar.buckets(epoch(end) - 1)[level], calendar.buckets(epoch(end))[level])
        right[start, end] = (last, after) == (epoch(start), epoch(end))
    report.many(f"{what} end of", {key: True for key in ends}, right)


def compare_zone(store, rollup, calendar, events, reports):
    """One rollup at all its levels."""
    levels = zip(LEVEL_TABLES.values(), recompute(events, calendar))
    for level, (suffix, (cells, totals)) in enumerate(levels):
        table = f"{rollup}.{suffix}"
        rows = store.rows(f"SELECT bucket, bucket_end, {', '.join(KEYS + MEASURES)} FROM {table}")
        compare(table, cells, rows, KEYS, reports)
        compare_ends(table, level, rows, calendar, reports["ends of buckets"])
        rows = store.rows("SELECT bucket, site, sum(hits) AS hits, sum(bytes) AS bytes, "
                          "distinct_count(distinct_merge(hosts_state)) AS hosts "
                          f"FROM {table} GROUP BY bucket, site")
        compare(f"{table} merged", totals, rows, KEYS[:1], reports)


def pair(text):
    left, equals, right = text.partition("=")
    if not (left and equals and right):
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    return left, right


def main():
    options = argparse.ArgumentParser(description="Compare rollups in several zones with logs.")
    options.add_argument("--logmill", required=True, help="the binary")
    place = options.add_mutually_exclusive_group(required=True)
    place.add_argument("--data", help="the store's directory")
    place.add_argument("--server", help="the address of a server")
    options.add_argument("--rollup", type=pair, action="append", required=True,
                         metavar="NAME=ZONE")
    options.add_argument("--log", type=pair, action="append", required=True,
                         metavar="SITE=LOGFILE")
    chosen = options.parse_args()
    where = ["--data", chosen.data] if chosen.data else ["--server", chosen.server]
    store, reports = Store(chosen.logmill, where), collections.defaultdict(Report)
    events = read(chosen.log)
    for rollup, zone in chosen.rollup:
        compare_zone(store, rollup, Calendar(zone), events, reports)
    for name, report in sorted(reports.items()):
        print(f"{name}: {report.equal} figures equal, {report.different} differ")
    if any(report.different for report in reports.values()):
        sys.exit(1)
    print(f"{sum(report.equal for report in reports.values())} figures equal")


if __name__ == "__main__":
    main()
