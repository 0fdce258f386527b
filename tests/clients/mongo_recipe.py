"""Calls of the classic designs of operational intelligence, each with the result that must come.

    python3 mongo_recipe.py ADDRESS events
    python3 mongo_recipe.py ADDRESS explained
    python3 mongo_recipe.py ADDRESS pages
    python3 mongo_recipe.py ADDRESS sessions
    python3 mongo_recipe.py ADDRESS counters
    python3 mongo_recipe.py ADDRESS hits COUNT SEED

`events` asks for events and counts them, `explained` asks how these are found, `pages` reads
pre-aggregated reports of a rollup `stats` by site and path, `sessions` the levels of a rollup
`lengths` by user, and `counters` counts by `$inc` upserts. Each prints the number of its calls, or
fails with the first answer that is wrong. `hits` counts so many hits of two days from 16 threads,
through a proxy that breaks connections.
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

from pymongo import ReturnDocument
from pymongo.errors import OperationFailure

from mongo import EXAMPLE, Proxy, in_threads, passes

UTC = datetime.timezone.utc


def at(*fields):
    return datetime.datetime(*fields, tzinfo=UTC)


def connected(address):
    return pymongo.MongoClient(
        "mongodb://" + address, serverSelectionTimeoutMS=20000, tz_aware=True
    )


class Calls:
    """Compares answers, and counts them."""

    def __init__(self):
        self.count = 0

    def gives(self, found, expected):
        assert found == expected, (found, expected)
        self.count += 1

    def fails(self, code, act):
        try:
            act()
        except OperationFailure as error:
            assert error.code == code, (code, error.code, error)
            self.count += 1
            return str(error)
        raise AssertionError(f"it did not fail with {code}")


def value_at(made, path):
    for name in path.split("."):
        made = made.get(name) if isinstance(made, dict) else None
    return made


def random_condition(draw, made, path):
    """A condition on a path, by values that documents have there."""

    def operand():
        value = value_at(draw.choice(made), path)
        if isinstance(value, int) and draw.random() < 0.3:
            return draw.choice([value + 1, value + 0.5, float(value)])
        return value

    operators = ["$eq", "$in", "$ne"]
    # Documents have no order in Python.
    if not any(isinstance(value_at(one, path), dict) for one in made):
        operators += ["$gt", "$gte", "$lt", "$lte"]
    operator = draw.choice(operators)
    operands = [operand() for _ in range(draw.randint(0, 2))]
    return {operator: operands if operator == "$in" else operand()}


def compare_filters(calls, collection, paths):
    """Compares filters with an evaluation over all documents, which a scan must not leave out."""
    draw = random.Random(11)
    made = list(collection.find())
    found_some = 0
    for _ in range(60):
        chosen = draw.sample(paths, draw.randint(1, 2))
        wanted = {path: random_condition(draw, made, path) for path in chosen}
        expected = [one["_id"] for one in made if passes(wanted, one)]
        found = [one["_id"] for one in collection.find(wanted)]
        assert sorted(map(str, found)) == sorted(map(str, expected)), (wanted, found, expected)
        found_some += bool(expected)
    calls.gives(found_some > 10, True)


def events(address):
    database = connected(address).my_noc
    calls = Calls()
    begin = at(2000, 10, 10)
    made = []
    for n in range(600):
        made.append(
            dict(
                EXAMPLE,
                host="127.0.0.%d" % (n % 7),
                path="/apache_pb.gif" if n % 3 else "/index.html",
                time=begin + datetime.timedelta(minutes=7 * n),
            )
        )
    database.events.insert_many([dict(one) for one in made])
    names = [
        database.events.create_index("path"),
        database.events.create_index([("time", 1), ("host", 1)]),
        database.events.create_index([("host", 1), ("time", 1)]),
    ]
    calls.gives(names, ["path_1", "time_1_host_1", "host_1_time_1"])

    def found(wanted):
        cursor = database.events.find(wanted, {"_id": 0}).sort("time", 1)
        return [dict(one) for one in cursor]

    def expected(test):
        return [dict(one) for one in made if test(one)]

    day = {"$gte": at(2000, 10, 10), "$lt": at(2000, 10, 11)}
    calls.gives(
        found({"path": "/apache_pb.gif"}),
        expected(lambda one: one["path"] == "/apache_pb.gif"),
    )
    calls.gives(found({"time": day}), expected(lambda one: one["time"].day == 10))
    calls.gives(
        found({"host": "127.0.0.1", "time": day}),
        expected(lambda one: one["host"] == "127.0.0.1" and one["time"].day == 10),
    )
    sizes = database.command("collStats", "events")["indexSizes"]
    calls.gives("_id_" in sizes and all(size >= 0 for size in sizes.values()), True)

    # Hits by day and page.
    pipeline = [
        {"$match": {"time": {"$gte": at(2000, 10, 1), "$lt": at(2000, 11, 1)}}},
        {
            "$project": {
                "path": 1,
                "date": {
                    "y": {"$year": "$time"},
                    "m": {"$month": "$time"},
                    "d": {"$dayOfMonth": "$time"},
                },
            }
        },
        {
            "$group": {
                "_id": {"p": "$path", "y": "$date.y", "m": "$date.m", "d": "$date.d"},
                "hits": {"$sum": 1},
            }
        },
    ]
    hits = collections.Counter(
        (one["path"], one["time"].year, one["time"].month, one["time"].day) for one in made
    )
    found = list(database.events.aggregate(pipeline))
    calls.gives(
        {tuple(one["_id"][name] for name in "pymd"): one["hits"] for one in found}, dict(hits)
    )
    calls.gives(len(found), len(hits))
    found = list(database.events.aggregate([*pipeline, {"$sort": {"hits": -1, "_id": 1}}]))
    order = sorted(found, key=lambda one: (-one["hits"], [one["_id"][n] for n in "pymd"]))
    calls.gives(found, order)
    found = list(database.events.aggregate([{"$match": {"host": "127.0.0.1"}}, {"$count": "n"}]))
    calls.gives(found, [{"n": len([1 for n in range(600) if n % 7 == 1])}])
    found = database.events.aggregate([{"$project": {"host": 1}}], batchSize=10)
    calls.gives(len(list(found)), 600)
    print(f"{calls.count} calls")


def explained(address):
    """Explains reads of the events that the chapter of events has stored, once they are in parts."""
    stored = connected(address).my_noc.events
    calls = Calls()
    wanted = {"host": "127.0.0.1", "time": {"$gte": at(2000, 10, 10), "$lt": at(2000, 10, 11)}}
    count = len(list(stored.find(wanted)))
    plan = stored.find(wanted).explain()
    stats = plan["executionStats"]
    calls.gives((stats["nReturned"], stats["executionSuccess"]), (count, True))
    # That day has 206 of the 600 events.
    calls.gives(count <= stats["totalDocsExamined"] <= 206, True)
    # Both scans look at that day alone: of columns, and of what lies beside them.
    calls.gives(plan["logmill"]["partitions"], {"total": 6, "examined": 2})
    calls.gives("winningPlan" in plan["queryPlanner"], True)
    hinted = list(stored.find(wanted).hint([("time", 1), ("host", 1)]))
    calls.gives(len(hinted), count)
    group = {"$group": {"_id": "$path", "n": {"$sum": 1}}}
    command = {"aggregate": "events", "pipeline": [group], "cursor": {}}
    plan = connected(address).my_noc.command("explain", command)
    calls.gives(plan["executionStats"]["nReturned"], 2)
    print(f"{calls.count} calls")


def pages(address):
    database = connected(address).db
    calls = Calls()
    hits = [
        (at(2000, 10, 9, 23, 59, 59), "/index.html"),
        (at(2000, 10, 10, 14, 37, 0), "/index.html"),
        (at(2000, 10, 10, 14, 37, 59), "/index.html"),
        (at(2000, 10, 10, 15, 0, 0), "/index.html"),
        (at(2000, 10, 10, 14, 37, 0), "/other.html"),
        (at(2000, 11, 1, 0, 0, 0), "/index.html"),
    ]
    database.events.insert_many(
        [{"site": "site-1", "path": path, "time": time} for time, path in hits]
    )
    daily, monthly = database.stats.daily, database.stats.monthly
    day = {"date": at(2000, 10, 10), "site": "site-1", "page": "/index.html"}

    # A chart of the last hour, and one of the day.
    found = daily.find_one({"metadata": day}, {"minute": 1})
    calls.gives(found["_id"], "20001010/site-1/index.html")
    calls.gives(found["minute"]["14"]["37"], 2)
    calls.gives(found["minute"]["14"]["36"], 0)
    calls.gives(len(found["minute"]), 24)
    calls.gives(sorted(found), ["_id", "minute"])
    found = daily.find_one({"metadata": day}, {"hourly": 1})
    hours = {hour: count for hour, count in found["hourly"].items() if count}
    calls.gives(hours, {"14": 2, "15": 1})
    found = daily.find_one({"_id": "20001010/site-1/index.html"})
    calls.gives((found["daily"], found["metadata"]), (3, day))

    # Several days of hours, and fields by their names.
    found = daily.find(
        {
            "metadata.date": {"$gte": at(2000, 10, 9), "$lte": at(2000, 10, 10)},
            "metadata.site": "site-1",
            "metadata.page": "/index.html",
        },
        {"metadata.date": 1, "hourly": 1},
        sort=[("metadata.date", 1)],
    )
    found = [(one["metadata"]["date"], sum(one["hourly"].values())) for one in found]
    calls.gives(found, [(at(2000, 10, 9), 1), (at(2000, 10, 10), 3)])

    # A month of days, and several months.
    month = dict(day, date=at(2000, 10, 1))
    found = monthly.find_one({"metadata": month}, {"daily": 1})
    days = {number: count for number, count in found["daily"].items() if count}
    calls.gives((found["_id"], days), ("200010/site-1/index.html", {"9": 1, "10": 3}))
    found = monthly.find(
        {"metadata.page": "/index.html", "metadata.date": {"$lte": at(2000, 11, 30)}},
        {"metadata.date": 1, "daily": 1},
        sort=[("metadata.date", -1)],
    )
    found = [(one["metadata"]["date"], sum(one["daily"].values())) for one in found]
    calls.gives(found, [(at(2000, 11, 1), 1), (at(2000, 10, 1), 4)])

    calls.gives(daily.count_documents({"metadata.site": "site-1"}), 4)
    calls.gives(daily.estimated_document_count(), 4)
    calls.gives(sorted(monthly.distinct("metadata.page")), ["/index.html", "/other.html"])
    calls.gives(daily.find_one({"metadata.site": "site-2"}), None)
    # Other levels have a document for each key and bucket.
    bucket = {"site": "site-1", "path": "/index.html", "d": at(2000, 10, 10, 14)}
    found = database.stats.hourly.find_one({"_id": bucket})
    calls.gives(found, {"_id": bucket, "value": {"hits": 2}})
    calls.fails(166, lambda: daily.insert_one({"a": 1}))
    page = ["metadata.date", "metadata.site", "metadata.page", "_id", "metadata", "daily"]
    compare_filters(calls, daily, page)
    compare_filters(calls, monthly, [*page[:-1], "monthly", "daily.10"])
    compare_filters(calls, database.stats.hourly, ["_id.d", "_id.path", "_id", "value.hits"])
    print(f"{calls.count} calls")


USER = "rick"


def sessions(address):
    database = connected(address).db
    calls = Calls()
    lengths = database.lengths

    def insert(*events):
        database.sessions.insert_many(
            [{"userid": USER, "ts": ts, "length": length} for ts, length in events]
        )

    def bucket(level, first, *fields):
        found = list(lengths[level].find({"_id.u": USER, "_id.d": first}))
        assert [one["_id"] for one in found] == [{"u": USER, "d": first}], found
        return tuple(found[0]["value"][field] for field in fields)

    insert(
        (at(2010, 10, 10, 14, 17, 22), 95),
        (at(2010, 10, 10, 14, 40, 0), 159),
        (at(2010, 10, 10, 15, 5, 0), 60),
        (at(2010, 10, 31, 23, 59, 59, 999000), 10),
        (at(2010, 11, 1, 0, 0, 0), 20),
    )
    both = ("total", "count")
    hour = ("hourly", at(2010, 10, 10, 14), "total", "count", "mean")
    calls.gives(bucket(*hour), (254, 2, 127))
    later = [
        ("daily", at(2010, 10, 10), 314, 3),
        ("weekly", at(2010, 10, 31), 30, 2),
        ("monthly", at(2010, 10, 1), 324, 4),
        ("monthly", at(2010, 11, 1), 20, 1),
        ("yearly", at(2010, 1, 1), 344, 5),
    ]
    for level, first, total, count in later:
        calls.gives(bucket(level, first, *both), (total, count))
    # An event that comes late is in every bucket to which it belongs.
    insert((at(2010, 10, 10, 14, 0, 0), 46))
    calls.gives(bucket(*hour), (300, 3, 100))
    for level, first, total, count in later:
        is_late = first <= at(2010, 10, 10) and level != "weekly"
        expected = (total + 46, count + 1) if is_late else (total, count)
        calls.gives(bucket(level, first, *both), expected)
    within = {"$gte": at(2010, 10, 1), "$lt": at(2010, 11, 1)}
    found = lengths.hourly.find({"_id.u": USER, "_id.d": within}).sort("_id.d", 1)
    found = [(one["_id"]["d"].hour, one["value"]["total"]) for one in found]
    calls.gives(found, [(14, 300), (15, 60), (23, 10)])
    calls.gives(list(lengths.daily.find({"_id.u": "nobody"})), [])
    compare_filters(calls, lengths.daily, ["_id.u", "_id.d", "_id", "value.total", "value.mean"])
    # The computation of the rollup as a single run.
    pipeline = [
        {"$match": {"ts": within}},
        {
            "$group": {
                "_id": {"u": "$userid", "d": {"$dateTrunc": {"date": "$ts", "unit": "hour"}}},
                "total": {"$sum": "$length"},
                "count": {"$sum": 1},
                "mean": {"$avg": "$length"},
            }
        },
        {"$sort": {"_id.d": 1}},
    ]
    found = list(database.sessions.aggregate(pipeline))
    level = lengths.hourly.find({"_id.d": within}).sort("_id.d", 1)
    calls.gives(
        [(one["_id"], one["total"], one["count"], one["mean"]) for one in found],
        [(one["_id"], *(one["value"][name] for name in ("total", "count", "mean"))) for one in level],
    )
    # Events that are equal in what is read count as often as they are.
    for hint in (None, {"$natural": 1}):
        group = {"_id": "$userid", "n": {"$sum": 1}, "days": {"$sum": {"$dayOfMonth": "$ts"}}}
        found = list(database.sessions.aggregate([{"$group": group}], hint=hint))
        calls.gives(found, [{"_id": USER, "n": 6, "days": 4 * 10 + 31 + 1}])
        found = list(database.sessions.aggregate([{"$count": "n"}], hint=hint))
        calls.gives(found, [{"n": 6}])
    said = calls.fails(
        115,
        lambda: database.command(
            "mapReduce",
            "sessions",
            map="function() {}",
            reduce="function() {}",
            out={"reduce": "lengths.hourly"},
        ),
    )
    calls.gives("[rollup.lengths]" in said and "$group" in said, True)
    print(f"{calls.count} calls")


def log_hit(database, at_time, site, page):
    """Counts a hit in the document of its page and day, and in that of its month."""
    name = site + page
    changed = []
    for collection, form, begin, increments in [
        (
            database.stats.daily,
            "%Y%m%d/",
            datetime.datetime.combine(at_time.date(), datetime.time.min),
            {
                "hourly.%d" % at_time.hour: 1,
                "minute.%d.%d" % (at_time.hour, at_time.minute): 1,
                "daily": 1,
            },
        ),
        (
            database.stats.monthly,
            "%Y%m/",
            datetime.datetime(at_time.year, at_time.month, 1),
            {"daily.%d" % at_time.day: 1},
        ),
    ]:
        metadata = {"date": begin, "site": site, "page": page}
        wanted = {"_id": at_time.strftime(form) + name, "metadata": metadata}
        changed.append(collection.update_one(wanted, {"$inc": increments}, upsert=True))
    return changed


def counters(address):
    database = connected(address).db
    calls = Calls()
    time = datetime.datetime(2000, 10, 10, 14, 37, 12)
    first, _ = log_hit(database, time, "site-1", "/index.html")
    calls.gives((first.matched_count, first.upserted_id), (0, "20001010/site-1/index.html"))
    second, _ = log_hit(database, time, "site-1", "/index.html")
    calls.gives((second.matched_count, second.modified_count, second.upserted_id), (1, 1, None))
    daily = database.stats.daily
    expected = {
        "_id": "20001010/site-1/index.html",
        "metadata": {"date": at(2000, 10, 10), "site": "site-1", "page": "/index.html"},
        "hourly": {"14": 2},
        "minute": {"14": {"37": 2}},
        "daily": 2,
    }
    calls.gives(daily.find_one({"metadata.site": "site-1"}), expected)
    calls.gives(daily.find_one({"_id": "20001010/site-1/index.html"}), expected)
    calls.gives(daily.find_one({"_id": "20001011/site-1/index.html"}), None)
    # Zeros for every hour and minute begin a document and add nothing.
    zeros = {"hourly.%d" % hour: 0 for hour in range(24)}
    zeros.update({"minute.%d.%d" % (n // 60, n % 60): 0 for n in range(1440)})
    tomorrow = {"_id": "20001011/site-1/index.html", "metadata": {"site": "site-1"}}
    made = daily.update_one(tomorrow, {"$inc": zeros}, upsert=True)
    calls.gives(made.upserted_id, tomorrow["_id"])
    calls.gives(daily.find_one({"_id": tomorrow["_id"]}), tomorrow)
    calls.gives(daily.count_documents({}), 2)
    calls.gives(daily.estimated_document_count(), 2)

    # Identifiers of other types, other increments, and fields of an insert alone.
    free = database.free
    for by in (5, -7, 1 << 40):
        free.update_one({"_id": 1}, {"$inc": {"n": by, "a.b": 1}}, upsert=True)
    calls.gives(free.find_one({"_id": 1.0}), {"_id": 1, "n": (1 << 40) - 2, "a": {"b": 3}})
    # A fixed number is one to which increments are added.
    free.update_one({"_id": "f"}, {"$setOnInsert": {"n": 5}}, upsert=True)
    free.update_one({"_id": "f"}, {"$inc": {"n": 2}}, upsert=True)
    calls.gives(free.find_one({"_id": "f"}), {"_id": "f", "n": 7})
    calls.fails(40, lambda: free.update_one({"_id": 1}, {"$inc": {"a": 1, "a.b": 1}}, upsert=True))
    calls.fails(2, lambda: free.update_one({"_id": [1]}, {"$inc": {"a": 1}}, upsert=True))
    change = {"$inc": {"n": 1}, "$setOnInsert": {"kind": "x", "list": [1, None]}}
    for _ in range(2):
        free.update_one({"_id": {"u": "rick"}}, change, upsert=True)
    found = free.find_one({"kind": "x"})
    calls.gives(found, {"_id": {"u": "rick"}, "n": 2, "kind": "x", "list": [1, None]})
    missed = free.update_one({"_id": 2}, {"$inc": {"n": 1}})
    calls.gives((missed.matched_count, free.find_one({"_id": 2})), (0, None))
    found = free.aggregate([{"$group": {"_id": None, "n": {"$sum": "$n"}}}])
    calls.gives([one["n"] for one in found], [(1 << 40) + 7])

    compare_filters(calls, free, ["_id", "n", "kind"])
    compare_filters(calls, daily, ["_id", "daily", "metadata.site", "hourly.14"])

    # Updates that do not commute.
    calls.fails(115, lambda: free.update_one({"_id": 1}, {"$set": {"n": 1}}))
    calls.fails(115, lambda: free.update_one({"n": 1}, {"$inc": {"n": 1}}))
    calls.fails(14, lambda: free.update_one({"_id": 1}, {"$inc": {"n": 0.5}}))
    calls.fails(115, lambda: free.insert_one({"n": 1}))
    sequence = {"$inc": {"inc": 50}}
    said = calls.fails(
        59,
        lambda: database.sequence.find_one_and_update(
            {"_id": 0}, sequence, upsert=True, return_document=ReturnDocument.AFTER
        ),
    )
    calls.gives("_id" in said, True)
    database.events.insert_one({"n": 1})
    calls.fails(115, lambda: database.events.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True))
    print(f"{calls.count} calls")


def hits(address, count, seed):
    proxy = Proxy(address, int(seed))
    count, threads = int(count), 16
    draw = random.Random(int(seed))
    begin = datetime.datetime(2000, 10, 30, 22, 0)
    times = [begin + datetime.timedelta(minutes=draw.randrange(36 * 60)) for _ in range(count)]
    made = [(time, draw.choice(["/", "/index.html", "/a/b.html"])) for time in times]
    acknowledged, failed = [], []

    def write(first):
        try:
            with connected(proxy.address) as client:
                for time, page in made[first::threads]:
                    log_hit(client.db, time, "site-1", page)
                    acknowledged.append((time, page))
        except Exception as error:
            failed.append(error)

    in_threads(threads, write)
    assert not failed, failed
    assert sorted(acknowledged) == sorted(made)
    days, months = collections.defaultdict(collections.Counter), {}
    for time, page in made:
        name = "/site-1" + page
        day = days[time.strftime("%Y%m%d") + name]
        day[("daily",)] += 1
        day[("hourly", str(time.hour))] += 1
        day[("minute", str(time.hour), str(time.minute))] += 1
        month = months.setdefault(time.strftime("%Y%m") + name, collections.Counter())
        month[("daily", str(time.day))] += 1
    database = connected(address).db

    def leaves(value, path=()):
        if not isinstance(value, dict):
            return {path: value}
        return {k: v for name in value for k, v in leaves(value[name], (*path, name)).items()}

    for collection, expected in [(database.stats.daily, days), (database.stats.monthly, months)]:
        found = {}
        for one in collection.find():
            page = one.pop("metadata")["page"]
            name = one.pop("_id")
            assert name.endswith("/site-1" + page), (name, page)
            found[name] = leaves(one)
        assert found == {name: dict(counts) for name, counts in expected.items()}
    broken = proxy.broken
    print(f"counted {count}, broken before {broken['before']}, behind {broken['behind']}")


def main():
    address, act = sys.argv[1:3]
    acts = [events, explained, pages, sessions, counters, hits]
    {one.__name__: one for one in acts}[act](address, *sys.argv[3:])


if __name__ == "__main__":
    main()
