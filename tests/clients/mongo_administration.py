"""Administers a store through a driver of MongoDB: lists, indexes, sizes, state and queries.

    python3 mongo_administration.py ADDRESS lists
    python3 mongo_administration.py ADDRESS creates
    python3 mongo_administration.py ADDRESS indexes
    python3 mongo_administration.py ADDRESS retention
    python3 mongo_administration.py ADDRESS kept
    python3 mongo_administration.py ADDRESS ring NUMBER
    python3 mongo_administration.py ADDRESS sizes
    python3 mongo_administration.py ADDRESS sharding
    python3 mongo_administration.py ADDRESS validates VALID
    python3 mongo_administration.py ADDRESS states
    python3 mongo_administration.py ADDRESS operations
    python3 mongo_administration.py ADDRESS rights READER SHIPPER

Each prints what it was told, or fails with the first answer that is wrong. The store has the stream
`access` of an access log, sealed; `capped` has retention by 1 MiB and `aged` by one hour. For
`rights` there is the stream `hidden`, and tokens of the stream `events` to read and to ingest.
`validates` is told whether `access` is `sound` or `damaged`.
`kept` comes behind `retention`, after a restart. `ring` limits `access`, whose newest partition has
so many events.
"""

import sys
import time

from mongo import client, fails

from pymongo import IndexModel
from pymongo.errors import CollectionInvalid

OWN = {"_id_", "time_1"}


def says(error, *words):
    """Checks that the message of an error has these words."""
    message = error.details["errmsg"]
    for word in words:
        assert word in message, (word, message)


def lists(address):
    connected = client(address)
    assert connected.list_database_names() == ["logmill"]
    listed = connected.admin.command("listDatabases")
    assert listed["databases"][0]["sizeOnDisk"] == listed["totalSize"] > 0, listed
    none = connected.admin.command("listDatabases", filter={"name": "other"})
    assert none["databases"] == [], none
    # Streams belong to no database.
    for database in ("logmill", "whatever"):
        names = connected[database].list_collection_names()
        assert {"access", "stats.hourly", "stats.daily", "traffic.yearly"} <= set(names), names
        assert not any(name.startswith("_") for name in names), names
    for database in ("admin", "local", "config"):
        assert connected[database].list_collection_names() == []
    logs = connected.logs
    assert logs.list_collection_names(filter={"name": "access"}) == ["access"]
    views = logs.list_collection_names(filter={"type": "view"})
    assert views and all("." in name for name in views), views
    (stream,) = logs.list_collections(filter={"name": "access"})
    assert stream["type"] == "collection" and stream["info"] == {"readOnly": False}, stream
    assert stream["options"] == {} and stream["idIndex"]["name"] == "_id_", stream
    (level,) = logs.list_collections(filter={"name": "stats.hourly"})
    assert level["info"]["readOnly"] is True and level["options"]["viewOn"] == "access", level
    matching = logs.list_collection_names(filter={"name": {"$regex": r"^stats\.m"}})
    assert sorted(matching) == ["stats.minutely", "stats.monthly"], matching
    print("access", len(views))


def creates(address):
    logs = client(address).logs
    logs.create_collection("plain")
    assert "plain" not in logs.list_collection_names()
    logs.plain.insert_one({"a": 1})
    assert "plain" in logs.list_collection_names()
    logs.command("create", "plain")
    try:
        logs.create_collection("plain")
        raise AssertionError("pymongo asks for the collection first")
    except CollectionInvalid:
        pass
    # Retention by bytes is that of the configuration.
    logs.create_collection("capped", capped=True, size=1 << 20)
    error = fails(115, lambda: logs.command("create", "capped", capped=True, size=1 << 30))
    says(error, '[stream.capped]\nretention = { bytes = "1GiB" }\n')
    logs.capped.insert_one({"a": 1})
    logs.command("create", "capped", capped=True, size=1 << 20)
    fails(48, lambda: logs.command("create", "capped", capped=True, size=1 << 21))
    assert logs.capped.options() == {"capped": True, "size": 1 << 20}
    fails(72, lambda: logs.command("create", "other", capped=True))
    # A time series expires by the time of its events.
    logs.create_collection("series", timeseries={"timeField": "time", "granularity": "minutes"})
    logs.create_collection("aged", timeseries={"timeField": "ts"}, expireAfterSeconds=3600)
    new = {"timeseries": {"timeField": "time"}, "expireAfterSeconds": 86400}
    logs.command("create", "fresh", **new)
    assert logs.fresh.index_information()["time_1"]["expireAfterSeconds"] == 86400
    # Retention is set before the first event, once.
    for _ in range(2):
        logs.command("create", "ring", capped=True, size=1 << 20)
    fails(48, lambda: logs.command("create", "ring", capped=True, size=1 << 21))
    logs.drop_collection("ring")
    logs.command("create", "ring", capped=True, size=1 << 20)
    logs.ring.insert_one({"a": 1})
    assert logs.ring.options() == {"capped": True, "size": 1 << 20}
    fails(115, lambda: logs.command("create", "fresh", timeseries={"timeField": "begin"}))
    for options in ({"viewOn": "plain", "pipeline": [{"$match": {}}]}, {"validator": {"a": 1}}):
        fails(115, lambda: logs.command("create", "view", **options))
    fails(48, lambda: logs.command("create", "stats.hourly"))
    fails(73, lambda: client(address).admin.command("create", "plain"))
    logs.drop_collection("never")
    says(fails(115, lambda: logs.drop_collection("plain")), "logmill partition drop plain")
    fails(115, lambda: client(address).drop_database("logs"))
    says(fails(115, lambda: logs.plain.rename("other")), "logmill partition detach")
    assert logs.plain.estimated_document_count() == 1
    print("created")


def indexes(address):
    logs = client(address).logs
    access = logs.access
    order = {"host_1_time_1"}
    assert set(access.index_information()) == OWN | order
    # The order and the partitions serve these.
    for key in ("time", [("time", 1), ("host", 1)], [("host", 1), ("time", -1)], "_id", "host"):
        access.create_index(key)
    assert set(access.index_information()) == OWN | order
    assert access.create_index("path") == "path_1"
    assert set(access.index_information()) == OWN | order | {"path_1"}
    asked = [{"key": {"path": 1, "time": 1}, "name": "a"}, {"key": {"user": 1}, "name": "b"}]
    told = logs.command("createIndexes", "access", indexes=asked)
    assert (told["numIndexesBefore"], told["numIndexesAfter"]) == (4, 5), told
    assert told["createdCollectionAutomatically"] is False and "user_1" in told["note"], told
    keys = {name: index["key"] for name, index in access.index_information().items()}
    assert keys["user_1"] == [("user", 1)] and keys["host_1_time_1"] == [("host", 1), ("time", 1)]
    access.drop_index("path_1")
    access.drop_index([("user", 1)])
    assert set(access.index_information()) == OWN | order
    fails(27, lambda: access.drop_index("path_1"))
    fails(72, lambda: access.drop_index("_id_"))
    access.create_index([("path", 1), ("user", 1)])
    assert {"path_1", "user_1"} < set(access.index_information())
    access.drop_indexes()
    assert set(access.index_information()) == OWN | order
    for key, options in [
        ([("path", "text")], {}),
        ([("path", "hashed")], {}),
        ([("path", "2dsphere")], {}),
        ([("$**", 1)], {}),
        ("path", {"unique": True}),
        ("_id", {"unique": True}),
        ("path", {"partialFilterExpression": {"status": 200}}),
        ("nonsense", {}),
    ]:
        fails(67, lambda: access.create_index(key, **options))
    fails(197, lambda: access.create_index("path", nonsense=1))
    # A column that cannot have one: its conditions are served otherwise.
    asked = [{"key": {"begun": 1}, "name": "begun_1"}]
    logs.typed.insert_one({"begun": 0.5})
    assert "begun" in logs.command("createIndexes", "typed", indexes=asked)["note"]
    # A program creates its indexes before its first insert.
    assert logs.later.index_information() == {}
    logs.later.create_index("metadata.site")
    assert set(logs.later.index_information()) == OWN | {"metadata.site_1"}
    logs.later.insert_one({"metadata": {"site": "a"}})
    logs.later.create_index("metadata.site")
    assert set(logs.later.index_information()) == OWN | {"metadata.site_1"}
    # The keys of a rollup are the order of its levels.
    logs["stats.daily"].create_index([("metadata.site", 1), ("metadata.page", 1)])
    assert list(logs["stats.daily"].index_information()) == ["_id_"]
    print("indexed")


def retention(address):
    logs = client(address).logs
    aged = logs.aged
    aged.insert_one({"a": 1})
    aged.create_index("time", expireAfterSeconds=3600)
    assert aged.index_information()["time_1"]["expireAfterSeconds"] == 3600
    error = fails(115, lambda: aged.create_index("time", expireAfterSeconds=7200))
    says(error, '[stream.aged]\nretention = { age = "2h" }\n')
    fails(67, lambda: aged.create_index("a", expireAfterSeconds=3600))
    says(fails(115, lambda: aged.drop_index("time_1")), "remove retention")
    change = {"keyPattern": {"time": 1}, "expireAfterSeconds": 3600}
    told = logs.command("collMod", "aged", index=change)
    assert told["expireAfterSeconds_new"] == 3600, told
    fails(115, lambda: logs.command("collMod", "aged", index={**change, "expireAfterSeconds": 60}))
    fails(115, lambda: logs.command("collMod", "aged", index={**change, "hidden": True}))
    fails(115, lambda: logs.command("collMod", "aged", expireAfterSeconds="off"))
    fails(115, lambda: logs.command("collMod", "aged", validator={"a": 1}))
    fails(26, lambda: logs.command("collMod", "never", expireAfterSeconds=60))
    passing = logs.passing
    for _ in range(2):
        passing.create_index("time", expireAfterSeconds=60)
    assert age_of(passing) == 60
    says(fails(85, lambda: passing.create_index("time", expireAfterSeconds=120)), "collMod")
    fails(67, lambda: passing.create_indexes([index(60), index(120)]))
    passing.insert_one({"a": 1})
    told = logs.command("collMod", "passing", index={**change, "expireAfterSeconds": 120})
    ages = told["expireAfterSeconds_old"], told["expireAfterSeconds_new"]
    assert ages == (60, 120), told
    logs.command("collMod", "passing", cappedSize=1 << 30)
    assert age_of(passing) == 120 and passing.options()["size"] == 1 << 30
    passing.drop_index("time_1")
    assert age_of(passing) is None and passing.options()["size"] == 1 << 30
    fails(27, lambda: passing.drop_index("never_1"))
    passing.create_index("time", expireAfterSeconds=60)
    passing.drop_indexes()
    aged.drop_indexes()
    assert age_of(passing) is None and age_of(aged) == 3600
    logs.command("collMod", "passing", expireAfterSeconds=7200)
    print("retained")


def index(age_s):
    return IndexModel("time", expireAfterSeconds=age_s, name=f"of_{age_s}")


def age_of(collection):
    return collection.index_information()["time_1"].get("expireAfterSeconds")


def kept(address):
    passing = client(address).logs.passing
    assert age_of(passing) == 7200 and passing.options()["size"] == 1 << 30
    print("kept")


def ring(address, number):
    logs = client(address).logs
    assert logs.access.estimated_document_count() > int(number)
    logs.command("collMod", "access", cappedSize=1)
    until = time.monotonic() + 60
    while logs.access.estimated_document_count() != int(number):
        assert time.monotonic() < until, logs.access.estimated_document_count()
        time.sleep(0.05)
    print("ring", number)


def sizes(address):
    logs = client(address).logs
    logs.access.create_index("path")
    told = logs.command("collStats", "access")
    assert told["ns"] == "logs.access" and told["count"] > 0 and told["storageSize"] > 0, told
    assert set(told["indexSizes"]) == OWN | {"host_1_time_1", "path_1"}, told
    assert told["nindexes"] == len(told["indexSizes"])
    assert told["totalIndexSize"] == sum(told["indexSizes"].values())
    assert told["avgObjSize"] == told["size"] // told["count"], told
    scaled = logs.command("collStats", "access", scale=1024)
    assert scaled["storageSize"] == told["storageSize"] // 1024 and scaled["scaleFactor"] == 1024
    assert logs.command("collStats", "never")["count"] == 0
    assert logs.command("collStats", "stats.hourly")["count"] > 0
    fails(2, lambda: logs.command("collStats", "access", scale=0))
    whole = logs.command("dbStats")
    assert whole["db"] == "logs" and whole["collections"] >= 1 and whole["views"] >= 12, whole
    assert whole["objects"] >= told["count"] and whole["indexes"] >= told["nindexes"], whole
    assert client(address).admin.command("dbStats")["objects"] == 0
    print("sized", told["count"])


def sharding(address):
    admin = client(address).admin
    keys = {
        "time": {"time": 1},
        "batch": {"_id": "hashed"},
        "path": {"path": 1},
        "path + hash": {"path": 1, "ssk": 1},
    }
    for expected, key in keys.items():
        told = admin.command("shardCollection", "logs.access", key=key)
        assert told["collectionsharded"] == "logs.access" and told["key"] == expected, told
        measured = told["shardKeys"]
        assert measured["shards"] == 16 and measured["events"] == 40, measured
        (figures,) = [of for of in measured["keys"] if of["key"] == expected]
        assert 1 <= figures["busiest"] <= 16 and figures["work"] >= figures["busiest"], figures
        # All events have one path, and came in one request.
        has_one_shard = expected in ("path", "batch")
        assert (figures["busiest"] == 16) == has_one_shard, figures
    none = admin.command("shardCollection", "logs.none", key={"a": 1})
    assert none["collectionsharded"] == "logs.none" and "shardKeys" not in none, none
    fails(2, lambda: admin.command("shardCollection", "logs.access", key={}))
    fails(2, lambda: admin.command("shardCollection", "logs.access", key={"a": "text"}))
    fails(73, lambda: admin.command("shardCollection", "access", key={"a": 1}))
    fails(166, lambda: admin.command("shardCollection", "logs.stats.daily", key={"path": 1}))
    unique = {"key": {"path": 1}, "unique": True}
    fails(115, lambda: admin.command("shardCollection", "logs.access", **unique))
    print("sharded")


def validates(address, state):
    logs = client(address).logs
    fails(26, lambda: logs.validate_collection("never"))
    fails(115, lambda: logs.command("validate", "access", repair=True))
    for full in (False, True):
        try:
            told = logs.validate_collection("access", full=full)
            assert state == "sound" and told["valid"] and told["nInvalidDocuments"] == 0, told
            assert told["errors"] == [] and told["nIndexes"] >= 3, told
        except CollectionInvalid as invalid:
            assert state == "damaged" and ".parquet" in str(invalid), invalid
            told = logs.command("validate", "access")
            assert told["nInvalidDocuments"] == 40, told
        assert told["ns"] == "logs.access" and told["nrecords"] == 40, told
    if state == "sound":
        level = logs.validate_collection("stats.hourly")
        assert level["valid"] and level["nrecords"] == 7, level
        fails(26, lambda: logs.validate_collection("stats.never"))
    print(state)


def states(address):
    admin = client(address).admin
    told = admin.command("serverStatus")
    assert told["version"] == admin.command("buildInfo")["version"]
    assert told["process"] == "mongos" and told["pid"] > 0 and told["uptime"] >= 0, told
    assert told["connections"]["current"] >= 1 and told["connections"]["available"] > 0, told
    assert told["opcounters"]["insert"] >= 0 and told["mem"]["resident"] > 0, told
    assert admin.command("hostInfo")["system"]["numCores"] >= 1
    version = admin.command("getParameter", featureCompatibilityVersion=1)
    assert version["featureCompatibilityVersion"]["version"] == "7.0", version
    assert "authenticationMechanisms" in admin.command("getParameter", "*")
    fails(72, lambda: admin.command("getParameter", nonsense=1))
    assert admin.command("getLog", "*")["names"] == ["global", "startupWarnings"]
    assert admin.command("getLog", "startupWarnings")["log"] == []
    assert admin.command("getCmdLineOpts")["parsed"] == {}
    assert admin.command("whatsmyip")["you"] == "127.0.0.1"
    commands = admin.command("listCommands")["commands"]
    assert "find" in commands and commands["hello"]["requiresAuth"] is False
    assert admin.command("usersInfo", 1)["users"] == []
    for refused in ("reshardCollection", "reIndex"):
        fails(115, lambda: admin.command(refused, "access"))
    for unknown in ("connPoolStats", "atlasVersion", "features", "nonsense"):
        fails(59, lambda: admin.command(unknown))
    print(told["version"])


def operations(address):
    connected = client(address)
    logs, admin = connected.logs, connected.admin
    # More than is read ahead for a cursor: its query stays open between two batches.
    filler = "x" * 1000
    logs.slow.insert_many([{"n": n, "text": filler} for n in range(40000)])

    def running(**conditions):
        return admin.command("currentOp", **conditions)["inprog"]

    cursor = logs.slow.find({}, batch_size=100)
    next(cursor)
    (operation,) = [op for op in running() if op["ns"] == "logmill.slow"]
    assert operation["active"] and operation["secs_running"] >= 0, operation
    assert running(ns="logmill.slow") != [] and running(ns="logmill.other") == []
    told = admin.command("killOp", op=operation["opid"])
    assert told["info"] == "the query is cancelled", told

    def read():
        for _ in cursor:
            pass

    fails(11601, read)
    # The error is told while the query's threads come to their ends.
    for _ in range(100):
        if all(op["opid"] != operation["opid"] for op in running()):
            break
        time.sleep(0.05)
    else:
        raise AssertionError("a killed query is still listed")
    told = admin.command("killOp", op=operation["opid"])
    assert told["info"].startswith("no query"), told
    fails(2, lambda: admin.command("killOp", op="x"))
    print("killed")


def rights(address, reader, shipper):
    plain = {"authMechanism": "PLAIN", "authSource": "$external", "username": "token"}
    with client(address, password=reader, **plain) as connected:
        logs, admin = connected.logs, connected.admin
        names = logs.list_collection_names()
        assert "events" in names and "hidden" not in names, names
        assert connected.list_database_names() == ["logmill"]
        assert logs.command("collStats", "events")["count"] > 0
        assert logs.command("collStats", "hidden")["count"] == 0
        assert "_id_" in logs.events.index_information()
        assert logs.hidden.index_information() == {}
        assert logs.command("dbStats")["collections"] == 1
        shard = {"key": {"path": 1}}
        assert "shardKeys" in admin.command("shardCollection", "logs.events", **shard)
        assert "shardKeys" not in admin.command("shardCollection", "logs.hidden", **shard)
        for act in [
            lambda: logs.create_collection("other"),
            lambda: logs.command("create", "events"),
            lambda: logs.events.create_index("a"),
            lambda: logs.events.drop_indexes(),
            lambda: logs.command("collMod", "events"),
            lambda: logs.drop_collection("events"),
            lambda: connected.drop_database("logs"),
            lambda: logs.events.rename("other"),
            # It reads one stream, and not the store.
            lambda: admin.command("serverStatus"),
            lambda: admin.command("hostInfo"),
            lambda: logs.command("validate", "events"),
        ]:
            fails(13, act)
        assert admin.command("currentOp")["inprog"] == []
        assert admin.command("killOp", op=1)["info"].startswith("no query")
        (own,) = admin.command("usersInfo", 1)["users"]
        assert own["user"] == "reader" and own["roles"][0]["role"] == "read", own
    with client(address, password=shipper, **plain) as connected:
        logs, admin = connected.logs, connected.admin
        logs.command("create", "events")
        for act in [
            lambda: logs.command("create", "hidden"),
            lambda: logs.command("collMod", "events", cappedSize=1),
            lambda: logs.list_collection_names(),
            lambda: connected.list_database_names(),
            lambda: logs.events.index_information(),
            lambda: logs.events.create_index("a"),
            lambda: logs.command("collStats", "events"),
            lambda: logs.command("dbStats"),
            lambda: admin.command("serverStatus"),
            lambda: admin.command("currentOp"),
            lambda: admin.command("killOp", op=1),
            lambda: logs.command("validate", "events"),
            lambda: admin.command("shardCollection", "logs.events", key={"path": 1}),
        ]:
            fails(13, act)
    with client(address) as connected:
        for command in ("listDatabases", "getParameter", "usersInfo", "validate", "listCommands"):
            fails(13, lambda: connected.admin.command(command))
    print("refused")


if __name__ == "__main__":
    _, where, act, *rest = sys.argv
    acts = (lists, creates, indexes, retention, kept, ring, sizes, sharding, validates, states)
    acts = (*acts, operations, rights)
    {f.__name__: f for f in acts}[act](where, *rest)
