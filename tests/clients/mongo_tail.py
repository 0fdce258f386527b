"""Follows a stream through a driver of MongoDB.

    python3 mongo_tail.py ADDRESS COUNT SEED

Tailable cursors read while two writers insert COUNT documents in batches of random sizes, and other
streams get events, too. Each cursor has each of its documents once, in the order of arrival.
"""

import random
import sys
import time
from itertools import islice

try:
    import pymongo
except ImportError:
    print("skipped: pymongo is not installed")
    sys.exit(0)

from pymongo import CursorType

from mongo import client, fails, in_threads

WITHIN_S = 120


def follow(cursor, count):
    """Returns the numbers of the documents that a cursor reads."""
    read, end = [], time.monotonic() + WITHIN_S
    while len(read) < count and time.monotonic() < end:
        read += [(one["writer"], one["n"]) for one in islice(cursor, count + 1)]
    return read


def compare(address, count, seed):
    logs = client(address).logs
    logs.followed.insert_many([{"writer": 2, "n": n} for n in range(150)])
    read = {}

    def act(number):
        draw = random.Random(seed + number)
        n = 0
        while number < 2 and n < count:
            batch = range(n, min(n + draw.randint(1, 40), count))
            logs.followed.insert_many([{"writer": number, "n": one} for one in batch])
            logs.others.insert_one({"n": n})
            n = batch.stop
        if number == 2:
            cursor = logs.followed.find(cursor_type=CursorType.TAILABLE_AWAIT, batch_size=17)
            read[number] = follow(cursor, 150 + 2 * count)
        if number == 3:
            odd = {"writer": 1, "n": {"$gte": 10}}
            cursor = logs.followed.find(odd, cursor_type=CursorType.TAILABLE)
            read[number] = follow(cursor, count - 10)

    in_threads(4, act)
    for writer, numbers in ((0, count), (1, count), (2, 150)):
        of_writer = [n for one, n in read[2] if one == writer]
        assert of_writer == list(range(numbers)), (writer, len(of_writer), numbers)
    assert [n for _, n in read[3]] == list(range(10, count)), len(read[3])


def waits(address):
    logs = client(address).logs
    cursor = logs.quiet.find(cursor_type=CursorType.TAILABLE_AWAIT)
    # As in MongoDB: a collection that does not exist cannot be followed.
    assert list(islice(cursor, 1)) == [] and not cursor.alive
    logs.quiet.insert_one({"n": 1})
    cursor = logs.quiet.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(300)
    assert next(cursor)["n"] == 1
    begun = time.monotonic()
    assert list(islice(cursor, 1)) == [] and cursor.alive
    assert time.monotonic() - begun >= 0.3
    # An event ends a long wait.
    cursor = logs.quiet.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(30000)
    assert next(cursor)["n"] == 1

    def act(number):
        if number == 0:
            assert next(cursor)["n"] == 2
        else:
            time.sleep(0.3)
            logs.quiet.insert_one({"n": 2})

    begun = time.monotonic()
    in_threads(2, act)
    assert time.monotonic() - begun < 20
    known = cursor.cursor_id
    cursor.close()
    fails(43, lambda: logs.command("getMore", known, collection="quiet"))
    tail = {"find": "quiet", "tailable": True}
    fails(2, lambda: logs.command({**tail, "sort": {"n": 1}}))
    fails(9, lambda: logs.command({"find": "quiet", "awaitData": True}))
    fails(2, lambda: logs.command({"find": "quiet_traffic.hourly", "tailable": True}))


def orders(address):
    """The order of arrival, and the other way round."""
    logs = client(address).logs
    for n in range(30):
        logs.arrived.insert_one({"n": n, "time_of_it": 30 - n})
    natural = [one["n"] for one in logs.arrived.find().sort("$natural", 1)]
    assert natural == list(range(30))
    assert [one["n"] for one in logs.arrived.find().sort("$natural", -1)] == natural[::-1]
    fails(2, lambda: list(logs.arrived.find().hint([("$natural", 2)])))
    last = logs.arrived.find({"n": {"$lt": 20}}).hint([("$natural", -1)]).skip(1).limit(3)
    assert [one["n"] for one in last] == [18, 17, 16]


def main():
    _, address, count, seed = sys.argv
    waits(address)
    orders(address)
    compare(address, int(count), int(seed))
    print(f"followed {count}")


main()
