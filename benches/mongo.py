"""Inserts and reads through MongoDB's wire, beside the same over HTTP.

    python3 benches/mongo.py PROGRAM [DOCUMENTS | ACCESS.LOG]

PROGRAM is `target/release/logmill`; the Python has pymongo. Prints, for inserts of 1,000 documents
at `w=1` and with `j`, the processor time of the server for each document and its ratio to that of
NDJSON over HTTP; the time of a find by host and day, in a stream in the order of hosts and in one
in the order of time; and that of hits by day and page beside SQL. All times are those of a client,
medians of alternating runs. With a log it imports that instead, and reads it: the pages of one date
and of all, and the hosts of that date with many and with few events; with the client's own time.
"""

import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import pymongo
from pymongo.write_concern import WriteConcern

UTC = datetime.timezone.utc
BATCH = 1000
RUNS = 15


class Server:
    """A server with a store of its own."""

    def __init__(self, program, data):
        config = os.path.join(os.path.dirname(data), "logmill.toml")
        with open(config, "w") as file:
            file.write('[stream.ordered]\norder_by = ["host", "time"]\n')
        self.process = subprocess.Popen(
            [program, "--config", config, "serve", data, "--http", "127.0.0.1:0", "--mongo", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, LOGMILL_SERVER__POSTGRES="off"),
            text=True,
        )
        self.http = self.mongo = None
        while not (self.http and self.mongo):
            line = self.process.stdout.readline()
            assert line, "the server ended"
            if "mongodb://" in line:
                self.mongo = line.split("mongodb://")[1].split("/")[0]
            elif "http://" in line:
                self.http = "http://" + line.split("http://")[1].split("/")[0].strip()

    def post(self, path, body):
        request = urllib.request.Request(self.http + path, data=body, method="POST")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.terminate()
        self.process.wait()


def events(draw, count, first):
    """Events of some days, as an access log has them."""
    for n in range(first, first + count):
        time_of = datetime.datetime(2024, 5, 1, tzinfo=UTC) + datetime.timedelta(seconds=3 * n)
        yield {
            "host": "192.0.%d.%d" % divmod(draw.randrange(2500), 250),
            "time": time_of,
            "method": "GET",
            "path": "/page/%d" % min(int(draw.expovariate(0.05)), 400),
            "status": draw.choice([200, 200, 200, 304, 404]),
            "response_size": draw.randrange(100000),
            "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0",
        }


def fill(collection, documents):
    draw = random.Random(7)
    for first in range(0, documents, BATCH):
        collection.insert_many(list(events(draw, BATCH, first)))


def inserts(server, documents):
    client = pymongo.MongoClient("mongodb://" + server.mongo)
    rates = {}
    for concern, query in [({"w": 1}, "w=1"), ({"w": 1, "j": True}, "w=1&j=true")]:
        collection = client.bench.get_collection("mongo", write_concern=WriteConcern(**concern))
        cpu = {"mongo": 0.0, "http": 0.0}
        draw = random.Random(7)
        for first in range(0, documents, 10 * BATCH):
            made = list(events(draw, 10 * BATCH, first))
            lines = [json.dumps(dict(one, time=one["time"].isoformat())) for one in made]
            begun = server.cpu_seconds()
            for at in range(0, len(made), BATCH):
                collection.insert_many(made[at : at + BATCH])
            middle = server.cpu_seconds()
            for at in range(0, len(made), BATCH):
                body = "\n".join(lines[at : at + BATCH]).encode()
                server.post(f"/api/v1/ingest/http?format=json&{query}", body)
            cpu["mongo"] += middle - begun
            cpu["http"] += server.cpu_seconds() - middle
        rates[query] = {name: 1e6 * seconds / documents for name, seconds in cpu.items()}
    for query, rate in rates.items():
        ratio = rate["mongo"] / rate["http"]
        print(
            f"insert_many of {BATCH:,}, {query}: {rate['mongo']:.1f} us of CPU a document, "
            f"{ratio:.2f} times HTTP's {rate['http']:.1f}"
        )


def timed(act):
    begun = time.perf_counter()
    result = act()
    return 1000 * (time.perf_counter() - begun), result


def reads(server, documents):
    client = pymongo.MongoClient("mongodb://" + server.mongo, tz_aware=True)
    collection, ordered = client.bench.mongo, client.bench.ordered
    fill(ordered, 2 * documents)
    day = datetime.datetime(2024, 5, 2, tzinfo=UTC)
    wanted = {"host": "192.0.2.7", "time": {"$gte": day, "$lt": day + datetime.timedelta(days=1)}}
    collection.create_index("host")
    server.post("/api/v1/rollups/run", b"")
    time.sleep(2)
    finds = [("hosts", ordered, wanted), ("time", collection, wanted)]
    took = [[timed(lambda: list(of.find(query))) for _, of, query in finds] for _ in range(RUNS)]
    for (order, _, _), runs in zip(finds, zip(*took)):
        median = statistics.median(ms for ms, _ in runs)
        print(f"find by host and day in the order of {order}, {len(runs[0][1])} documents: {median:.1f} ms")

    unit = {"y": {"$year": "$time"}, "m": {"$month": "$time"}, "d": {"$dayOfMonth": "$time"}}
    group = {"_id": {"p": "$path", "y": "$date.y", "m": "$date.m", "d": "$date.d"}, "hits": {"$sum": 1}}
    pipeline = [{"$project": {"path": 1, "date": unit}}, {"$group": group}]
    sql = json.dumps(
        {"sql": "SELECT path, date_trunc('day', time) AS day, count(*) AS hits FROM mongo GROUP BY 1, 2"}
    ).encode()
    both = []
    for _ in range(RUNS):
        ours, found = timed(lambda: list(collection.aggregate(pipeline, batchSize=100000)))
        theirs, rows = timed(lambda: server.post("/api/v1/sql", sql)["rows"])
        assert sum(one["hits"] for one in found) == sum(row["hits"] for row in rows)
        assert len(found) == len(rows)
        both.append((ours, theirs))
    ours, theirs = (statistics.median(column) for column in zip(*both))
    natural, _ = timed(lambda: list(collection.aggregate(pipeline, hint={"$natural": 1})))
    print(
        f"hits by day and page, {len(found)} groups: {ours:.1f} ms, {ours / theirs:.2f} times "
        f"SQL's {theirs:.1f}; by the documents themselves {natural:.0f} ms"
    )


def compared(name, server, ours, theirs):
    """Prints the times of a read by the driver and of the same in SQL over HTTP."""
    both = []
    for _ in range(5):
        begun = time.process_time()
        took, found = timed(lambda: list(ours()))
        own = 1000 * (time.process_time() - begun)
        body = json.dumps({"sql": theirs}).encode()
        sql, rows = timed(lambda: server.post("/api/v1/sql", body)["rows"])
        assert len(found) == len(rows), (len(found), len(rows))
        both.append((took, own, sql))
    took, own, sql = (statistics.median(column) for column in zip(*both))
    print(f"{name}, {len(found):,}: {took:.1f} ms, of which the client takes {own:.1f}; SQL {sql:.1f}")


def reads_of_log(server):
    client = pymongo.MongoClient("mongodb://" + server.mongo, tz_aware=True)
    collection = client.bench.access

    def asked(sql):
        return server.post("/api/v1/sql", json.dumps({"sql": sql}).encode())["rows"]

    first = asked("SELECT CAST(date_trunc('day', min(time)) AS DATE) AS day FROM access")[0]["day"]
    date = datetime.datetime.fromisoformat(first).replace(tzinfo=UTC) + datetime.timedelta(days=3)
    until = date + datetime.timedelta(days=1)
    within = f"time >= '{date:%Y-%m-%d}' AND time < '{until:%Y-%m-%d}'"
    match = {"time": {"$gte": date, "$lt": until}}
    unit = {"y": {"$year": "$time"}, "m": {"$month": "$time"}, "d": {"$dayOfMonth": "$time"}}
    group = {"_id": {"p": "$path", "y": "$date.y", "m": "$date.m", "d": "$date.d"}, "hits": {"$sum": 1}}
    pages = [{"$project": {"path": 1, "date": unit}}, {"$group": group}]
    count = "SELECT path, date_trunc('day', time) AS day, count(*) AS hits FROM access"
    compared(
        "pages of a date",
        server,
        lambda: collection.aggregate([{"$match": match}] + pages, batchSize=10**6),
        f"{count} WHERE {within} GROUP BY 1, 2",
    )
    compared(
        "pages and dates",
        server,
        lambda: collection.aggregate(pages, batchSize=10**6),
        f"{count} GROUP BY 1, 2",
    )
    hosts = f"SELECT host, count(*) AS n FROM access WHERE {within} GROUP BY 1"
    many = asked(f"{hosts} ORDER BY 2 DESC, 1 LIMIT 1")[0]["host"]
    few = asked(f"{hosts} HAVING count(*) = 10 ORDER BY 1 LIMIT 1")[0]["host"]
    for host in [many, few]:
        compared(
            f"events of {host} on a date",
            server,
            lambda: collection.find({"host": host} | match),
            f"SELECT * FROM access WHERE host = '{host}' AND {within}",
        )


def main():
    if len(sys.argv) > 2 and not sys.argv[2].isdigit():
        with tempfile.TemporaryDirectory() as data:
            store = os.path.join(data, "store")
            log = ["--stream", "access", "--data", store, sys.argv[2]]
            quiet = subprocess.DEVNULL
            subprocess.run([sys.argv[1], "import"] + log, check=True, stdout=quiet, stderr=quiet)
            server = Server(sys.argv[1], store)
            try:
                reads_of_log(server)
            finally:
                server.end()
        return
    documents = int(sys.argv[2]) if len(sys.argv) > 2 else 200000
    with tempfile.TemporaryDirectory() as data:
        server = Server(sys.argv[1], os.path.join(data, "store"))
        try:
            inserts(server, documents)
            reads(server, documents)
        finally:
            server.end()


if __name__ == "__main__":
    main()
