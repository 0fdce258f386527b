"""Runs random pipelines through a server and through a model, and tells where they differ.

    python3 compare.py ADDRESS COUNT SEED

The documents of a case are inserted into one collection with those of others, and read back: the
model begins with what was stored. Prints the numbers of cases, or fails with the first one whose
answer differs.
"""

import collections
import datetime
import random
import sys

try:
    import pymongo
except ImportError:
    print("skipped: pymongo is not installed")
    sys.exit(0)

from bson import Decimal128
from pymongo.errors import OperationFailure

import pipelines

CASES = 50
NOW = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)


def is_column(value):
    """Whether a value has a column, and no place in the overflow column."""
    if isinstance(value, dict):
        return bool(value) and all(map(is_column, value.values()))
    return not isinstance(value, (list, Decimal128, type(None)))


def documents(draw, case):
    """The documents of a case. Those of every other case are columns alone, and some are equal."""
    odd = draw.choice([0, 0, 0.05])
    for number in range(draw.choice([1, 2, 3, 5, 8])):
        made = pipelines.random_document(draw, odd)
        if case % 2:
            made = {name: value for name, value in made.items() if is_column(value)}
            for copy in range(draw.choice([1, 1, 3])):
                yield {**made, "_id": "%d-%d-%d" % (case, number, copy), "case": case}
        else:
            yield {**made, "_id": 10 * case + number, "case": case}


def modelled(documents, pipeline):
    try:
        return "ok", pipelines.evaluate(documents, pipeline, now=NOW)
    except pipelines.Refused as error:
        return "refused", error
    except pipelines.Undecided as error:
        return "undecided", error


def answered(collection, case, pipeline, **options):
    """The answer of the server to the pipeline over the documents of a case."""
    own = [{"$match": {"case": case}}, {"$unset": "case"}]
    try:
        return list(collection.aggregate([*own, *pipeline], **options))
    except OperationFailure as error:
        return error


def compare(collection, draw, totals):
    made = {case: list(documents(draw, case)) for case in range(CASES)}
    inserted = [one for several in made.values() for one in several]
    collection.insert_many(inserted)
    stored = collections.defaultdict(list)
    for one in collection.find().sort("_id", 1):
        stored[one.pop("case")].append(one)
    for case in made:
        pipeline = pipelines.random_pipeline(draw)
        outcome, expected = modelled(stored[case], pipeline)
        if outcome == "undecided":
            totals[outcome] += 1
            continue
        # Counts of equal documents, and the documents themselves.
        for options in ({}, {"hint": {"$natural": 1}}):
            found = answered(collection, case, pipeline, **options)
            if isinstance(found, OperationFailure):
                agree = outcome == "refused"
            else:
                agree = outcome == "ok" and pipelines.same(expected, found)
            assert agree, (options, pipeline, stored[case], outcome, expected, found)
        totals[outcome] += 1


def main():
    address, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    draw, totals = random.Random(seed), collections.Counter()
    client = pymongo.MongoClient(
        "mongodb://" + address, serverSelectionTimeoutMS=20000, tz_aware=True
    )
    while totals.total() - totals["undecided"] < count:
        compare(client.db["cases_%d" % totals.total()], draw, totals)
    print(f"{totals['ok']} equal, {totals['refused']} refused, {totals['undecided']} undecided")


if __name__ == "__main__":
    main()
