"""Writes through a driver of MongoDB as the recipes of operational intelligence do.

    python3 mongo.py ADDRESS concerns
    python3 mongo.py ADDRESS bulk
    python3 mongo.py ADDRESS login USER PASSWORD TOKEN READER
    python3 mongo.py ADDRESS retries COUNT SEED
    python3 mongo.py ADDRESS numbers FIRST COUNT
    python3 mongo.py ADDRESS fill COUNT SEED
    python3 mongo.py ADDRESS finds COUNT DOCUMENTS SEED
    python3 mongo.py ADDRESS cursors
    python3 mongo.py ADDRESS access HOST DAY

Each prints what it was told, or fails with the first answer that is wrong. `retries` writes through
a proxy of its own that breaks connections before and behind inserts. `numbers` inserts one numbered
document after the other, and prints the number of each that was acknowledged. `fill` inserts random
documents, and `finds` compares the answers to random filters over the first DOCUMENTS of them with
those of an evaluation of its own, after the rules of MongoDB's manual.
"""

import datetime
import random
import re
import socket
import sys
import threading
import time
from operator import ge, gt, le, lt

try:
    import pymongo
except ImportError:
    print("skipped: pymongo is not installed")
    sys.exit(0)

from bson import Decimal128, Int64, ObjectId
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError, WriteConcernError
from pymongo.write_concern import WriteConcern

from fail_points import read_message

# The worked example of a line in the Combined Log Format.
EXAMPLE = {
    "host": "127.0.0.1",
    "logname": None,
    "user": "frank",
    "time": datetime.datetime(2000, 10, 10, 20, 55, 36),
    "method": "GET",
    "path": "/apache_pb.gif",
    "query": None,
    "protocol": "HTTP/1.0",
    "request": "GET /apache_pb.gif HTTP/1.0",
    "status": 200,
    "response_size": 2326,
    "referrer": "http://www.example.com/start.html",
    "user_agent": "Mozilla/4.08 [en] (Win98; I ;Nav)",
}


def client(address, **options):
    options.setdefault("serverSelectionTimeoutMS", 20000)
    return pymongo.MongoClient("mongodb://" + address, **options)


def fails(code, act):
    """Returns the error of an act that must fail with a code."""
    try:
        act()
    except (OperationFailure, BulkWriteError) as error:
        assert error.code == code, (code, error.code, error)
        return error
    raise AssertionError(f"it did not fail with {code}")


def concerns(address):
    events = client(address).logs.events

    def insert(**concern):
        collection = events.with_options(write_concern=WriteConcern(**concern))
        return collection.insert_one(dict(EXAMPLE)).acknowledged

    assert insert(w=0) is False
    for concern in [
        {},
        {"w": 1},
        {"j": True},
        {"w": 1, "j": True},
        {"w": "majority"},
        {"w": "majority", "j": True},
    ]:
        assert insert(**concern) is True, concern
        assert insert(**concern, wtimeout=10000) is True, concern
    for concern in [{"w": 2}, {"w": 2, "j": True}, {"w": 2, "wtimeout": 10000}]:
        fails(100, lambda: insert(**concern))
    fails(79, lambda: insert(w="fast"))
    print("stored 13")


def nested(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def bulk(address):
    logs = client(address).logs
    documents = [
        {"_id": 1, "n": 0},
        {"_id": 2, "n": 1},
        {"_id": 2, "n": 2},
        {"_id": 3, "n": 3, "deep": nested(120)},
        {"_id": 4, "n": 4},
        {"_id": 1, "n": 5},
    ]
    for ordered, stored, failed in [
        (True, 2, [(2, 11000)]),
        (False, 3, [(2, 11000), (3, 15), (5, 11000)]),
    ]:
        name = "ordered" if ordered else "unordered"
        try:
            logs[name].insert_many([dict(d) for d in documents], ordered=ordered)
        except BulkWriteError as error:
            details = error.details
            assert details["nInserted"] == stored, details
            found = [(e["index"], e["code"]) for e in details["writeErrors"]]
            assert found == failed, found
        else:
            raise AssertionError("it did not fail")
    types = {
        "_id": ObjectId("507f1f77bcf86cd799439011"),
        "int": 5,
        "long": Int64(1 << 40),
        "double": 0.5,
        "decimal": Decimal128("19.90"),
        "text": "caf\u00e9 \u0000 \U0001f600",
        "date": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000),
        "bytes": b"\x00\xff",
        "list": [1, {"a": None}],
        "inside": {"a": 1, "b": {"c": True}},
        "nothing": None,
    }
    assert logs.types.insert_one(types).inserted_id == types["_id"]
    many = logs.many.insert_many([{"n": n} for n in range(25000)])
    assert len(many.inserted_ids) == 25000
    for name in ["Bad Name", "", "system.views", "x" * 70]:
        try:
            logs.command("insert", name, documents=[{"a": 1}])
        except OperationFailure as error:
            assert error.code == 73, (name, error)
        else:
            assert name == "system.views"
    for code, wrong in ((52, {"$a": 1}), (53, [1]), (53, re.compile("a"))):
        try:
            logs.ids.insert_many([{"_id": wrong}, {"_id": {"a": {"$b": 1}}}], ordered=False)
        except BulkWriteError as error:
            assert [e["code"] for e in error.details["writeErrors"]] == [code], error.details
            assert error.details["nInserted"] == 1
        else:
            raise AssertionError("it did not fail")
    fails(20, lambda: in_transaction(address))
    fails(115, lambda: logs.events.update_one({}, {"$set": {"a": 1}}))
    fails(59, lambda: logs.events.delete_one({}))
    print("ordered 2, unordered 3, types 1, many 25000")


def in_transaction(address):
    with client(address) as connected, connected.start_session() as session:
        with session.start_transaction():
            connected.logs.events.insert_one({"a": 1}, session=session)


# A call of each command that reads.
RIGHTS_TO_READ = [
    lambda logs: logs.events.find_one(),
    lambda logs: logs.events.estimated_document_count(),
    lambda logs: logs.events.distinct("a"),
    lambda logs: logs.command("getMore", Int64(1), collection="events"),
    lambda logs: logs.command("killCursors", "events", cursors=[Int64(1)]),
]


def login(address, user, password, token, reader):
    def insert(**options):
        with client(address, serverSelectionTimeoutMS=5000, **options) as connected:
            connected.logs.events.insert_one({"a": 1})
            status = connected.admin.command("connectionStatus")
            return [u["user"] for u in status["authInfo"]["authenticatedUsers"]]

    fails(13, insert)
    assert insert(username=user, password=password) == [user]
    # Passwords that SASLprep makes equal (RFC 4013): no soft hyphen, and every space is one.
    spelled = password.replace("staple", "sta\u00adple").replace(" ", "\u00a0")
    assert insert(username=user, password=spelled) == [user]
    fails(18, lambda: insert(username=user, password=password + "x"))
    fails(18, lambda: insert(username="nobody", password=password))
    plain = {"authMechanism": "PLAIN", "authSource": "$external"}
    assert insert(username="token", password=token, **plain) == ["shipper"]
    fails(18, lambda: insert(username="token", password="lm_nonsense", **plain))
    # The token of one stream does not write into another.
    with client(address, username="token", password=token, **plain) as connected:
        fails(13, lambda: connected.logs.other.insert_one({"a": 1}))
        for read in RIGHTS_TO_READ:
            fails(13, lambda: read(connected.logs))
    with client(address, username="token", password=reader, **plain) as connected:
        fails(13, lambda: connected.logs.events.insert_one({"a": 1}))
        # Streams that it may not read do not exist for it.
        assert connected.logs.hidden.find_one() is None
        assert connected.logs.hidden.estimated_document_count() == 0
        assert connected.logs.events.estimated_document_count() == 3
    print("stored 3")


class Proxy:
    """Forwards messages, and breaks some connections before an insert or behind its effect."""

    def __init__(self, target, seed):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.broken = {"before": 0, "behind": 0}
        # Inserts that have come once.
        self.seen = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def choose(self, message):
        """Returns the fate of a message. A driver repeats an insert once: the second copy passes."""
        number = self.number(message)
        with self.lock:
            if number is None or number in self.seen:
                return None
            self.seen.add(number)
            if self.random.random() > 0.1:
                return None
            fate = self.random.choice(["before", "behind"])
            self.broken[fate] += 1
            return fate

    def serve(self, near):
        try:
            with near, socket.create_connection(self.target) as far:
                while (message := read_message(near)) is not None:
                    fate = self.choose(message)
                    if fate == "before":
                        return
                    far.sendall(message)
                    answer = read_message(far)
                    if fate == "behind" or answer is None:
                        return
                    near.sendall(answer)
        except OSError:
            pass

    @staticmethod
    def number(message):
        """Returns the session and the number of an insert."""
        at = message.find(b"\x12txnNumber\x00")
        lsid = message.find(b"\x05id\x00")
        if at < 0 or lsid < 0:
            return None
        return message[lsid + 9 : lsid + 25] + message[at + 11 : at + 19]


def in_threads(count, act):
    """Runs an act in so many threads, each with its number, to their ends."""
    threads = [threading.Thread(target=act, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def retries(address, count, seed):
    proxy = Proxy(address, int(seed))
    count, threads = int(count), 8
    failed = []

    def write(first):
        # With connections of its own: a driver gives up all of them when one breaks, and repeats a
        # command once only.
        try:
            with client(proxy.address) as connected:
                for n in range(first, count, threads):
                    connected.logs.retried.insert_one({"n": n})
        except PyMongoError as error:
            failed.append(error)

    in_threads(threads, write)
    assert not failed, failed
    print(f"inserted {count}, broken before {proxy.broken['before']}, behind {proxy.broken['behind']}")


def numbers(address, first, count):
    connected = client(address, serverSelectionTimeoutMS=60000)
    collection = connected.logs.numbers.with_options(write_concern=WriteConcern(w=1, j=True))
    for n in range(int(first), int(first) + int(count)):
        try:
            collection.insert_one({"_id": n, "n": n})
            print("inserted", n, flush=True)
        except PyMongoError:
            # The driver has repeated it once: whether it is stored is unknown.
            print("unknown", n, flush=True)


MISSING = object()
EPOCH = datetime.datetime(2026, 1, 1)
FIELDS = ["a", "n", "s", "f", "when", "time", "d.x", "d.y", "l.k", "_id", "l.0"]


# Values that are no date, and of which the numbers are no time to come.
ODD_TIMES = [None, "x", True, [EPOCH, 1], 5, {"x": 1}]


def scalar(draw):
    """Returns a value of any type."""
    return draw.choice(
        [
            None,
            draw.randint(-3, 3),
            draw.choice([0.0, -0.0, 0.5, 1.0, 2.0, -1.5]),
            draw.choice(["", "a", "b", "ab", "1"]),
            draw.choice([True, False]),
            EPOCH + datetime.timedelta(milliseconds=draw.randint(0, 4)),
            Int64(draw.choice([2**53 + 1, 2**40, 1])),
        ]
    )


def value(draw, depth=0):
    chance = draw.random()
    if chance < 0.1 and depth < 2:
        return [value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    if chance < 0.15 and depth < 2:
        return {k: value(draw, depth + 1) for k in draw.sample(["x", "y", "k"], draw.randint(0, 2))}
    return scalar(draw)


def usual(draw, name):
    """Returns a value of the type that a field mostly has."""
    if name in ("n", "d.x", "l.k"):
        return draw.randint(-3, 3)
    if name in ("s", "d.y"):
        return draw.choice(["", "a", "b", "ab"])
    if name == "f":
        return draw.choice([0.0, -0.0, 0.5, 2.0])
    if name in ("when", "time"):
        return EPOCH + datetime.timedelta(milliseconds=draw.randint(0, 4))
    if name == "d":
        return {"x": draw.randint(0, 2), "y": draw.choice("ab")}
    if name == "l":
        return [{"k": draw.randint(0, 2)} for _ in range(draw.randint(0, 2))]
    return value(draw)


def document(draw, number):
    """Returns a document whose fields mostly have one type each. Half of them have nothing else, the
    first ones too, which decide the types of columns: all of such a document is in columns."""
    is_plain = number < 20 or draw.random() < 0.5
    ids = ["id-%d" % number, ObjectId(b"%012d" % number)]
    made = {"_id": draw.choice(ids if is_plain else [*ids, number])}
    for name in ["n", "s", "f", "when", "time", "d", *([] if is_plain else ["l", "a"])]:
        if draw.random() < 0.8:
            odd = ODD_TIMES if name == "time" else [value(draw)]
            is_odd = not is_plain and draw.random() < 0.1
            made[name] = draw.choice(odd) if is_odd else usual(draw, name)
    return made


def documents(count, seed):
    draw = random.Random(seed)
    return [document(draw, number) for number in range(count)]


def fill(address, count, seed):
    made = documents(int(count), int(seed))
    collection = client(address).logs.found
    done = collection.estimated_document_count()
    collection.insert_many(made[done:])
    print("stored", collection.estimated_document_count())


def values_of(value, path):
    """Yields the values of a path, each with whether it is an element of the array at its end."""
    if not path:
        yield value, False
        if isinstance(value, list):
            yield from ((item, True) for item in value)
    elif isinstance(value, dict):
        if path[0] in value:
            yield from values_of(value[path[0]], path[1:])
        else:
            yield MISSING, False
    elif isinstance(value, list):
        yield from within(value, path)
    else:
        yield MISSING, False


def within(items, path):
    """Goes on in each document of an array, and in the element that the path numbers. That element
    counts as a whole alone."""
    for number, item in enumerate(items):
        if isinstance(item, dict):
            yield from values_of(item, path)
        if path[0] == str(number):
            if len(path) == 1:
                yield item, False
            elif isinstance(item, dict):
                yield from values_of(item, path[1:])
            elif isinstance(item, list):
                yield from within(item, path[1:])


def kind(value):
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return type(value).__name__


def same(a, b, in_any_order=True):
    if kind(a) != kind(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y, False) for x, y in zip(a, b))
    if isinstance(a, dict):
        # Events keep no order of fields, but within arrays.
        names = a.keys() == b.keys() if in_any_order else list(a) == list(b)
        return names and all(same(a[k], b[k], in_any_order) for k in a)
    return a == b


COMPARISONS = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


def holds(operator, found, wanted, is_element):
    if operator == "$in":
        return any(holds("$eq", found, one, is_element) for one in wanted)
    if found is MISSING:
        return wanted is None and operator in ("$eq", "$gte", "$lte")
    if operator == "$exists":
        return True
    if operator == "$eq":
        return same(found, wanted, not is_element)
    if kind(found) != kind(wanted):
        return False
    if found is None:
        return operator in ("$gte", "$lte")
    return COMPARISONS[operator](found, wanted)


NEGATED = {"$ne": "$eq", "$nin": "$in"}
TYPES = {"str": "string", "list": "array", "dict": "object", "NoneType": "null", "datetime": "date"}


def meets(operator, operand, values):
    """Returns whether the values of a path meet an operator."""
    if operator == "$not":
        return not all(meets(inner, one, values) for inner, one in operand.items())
    if operator in NEGATED:
        return not meets(NEGATED[operator], operand, values)
    if operator == "$exists":
        return any(v is not MISSING for v, _ in values) == operand
    if operator == "$all":
        return bool(operand) and all(meets("$eq", one, values) for one in operand)
    lists = [v for v, is_element in values if isinstance(v, list) and not is_element]
    if operator == "$size":
        return any(len(v) == operand for v in lists)
    if operator == "$elemMatch":
        return any(
            all(holds(inner, item, one, True) for inner, one in operand.items())
            for v in lists
            for item in v
        )
    if operator == "$type":
        return any(v is not MISSING and TYPES.get(kind(v), kind(v)) == operand for v, _ in values)
    if operator == "$regex":
        return any(isinstance(v, str) and re.search(operand, v) for v, _ in values)
    return any(holds(operator, v, operand, is_element) for v, is_element in values)


def passes(wanted, made):
    for name, condition in wanted.items():
        if name == "$and":
            met = all(passes(one, made) for one in condition)
        elif name == "$or":
            met = any(passes(one, made) for one in condition)
        elif name == "$nor":
            met = not any(passes(one, made) for one in condition)
        else:
            values = list(values_of(made, name.split(".")))
            met = all(meets(operator, operand, values) for operator, operand in condition.items())
        if not met:
            return False
    return True


def filters(draw, depth=0):
    if depth < 2 and draw.random() < 0.2:
        name = draw.choice(["$and", "$or", "$nor"])
        return {name: [filters(draw, depth + 1) for _ in range(draw.randint(1, 3))]}
    return {name: operators(draw, name) for name in draw.sample(FIELDS, draw.randint(1, 2))}


ORDERS = ["$eq", *COMPARISONS]
OTHERS = ["$exists", "$all", "$size", "$elemMatch", "$type", "$regex", "$not"]


def operators(draw, name, depth=0):
    chosen = draw.sample([*ORDERS, *ORDERS, "$ne", "$in", "$in", "$nin", *OTHERS], draw.randint(1, 2))
    return {operator: operand(draw, name, operator, depth) for operator in chosen}


def operand(draw, name, operator, depth):
    if operator == "$exists":
        return draw.choice([True, False])
    if operator in ("$in", "$nin", "$all"):
        return [operand_of(draw, name) for _ in range(draw.randint(0, 3))]
    if operator == "$size":
        return draw.randint(0, 3)
    if operator == "$type":
        return draw.choice(["number", "bool", *TYPES.values()])
    if operator == "$regex":
        return draw.choice(["^a", "b$", "", "1"])
    if operator == "$elemMatch":
        return {one: operand_of(draw, name) for one in draw.sample(ORDERS, draw.randint(1, 2))}
    if operator == "$not":
        return operators(draw, name, depth + 1) if depth < 2 else {"$eq": operand_of(draw, name)}
    return operand_of(draw, name, operator in ("$eq", "$ne"))


def operand_of(draw, name, any_type=False):
    if name == "_id":
        number = draw.randint(0, 50)
        return draw.choice([number, "id-%d" % number, ObjectId(b"%012d" % number)])
    if any_type and draw.random() < 0.1:
        return value(draw)
    return usual(draw, name) if name not in ("a", "l.0") and draw.random() < 0.6 else scalar(draw)


def finds(address, count, made, seed):
    collection = client(address).logs.found
    made = documents(int(made), int(seed))
    draw = random.Random(int(seed) + 1)
    keyed = lambda all_of: sorted(repr(one["_id"]) for one in all_of)
    stored = {repr(one["_id"]): one for one in collection.find()}
    assert len(stored) == len(made)
    for one in made:
        found = stored[repr(one["_id"])]
        assert same(found, one), (found, one)
    matched = ordered = 0
    for _ in range(int(count)):
        wanted = filters(draw)
        expected = [one for one in made if passes(wanted, one)]
        found = list(collection.find(wanted, {"_id": 1}))
        assert keyed(found) == keyed(expected), (wanted, missing(found, expected))
        assert collection.database.command("count", "found", query=wanted)["n"] == len(expected)
        matched += len(expected)
        ordered += check_order(collection, draw, wanted, expected)
    print(f"{count} filters, {matched} documents, {ordered} in order")


def place(value):
    """Returns the place of a value in the order of all values; `None` for one with documents, whose
    fields are in no order."""
    if isinstance(value, dict):
        return None
    if isinstance(value, list):
        places = [place(item) for item in value]
        return None if None in places else (6, places)
    rank = {"NoneType": 2, "number": 3, "str": 4, "ObjectId": 8, "bool": 9, "datetime": 10}
    return (rank[kind(value)], 0 if value is None else value)


def place_of(made, name, direction):
    value = made.get(name)
    if not isinstance(value, list):
        return place(value)
    if not value:
        return (1, 0)
    places = [place(item) for item in value]
    return None if None in places else (min if direction == 1 else max)(places)


def check_order(collection, draw, wanted, expected):
    """Compares a sorted answer by its keys. Returns the number of its documents."""
    names = draw.sample(["n", "s", "f", "when"], draw.randint(1, 2))
    order = [(name, draw.choice([1, -1])) for name in names]
    skip, limit = draw.choice([(0, 0), (0, 5), (2, 7)])
    key = lambda one: [place_of(one, name, direction) for name, direction in order]
    if any(None in key(one) for one in expected):
        return 0
    keys = [key(one) for one in expected]
    for at, (_, direction) in reversed(list(enumerate(order))):
        keys.sort(key=lambda one: one[at], reverse=direction == -1)
    keys = keys[skip:][: limit or len(keys)]
    found = collection.find(wanted).sort(order).skip(skip).limit(limit)
    found = [key(one) for one in found]
    assert found == keys, (wanted, order, skip, limit)
    return len(keys)


def missing(found, expected):
    found = {repr(one["_id"]) for one in found}
    wanted = {repr(one["_id"]) for one in expected}
    return [one for one in expected if repr(one["_id"]) not in found][:2], sorted(found - wanted)[:3]


def cursors(address):
    logs = client(address).logs
    logs.many.insert_many([{"_id": n, "n": n % 7, "text": "x" * 1000} for n in range(5000)])
    order = [one["_id"] for one in logs.many.find().batch_size(37)]
    assert order == list(range(5000)) or sorted(order) == list(range(5000)), order[:10]
    assert [one["_id"] for one in logs.many.find({"n": 3}).sort("_id", -1).limit(3)] == [4994, 4987, 4980]
    assert [one["_id"] for one in logs.many.find().sort([("n", 1), ("_id", 1)]).skip(1).limit(2)] == [7, 14]
    assert logs.many.estimated_document_count() == 5000
    assert sorted(logs.many.distinct("n", {"_id": {"$lt": 4}})) == [0, 1, 2, 3]
    assert list(logs.nothing.find({"a": 1})) == []
    assert logs.many.find_one({"_id": 17}, {"n": 1}) == {"_id": 17, "n": 3}
    cursor = logs.many.find(batch_size=2)
    next(cursor)
    assert cursor.cursor_id
    cursor.close()
    fails(43, lambda: logs.command("getMore", Int64(12345), collection="many"))
    fails(2, lambda: list(logs.many.find({"a": {"$foo": 1}})))
    fails(115, lambda: list(logs.many.find({}, collation={"locale": "de"})))
    # Lists and filters far longer than a plan may be.
    very_many = list(range(100000))
    assert len(list(logs.many.find({"_id": {"$in": very_many}}, {"_id": 1}))) == 5000
    times = [EPOCH + datetime.timedelta(milliseconds=n) for n in range(3000)]
    assert list(logs.many.find({"time": {"$in": times}})) == []
    assert len(list(logs.many.find({"$and": [{"n": {"$gte": 0}}] * 500}, {"_id": 1}))) == 5000
    fails(2, lambda: list(logs.many.find({"a" + ".0" * 40: 1})))
    fails(50, lambda: list(logs.many.find({"$and": [{"text": {"$ne": "y"}}] * 4900}, max_time_ms=20)))
    many = [logs.many.find({"n": 0}, batch_size=1) for _ in range(501)]
    fails(462, lambda: [next(cursor) for cursor in many])
    for cursor in many:
        cursor.close()
    print("read 5000")


def access(address, host, day):
    """Prints the events of one host on one day, of an access log."""
    begin = datetime.datetime.fromisoformat(day)
    wanted = {"host": host, "time": {"$gte": begin, "$lt": begin + datetime.timedelta(days=1)}}
    events = client(address).logs.access
    found = list(events.find(wanted).sort("time", 1))
    assert events.estimated_document_count() > len(found)
    for event in found:
        assert list(event) == [
            *["_id", "host", "logname", "user", "time", "method", "path", "query", "protocol"],
            *["request", "status", "response_size", "referrer", "user_agent"],
        ], event
        assert isinstance(event["_id"], ObjectId)
        assert type(event["status"]) is int and type(event["response_size"]) is Int64, event
        assert event["user"] is None and event["host"] == host
        assert events.find_one({"_id": event["_id"]}) == event
    assert events.find_one({"status": 200.0, "host": host}) is not None
    assert events.find_one({"status": {"$gt": 200}, "host": host}) is None
    print([event["path"] for event in found])


if __name__ == "__main__":
    _, where, act, *rest = sys.argv
    acts = (concerns, bulk, login, retries, numbers, fill, finds, cursors, access)
    {f.__name__: f for f in acts}[act](where, *rest)
