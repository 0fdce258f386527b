#!/usr/bin/env python3
"""Ask a store for every figure of `recompute.py` and print each difference.

    compare.py --logmill BINARY (--data DIR | --server URL) --stream NAME
               --oracle RECOMPUTED.json [--zone ZONE] [--raw-only]

Each question is one `logmill sql '...' --output json`. Equality is exact but
for two kinds of figures that are estimates by definition:
  * distinct hosts: exact up to 100, beyond that within three standard errors
    (3 x 1.7 %) of the exact count;
  * quantiles from histograms of two significant digits: the highest value
    equivalent to the exact one, so in [exact, exact x 1.01].

The rollup tables are read in their own zone, which must be the zone that the
oracle's file was made in (`--zone` says it again and is checked); `--raw-only`
leaves the rollups out, for another zone than theirs.

It ends with 0 and "N figures equal", with 1 when any differs, with 2 when the
question itself could not be asked.
"""

import argparse
import json
import subprocess
import sys

from recompute import pairs_digest

LEVEL_TABLES = {"hour": "hourly", "day": "daily", "week": "weekly",
                "month": "monthly", "year": "yearly"}
DISTINCT_EXACT_MAX = 100
DISTINCT_TOLERANCE = 3 * 0.017
QUANTILE_TOLERANCE = 0.01
DIFFERENCES_PRINTED_MAX = 20


class Store:
    """The binary and where its store is."""

    def __init__(self, binary, place):
        self.binary, self.place = binary, place

    def rows(self, sql):
        done = subprocess.run([self.binary, "sql", sql, "--output", "json", *self.place],
                              capture_output=True)
        if done.returncode != 0:
            message = done.stderr.decode("utf-8", "replace").strip()
            print(f"the query failed with {done.returncode}: {sql}\n{message}")
            sys.exit(2)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            print(f"the answer is not JSON ({error}): {sql}")
            sys.exit(2)


class Report:
    """Counts equal figures and prints the others."""

    def __init__(self):
        self.equal = self.different = 0

    def one(self, what, expected, found, same=lambda expected, found: expected == found):
        if same(expected, found):
            self.equal += 1
        else:
            self.different += 1
            print(f"DIFFERENT {what}: expected {expected!r}, found {found!r}")

    def many(self, what, expected, found, same=lambda expected, found: expected == found):
        """Two mappings: every key of either is one figure."""
        printed = 0
        for key in sorted(set(expected) | set(found), key=str):
            missing = "absent"
            left, right = expected.get(key, missing), found.get(key, missing)
            if missing not in (left, right) and same(left, right) or left == right:
                self.equal += 1
                continue
            self.different += 1
            printed += 1
            if printed <= DIFFERENCES_PRINTED_MAX:
                print(f"DIFFERENT {what} {key}: expected {left!r}, found {right!r}")
        if printed > DIFFERENCES_PRINTED_MAX:
            print(f"DIFFERENT {what}: {printed - DIFFERENCES_PRINTED_MAX} more")


def distinct_same(exact, estimate):
    if estimate is None or exact <= DISTINCT_EXACT_MAX:
        return estimate == exact
    return abs(estimate - exact) <= DISTINCT_TOLERANCE * exact


def quantile_same(exact, estimate):
    if exact is None or estimate is None:
        return exact is None and estimate is None
    return exact <= estimate <= exact * (1 + QUANTILE_TOLERANCE)


def mapping(rows, key, value):
    """Rows as {key: value}; a key that comes twice is itself an error."""
    found = {}
    for row in rows:
        name = row[key]
        if name in found:
            print(f"the key {name!r} of {key} came twice")
            sys.exit(1)
        found[name] = row[value]
    return found


def named(rows, key, value):
    """Like `mapping`, with keys as the oracle prints them."""
    return {"null" if k is None else str(k): v for k, v in mapping(rows, key, value).items()}


def compare_raw(store, stream, oracle, report):
    """The figures that come from the events themselves."""
    # Names are quoted because `user` alone is a function in SQL.
    nulls = ", ".join(f'count(*) FILTER (WHERE "{name}" IS NULL) AS "{name}"'
                      for name in oracle["nulls"])
    row = store.rows(f"SELECT count(*) AS accepted FROM {stream}")[0]
    report.one("count(*)", oracle["accepted"], row["accepted"])
    report.many("nulls of", oracle["nulls"], store.rows(f"SELECT {nulls} FROM {stream}")[0])
    distinct = ", ".join(f'count(DISTINCT "{name}") AS "{name}"' for name in oracle["distinct"])
    report.many("distinct", oracle["distinct"],
                store.rows(f"SELECT {distinct} FROM {stream}")[0])
    for field, figure in (("status", "statuses"), ("method", "methods"), ("site", "sites")):
        rows = store.rows(f"SELECT {field}, count(*) AS hits FROM {stream} GROUP BY {field}")
        report.many(f"raw hits of {field}", oracle[figure], named(rows, field, "hits"))
    if oracle["accepted"]:
        row = store.rows(f"SELECT min(time) AS first, max(time) AS last FROM {stream}")[0]
        report.one("first time", oracle["first"], row["first"])
        report.one("last time", oracle["last"], row["last"])
    zone = oracle["zone"]
    day = ("date_trunc('day', time)" if zone == "UTC"
           else f"time_bucket('1 day', time, '{zone}')")
    rows = store.rows(f"SELECT {day} AS bucket, count(*) AS hits, "
                      f"sum(response_size) AS bytes FROM {stream} GROUP BY 1")
    report.many("raw hits of day", oracle["hits"]["day"], mapping(rows, "bucket", "hits"))
    report.many("raw bytes of day", oracle["bytes"]["day"], mapping(rows, "bucket", "bytes"))
    rows = store.rows(f"SELECT {day} AS bucket, count(DISTINCT host) AS hosts "
                      f"FROM {stream} GROUP BY 1")
    report.many("raw hosts of day", oracle["hosts_per_day"], mapping(rows, "bucket", "hosts"))
    rows = store.rows(f"SELECT {day} AS bucket, path, count(*) AS hits "
                      f"FROM {stream} GROUP BY 1, 2")
    compare_pages(rows, oracle, report, "raw")


def compare_pages(rows, oracle, report, origin):
    """Hits per (day, path): all of them by digest, and the top of each day."""
    pairs = [(row["bucket"], row["path"], row["hits"]) for row in rows]
    top = {}
    for day, path, hits in pairs:
        if path is None:
            continue
        best = top.get(day)
        if best is None or (-hits, path) < (-best["hits"], best["path"]):
            top[day] = {"path": path, "hits": hits}
    report.many(f"{origin} top path of", oracle["top_path_per_day"], top)
    report.one(f"{origin} (day, path) pairs", oracle["day_path_pairs"], len(pairs))
    report.one(f"{origin} digest of (day, path, hits)", oracle["day_path_digest"],
               pairs_digest(pairs))
    if oracle["day_path_hits"] is not None:
        expected = {(day, path): hits for day, path, hits in oracle["day_path_hits"]}
        report.many(f"{origin} hits of", expected,
                    {(day, path): hits for day, path, hits in pairs})


def compare_rollup(store, name, oracle, report):
    """The figures that every rollup of access logs holds, at every level."""
    for level, suffix in LEVEL_TABLES.items():
        table = f"{name}.{suffix}"
        rows = store.rows(f"SELECT bucket, sum(hits) AS hits, sum(bytes) AS bytes "
                          f"FROM {table} GROUP BY bucket")
        report.many(f"{table} hits", oracle["hits"][level], mapping(rows, "bucket", "hits"))
        report.many(f"{table} bytes", oracle["bytes"][level], mapping(rows, "bucket", "bytes"))
    rows = store.rows(f"SELECT sum(hits) AS hits FROM {name}.minutely")
    report.one(f"{name}.minutely hits", oracle["accepted"] or None, rows[0]["hits"] or None)
    for level, figure in (("hour", "hosts_per_hour"), ("day", "hosts_per_day")):
        table = f"{name}.{LEVEL_TABLES[level]}"
        rows = store.rows("SELECT bucket, distinct_count(distinct_merge(visitors_state)) AS hosts "
                          f"FROM {table} GROUP BY bucket")
        report.many(f"{table} visitors", oracle[figure], mapping(rows, "bucket", "hosts"),
                    distinct_same)
    table = f"{name}.daily"
    rows = store.rows("SELECT bucket, hist_quantile(hist_merge(size), 0.5) AS p50, "
                      f"hist_quantile(hist_merge(size), 0.99) AS p99 FROM {table} GROUP BY bucket")
    for quantile in ("p50", "p99"):
        expected = {day: both[quantile] for day, both in oracle["size_per_day"].items()}
        report.many(f"{table} size {quantile}", expected, mapping(rows, "bucket", quantile),
                    quantile_same)
    # The year's histogram merged over all buckets is the one of all events.
    for table in (f"{name}.hourly", f"{name}.yearly"):
        row = store.rows("SELECT hist_quantile(hist_merge(size), 0.5) AS p50, "
                         f"hist_quantile(hist_merge(size), 0.99) AS p99 FROM {table}")[0]
        for quantile in ("p50", "p99"):
            report.one(f"{table} size {quantile} over all", oracle["size"][quantile],
                       row[quantile], quantile_same)


def compare_keys(store, stats, traffic, oracle, report):
    """What only one of the two default rollups knows: pages, statuses, methods."""
    rows = store.rows(f"SELECT bucket, path, sum(hits) AS hits FROM {stats}.daily "
                      "GROUP BY bucket, path")
    compare_pages(rows, oracle, report, f"{stats}.daily")
    for level in ("daily", "yearly"):
        for field, figure in (("status", "statuses"), ("method", "methods"), ("site", "sites")):
            rows = store.rows(f"SELECT {field}, sum(hits) AS hits FROM {traffic}.{level} "
                              f"GROUP BY {field}")
            report.many(f"{traffic}.{level} hits of {field}", oracle[figure],
                        named(rows, field, "hits"))


def main():
    options = argparse.ArgumentParser(description="Compare a store with recomputed figures.")
    options.add_argument("--logmill", required=True, help="the binary")
    place = options.add_mutually_exclusive_group(required=True)
    place.add_argument("--data", help="the store's directory")
    place.add_argument("--server", help="the address of a server")
    options.add_argument("--stream", required=True)
    options.add_argument("--oracle", required=True, help="the output of recompute.py")
    options.add_argument("--zone", help="the zone of the rollups, checked against the oracle's")
    options.add_argument("--stats", default="stats", help="the rollup by page")
    options.add_argument("--traffic", default="traffic", help="the rollup by status")
    options.add_argument("--raw-only", action="store_true", help="leave the rollups out")
    chosen = options.parse_args()
    with open(chosen.oracle, encoding="utf-8") as file:
        oracle = json.load(file)
    if chosen.zone is not None and chosen.zone != oracle["zone"]:
        print(f"the oracle was made in {oracle['zone']}, not in {chosen.zone}: "
              f"run recompute.py --tz {chosen.zone}")
        sys.exit(2)
    where = ["--data", chosen.data] if chosen.data else ["--server", chosen.server]
    store, report = Store(chosen.logmill, where), Report()
    compare_raw(store, chosen.stream, oracle, report)
    if not chosen.raw_only:
        for rollup in (chosen.stats, chosen.traffic):
            compare_rollup(store, rollup, oracle, report)
        compare_keys(store, chosen.stats, chosen.traffic, oracle, report)
    if report.different:
        print(f"{report.different} figures differ, {report.equal} are equal")
        sys.exit(1)
    print(f"{report.equal} figures equal")


if __name__ == "__main__":
    main()
