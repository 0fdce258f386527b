#!/usr/bin/env python3
"""Recompute every figure of an access log from its text, without the store.

This program is the independent oracle: it was written from the rules of the
interface page ("Formats") alone and shares no code with the parser, the
storage or the rollups. It is slow, holds everything in memory and is meant
to be read: when the store and this page disagree, one of them breaks a rule
that can be named.

    recompute.py LOGFILE... --format auto [--strict] [--site S] [--tz ZONE]

It prints one JSON object. Keys of buckets are the UTC instants (RFC 3339) of
the starts of hours, days, weeks, months and years in ZONE (default UTC).

Readings of the rules that are not spelled out, so that a difference can be
traced to them:
  * a line is dropped to "empty" only when nothing is left after the CR;
  * a CR is dropped only before an LF, not at the end of a last piece;
  * a status has exactly three digits, a size must fit a signed 64-bit integer,
    seconds end at 59, offsets at 23:59;
  * one space separates the target from its protocol, every other one belongs
    to the target; "n" in HTTP/n[.n] is one or more digits;
  * the rest of a line that matched as a prefix may be empty text (a trailing
    space), and then `extra` is the empty text, not null; so is `query` after
    a final `?`;
  * whether a request of `-` is null or the text `-` is left open: `request` is
    the one column without a figure here.
"""

import argparse
import bz2
import collections
import datetime
import gzip
import hashlib
import json
import lzma
import re
import shutil
import subprocess
import sys
import time
import zoneinfo

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1)
MONTHS = {
    name: number
    for number, name in enumerate(
        b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1
    )
}
LEVELS = ("hour", "day", "week", "month", "year")
# Above this many (day, path) pairs only their digest is printed.
PAIRS_PRINTED_MAX = 20_000
MAX_FUTURE_SECONDS = 600

TOKEN = rb'[^ "]+'
# Unambiguous: a backslash always takes the next byte with it, so the field
# ends at the first quote with an even number of backslashes before it.
QUOTED = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
COMMON = re.compile(
    rb"(" + TOKEN + rb") (" + TOKEN + rb") (" + TOKEN + rb") "
    rb"\[([0-9]{2})/([A-Z][a-z]{2})/([0-9]{4}):([0-9]{2}):([0-9]{2}):([0-9]{2}) "
    rb"([+-])([0-9]{2})([0-9]{2})\] "
    + QUOTED + rb" ([0-9]{3}) ([0-9]+|-)(?= |\Z)",
    re.DOTALL,
)
COMBINED_TAIL = re.compile(rb" " + QUOTED + rb" " + QUOTED + rb"(?= |\Z)", re.DOTALL)
VHOST = re.compile(rb"(" + TOKEN + rb") ", re.DOTALL)
METHOD = re.compile(rb"[A-Z][A-Z_-]*")
PROTOCOL = re.compile(rb"HTTP/[0-9]+(?:\.[0-9]+)?")


class Calendar:
    """Bucket starts, as epoch seconds, of instants in one zone."""

    def __init__(self, name):
        self.name = name
        self.zone = zoneinfo.ZoneInfo(name) if name != "UTC" else None
        self.cache = {}

    def offset(self, epoch):
        """Seconds that the zone's clocks are ahead of UTC at an instant."""
        if self.zone is None:
            return 0
        moment = datetime.datetime.fromtimestamp(epoch, UTC).astimezone(self.zone)
        return int(moment.utcoffset().total_seconds())

    def change_between(self, before, after):
        """The first instant in (before, after] that has the offset of `after`."""
        wanted = self.offset(after)
        while after - before > 1:
            middle = (before + after) // 2
            if self.offset(middle) == wanted:
                after = middle
            else:
                before = middle
        return after

    def local_midnight(self, date):
        """The first instant of a local date."""
        guess = datetime.datetime(date.year, date.month, date.day)
        naive = int((guess - EPOCH).total_seconds())
        if self.zone is None:
            return naive
        epoch = int(guess.replace(tzinfo=self.zone).timestamp())
        # A midnight that the clocks jump over: the day begins at the jump.
        if epoch + self.offset(epoch) != naive:
            epoch = self.change_between(epoch - 7200, epoch + 7200)
        return epoch

    def buckets(self, epoch):
        """The starts of the hour, day, week, month and year of an instant."""
        offset = self.offset(epoch)
        hour = epoch - (epoch + offset) % 3600
        if self.offset(hour) != offset:
            hour = self.change_between(hour, epoch)
        date = (EPOCH + datetime.timedelta(seconds=epoch + offset)).date()
        found = self.cache.get(date)
        if found is None:
            sunday = date - datetime.timedelta(days=(date.weekday() + 1) % 7)
            starts = (date, sunday, date.replace(day=1), date.replace(month=1, day=1))
            found = self.cache[date] = tuple(self.local_midnight(d) for d in starts)
        return (hour, *found)


def open_log(path):
    """Opens a log for reading bytes, decompressed by the ending of its name."""
    if path == "-":
        return sys.stdin.buffer
    if path.endswith(".gz"):
        return gzip.open(path, "rb")
    if path.endswith(".bz2"):
        return bz2.open(path, "rb")
    if path.endswith(".xz"):
        return lzma.open(path, "rb")
    if path.endswith(".zst"):
        if shutil.which("zstd"):
            child = subprocess.Popen(["zstd", "-dcq", "--", path], stdout=subprocess.PIPE)
            return ChildOutput(child, path)
        try:
            import zstandard
        except ImportError:
            sys.exit(f"{path}: install the program `zstd` or the Python module `zstandard`")
        return zstandard.open(path, "rb")
    return open(path, "rb")


class ChildOutput:
    """The output of a decompressor; a failure of it is an error, never an early end."""

    def __init__(self, child, path):
        self.child, self.path = child, path

    def __iter__(self):
        yield from self.child.stdout
        if self.child.wait() != 0:
            sys.exit(f"{self.path}: zstd failed with {self.child.returncode}")

    def close(self):
        self.child.stdout.close()


def text(field):
    """A logged field as text: `-` is null, invalid UTF-8 becomes U+FFFD."""
    return None if field == b"-" else field.decode("utf-8", "replace")


def parse_time(day, month, year, hour, minute, second, sign, off_hours, off_minutes):
    """Epoch seconds of an Apache stamp, or None when something is out of range."""
    if month not in MONTHS or int(off_hours) > 23 or int(off_minutes) > 59:
        return None
    try:
        local = datetime.datetime(
            int(year), MONTHS[month], int(day), int(hour), int(minute), int(second)
        )
    except ValueError:
        return None
    offset = int(off_hours) * 3600 + int(off_minutes) * 60
    epoch = int((local - EPOCH).total_seconds())
    return epoch - offset if sign == b"+" else epoch + offset


def cut_request(request):
    """(method, path, query, protocol) of a request, each as text or None."""
    method, space, rest = request.partition(b" ")
    if not space or not METHOD.fullmatch(method):
        return None, None, None, None
    protocol = None
    before, space, last = rest.rpartition(b" ")
    if PROTOCOL.fullmatch(last):
        protocol, rest = last.decode(), before
    path, mark, query = rest.partition(b"?")
    return (
        method.decode(),
        path.decode("utf-8", "replace") if path else None,
        query.decode("utf-8", "replace") if mark else None,
        protocol,
    )


def parse_line(line, form, strict):
    """One line as (kind, event), or a reason (text) why it does not parse."""
    site, start = None, 0
    if form == "vhost_combined":
        match = VHOST.match(line)
        if not match:
            return "no virtual host"
        start = match.end()
        name, colon, port = match[1].rpartition(b":")
        site = text(name if colon and port.isdigit() else match[1])
    match = COMMON.match(line, start)
    if not match:
        return "shape"
    tail = COMBINED_TAIL.match(line, match.end())
    kind, end = ("combined", tail.end()) if tail else ("common", match.end())
    extra = None
    if end < len(line):
        kind, extra = kind + "+extra", line[end + 1 :]
    if form == "auto":
        allowed = ("combined", "common") if strict else (
            "combined", "common", "combined+extra", "common+extra")
    else:
        allowed = ("common",) if form == "common" else ("combined",)
    if kind not in allowed:
        return "columns"
    epoch = parse_time(*match.group(*range(4, 13)))
    if epoch is None:
        return "time"
    size = None if match[15] == b"-" else int(match[15])
    if size is not None and size >= 1 << 63:
        return "size"
    method, path, query, protocol = cut_request(match[13])
    event = {
        "time": epoch,
        "host": text(match[1]),
        "logname": text(match[2]),
        "user": text(match[3]),
        "method": method,
        "path": path,
        "query": query,
        "protocol": protocol,
        "status": int(match[14]),
        "response_size": size,
        "referrer": text(tail[1]) if tail else None,
        "user_agent": text(tail[2]) if tail else None,
        "site": site,
        "extra": extra.decode("utf-8", "replace") if extra is not None else None,
    }
    return kind, event


def quantile(ordered, fraction_percent):
    """The nearest-rank quantile of sorted values; None of nothing."""
    if not ordered:
        return None
    rank = max(1, -(-fraction_percent * len(ordered) // 100))
    return ordered[rank - 1]


def rfc3339(epoch):
    """An instant as the store prints it: UTC, no fraction, Z."""
    return (EPOCH + datetime.timedelta(seconds=epoch)).isoformat() + "Z"


def pairs_digest(pairs):
    """SHA-256 over the sorted (day, path, hits), each a JSON array on a line."""
    lines = sorted(json.dumps(list(pair), ensure_ascii=True) for pair in pairs)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


COUNTED_NULLS = ("host", "logname", "user", "method", "path", "query", "protocol",
                 "response_size", "referrer", "user_agent", "site", "extra")
COUNTED_DISTINCT = ("host", "path", "query", "referrer", "user_agent", "extra")


class Totals:
    """Everything that is counted; `result` makes the printed object."""

    def __init__(self, calendar, site):
        self.calendar, self.site = calendar, site
        self.lines = self.empty = self.quarantined = self.accepted = 0
        self.kinds = collections.Counter()
        self.reasons = collections.Counter()
        self.hits = {level: collections.Counter() for level in LEVELS}
        self.bytes = {level: {} for level in LEVELS}
        self.hosts = {"hour": collections.defaultdict(set), "day": collections.defaultdict(set)}
        self.paths = collections.defaultdict(collections.Counter)
        self.sizes = collections.defaultdict(list)
        self.statuses = collections.Counter()
        self.methods = collections.Counter()
        self.sites = collections.Counter()
        self.nulls = collections.Counter({name: 0 for name in COUNTED_NULLS})
        self.distinct = {name: set() for name in COUNTED_DISTINCT}
        self.first = self.last = None

    def add(self, event):
        starts = self.calendar.buckets(event["time"])
        size = event["response_size"]
        for level, start in zip(LEVELS, starts):
            self.hits[level][start] += 1
            known = self.bytes[level].get(start)
            if size is not None:
                self.bytes[level][start] = (known or 0) + size
            elif start not in self.bytes[level]:
                self.bytes[level][start] = None
        hour, day = starts[0], starts[1]
        if event["host"] is not None:
            self.hosts["hour"][hour].add(event["host"])
            self.hosts["day"][day].add(event["host"])
        self.paths[day][event["path"]] += 1
        if size is not None:
            self.sizes[day].append(size)
        self.statuses[event["status"]] += 1
        self.methods[event["method"]] += 1
        if event["site"] is None:
            event["site"] = self.site
        self.sites[event["site"]] += 1
        for name in COUNTED_NULLS:
            if event[name] is None:
                self.nulls[name] += 1
        for name in COUNTED_DISTINCT:
            if event[name] is not None:
                self.distinct[name].add(event[name])
        self.first = event["time"] if self.first is None else min(self.first, event["time"])
        self.last = event["time"] if self.last is None else max(self.last, event["time"])

    def result(self):
        pairs = [
            (rfc3339(day), path, hits)
            for day, counts in self.paths.items()
            for path, hits in counts.items()
        ]
        top = {}
        for day, counts in sorted(self.paths.items()):
            named = [(-hits, path) for path, hits in counts.items() if path is not None]
            if named:
                hits, path = min(named)
                top[rfc3339(day)] = {"path": path, "hits": -hits}
        every_size = sorted(size for sizes in self.sizes.values() for size in sizes)
        quantiles = {}
        for day in sorted(self.hits["day"]):
            ordered = sorted(self.sizes.get(day, []))
            quantiles[rfc3339(day)] = {"p50": quantile(ordered, 50), "p99": quantile(ordered, 99)}

        def keyed(values):
            return {rfc3339(start): values[start] for start in sorted(values)}

        def named(counter):
            # JSON has no null key; a null is printed as the text "null".
            return {"null" if key is None else str(key): counter[key]
                    for key in sorted(counter, key=lambda k: (k is None, str(k)))}

        return {
            "zone": self.calendar.name,
            "lines": self.lines,
            "accepted": self.accepted,
            "quarantined": self.quarantined,
            "empty": self.empty,
            "forms": dict(sorted(self.kinds.items())),
            "reasons": dict(sorted(self.reasons.items())),
            "first": None if self.first is None else rfc3339(self.first),
            "last": None if self.last is None else rfc3339(self.last),
            "hits": {level: keyed(self.hits[level]) for level in LEVELS},
            "bytes": {level: keyed(self.bytes[level]) for level in LEVELS},
            "hosts_per_day": {rfc3339(day): len(self.hosts["day"].get(day, ()))
                              for day in sorted(self.hits["day"])},
            "hosts_per_hour": {rfc3339(hour): len(self.hosts["hour"].get(hour, ()))
                               for hour in sorted(self.hits["hour"])},
            "top_path_per_day": top,
            "statuses": named(self.statuses),
            "methods": named(self.methods),
            "sites": named(self.sites),
            "nulls": dict(sorted(self.nulls.items())),
            "distinct": {name: len(values) for name, values in sorted(self.distinct.items())},
            "null_paths": self.nulls["path"],
            "size_per_day": quantiles,
            "size": {
                "count": len(every_size),
                "p50": quantile(every_size, 50),
                "p99": quantile(every_size, 99),
                "min": every_size[0] if every_size else None,
                "max": every_size[-1] if every_size else None,
            },
            "day_path_pairs": len(pairs),
            "day_path_digest": pairs_digest(pairs),
            "day_path_hits": sorted(pairs, key=lambda p: (p[0], p[1] is None, p[1] or ""))
            if len(pairs) <= PAIRS_PRINTED_MAX else None,
        }


def records(path, form="auto", strict=False, received=None):
    """Each line of a log: None for an empty one, the reason (text) when it is no event, or
    (kind, event)."""
    received = int(time.time()) if received is None else received
    log = open_log(path)
    for line in log:
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        parsed = parse_line(line, form, strict) if line else None
        if isinstance(parsed, tuple) and parsed[1]["time"] > received + MAX_FUTURE_SECONDS:
            parsed = "future"
        yield parsed
    log.close()


def recompute(paths, form="auto", strict=False, site=None, tz="UTC", received=None):
    """The figures of the logs at `paths`, as the object that `main` prints."""
    totals = Totals(Calendar(tz), site)
    for path in paths:
        for parsed in records(path, form, strict, received):
            totals.lines += 1
            if parsed is None:
                totals.empty += 1
            elif isinstance(parsed, str):
                totals.quarantined += 1
                totals.reasons[parsed] += 1
            else:
                totals.accepted += 1
                totals.kinds[parsed[0]] += 1
                totals.add(parsed[1])
    return totals.result()


def main():
    options = argparse.ArgumentParser(description="Recompute the figures of access logs.")
    options.add_argument("logs", nargs="+", metavar="LOGFILE")
    options.add_argument("--format", default="auto",
                         choices=["auto", "combined", "common", "vhost_combined"])
    options.add_argument("--strict", action="store_true", help="auto takes whole lines only")
    options.add_argument("--site", help="the site of events that name none")
    options.add_argument("--tz", default="UTC", help="zone of the buckets (IANA name)")
    options.add_argument("--received", type=int,
                         help="receive time, epoch seconds; later stamps than 10 minutes after "
                              "it are quarantined (default: now)")
    chosen = options.parse_args()
    result = recompute(chosen.logs, chosen.format, chosen.strict, chosen.site, chosen.tz,
                       chosen.received)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
