#!/usr/bin/env python3
"""Read back every leaf of every document, and print each difference.

    leaves.py --logmill BINARY (--data DIR | --server URL) --stream NAME LOG...

Each line of the logs is read by Python's json and taken apart: objects give
dotted names, elements of arrays their index. Null is the same as no field,
but for elements of arrays and what lies in these. The store is asked for all
its columns, and for what `attr_names`, `attr_type`, `attr_json` and `attr`
say of `_rest`. Documents come in any order, so the two are compared as bags:
each document as the set of its leaves, each leaf with name, type and value.
An integer and the float that equals it are one value: columns of numbers
widen. Of a `time` that is a date the store keeps the instant.

It ends with 0 and "N leaves equal", with 1 when any differs, with 2 when the
question itself could not be asked.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime, timezone

DIFFERENCES_PRINTED_MAX = 10
OF_THE_STORE = {"_id", "_seq", "_shard", "_rest", "time", "time_source"}


def number(value):
    """One form for an integer and the float that equals it."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        value = int(value)
    return ("number", repr(value))


def leaf(value):
    if value is None:
        return ("null", "")
    if isinstance(value, bool):
        return ("bool", str(value))
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, str):
        return ("text", value)
    return ("object", "{}") if isinstance(value, dict) else ("array", "[]")


def leaves(value, name=None, in_array=False):
    """(name, leaf) of everything below a value."""
    if isinstance(value, dict) and value:
        items = value.items()
    elif isinstance(value, list) and value:
        items, in_array = ((str(i), item) for i, item in enumerate(value)), True
    else:
        if name is not None and (value is not None or in_array):
            yield name, leaf(value)
        return
    for key, below in items:
        yield from leaves(below, key if name is None else f"{name}.{key}", in_array)


def instant(text):
    """Microseconds since 1970."""
    if text.endswith("Z"):
        text = text[:-1] + "+00:00"
    if "." in text:
        head, rest = text.split(".", 1)
        digits = "".join(c for c in rest[:9] if c.isdigit())
        text = f"{head}.{digits[:6]:0<6}{rest[len(digits):]}"
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    since = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def documents(logs):
    for log in logs:
        with open(log, encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)


def expected(logs):
    """The bag of documents, and whether they have a time of their own."""
    bag, timed = Counter(), False
    for document in documents(logs):
        found = dict(leaves(document))
        kind, text = found.get("time", ("", ""))
        if kind == "text" and instant(text) is not None:
            found["time"], timed = ("instant", str(instant(text))), True
        bag[frozenset(found.items())] += 1
    return bag, timed


class Store:
    """The binary and where its store is."""

    def __init__(self, binary, place):
        self.binary, self.place = binary, place

    def rows(self, sql):
        done = subprocess.run(
            [self.binary, "sql", sql, "--output", "ndjson", *self.place],
            capture_output=True)
        if done.returncode != 0:
            print(f"{done.stderr.decode('utf-8', 'replace').strip()}: {sql}")
            sys.exit(2)
        return map(json.loads, done.stdout.decode("utf-8").splitlines())


def of_rest(kind, text, plain):
    """The leaf that three functions tell of."""
    value = json.loads(text)
    if kind in ("int64", "float64", "decimal"):
        assert isinstance(value, float) == (kind == "float64"), (kind, text)
        assert float(plain) == float(value), (plain, text)
        return number(value)
    if kind != "null":
        assert plain == (value if kind == "text" else text), (plain, text)
    found = leaf(value)
    assert found[0] == kind, (found, kind)
    return found


def stored(store, stream, timed):
    """The bag of documents as the store has them."""
    rows = defaultdict(dict)
    for row in store.rows(f'SELECT *, _seq FROM "{stream}"'):
        found = rows[row["_seq"]]
        for name, value in row.items():
            if name not in OF_THE_STORE and value is not None:
                found[name] = leaf(value)
        if timed:
            found["time"] = ("instant", str(instant(row["time"])))
    listed = (f'SELECT _seq, name, attr_type(_rest, name) AS kind, '
              f'attr_json(_rest, name) AS json, attr(_rest, name) AS plain '
              f'FROM (SELECT _seq, _rest, unnest(attr_names(_rest)) AS name FROM "{stream}")')
    columns = next(store.rows(f"SELECT count(*) AS n FROM information_schema.columns "
                              f"WHERE table_name = '{stream}' AND column_name = '_rest'"))
    for row in store.rows(listed) if columns["n"] else ():
        found = rows[row["_seq"]]
        assert row["name"] not in found, f"{row['name']} is there twice"
        found[row["name"]] = of_rest(row["kind"], row["json"], row["plain"])
    return Counter(frozenset(found.items()) for found in rows.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--logmill", required=True)
    parser.add_argument("--data")
    parser.add_argument("--server")
    parser.add_argument("--stream", required=True)
    parser.add_argument("logs", nargs="+")
    args = parser.parse_args()
    place = ["--server", args.server] if args.server else ["--data", args.data]
    wanted, timed = expected(args.logs)
    found = stored(Store(args.logmill, place), args.stream, timed)
    missing, more = list((wanted - found).elements()), list((found - wanted).elements())
    for document in missing[:DIFFERENCES_PRINTED_MAX]:
        near = min(more, key=lambda other: len(other ^ document), default=frozenset())
        print(f"missing: {sorted(document - near)}, found: {sorted(near - document)}")
    if missing or more:
        print(f"{len(missing)} documents are missing, {len(more)} are there instead")
        sys.exit(1)
    print(f"{sum(len(d) * n for d, n in wanted.items())} leaves equal")


if __name__ == "__main__":
    main()
