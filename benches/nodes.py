"""A node with three shards, beside one server with all of it; both with Kafka and an object store.

    python3 benches/nodes.py PROGRAM TANSU [--seconds 10] [--key "site, path"] [--batches 600]
    python3 benches/nodes.py PROGRAM mock --wait 1 ...

PROGRAM is `target/release/logmill`, TANSU the broker; the Python has moto[server] and
confluent-kafka. `mock` is the broker of librdkafka instead, in memory and in this process: Tansu
takes a core for itself. Prints, twice for each in turns, the time of an acknowledgement by one
sender, the events per second of four, each of batches of 1,000 lines of an access log over HTTP,
the processors that each process took meanwhile, and the times of questions over what one sender
has sent, whole answers at the client. In parentheses: milliseconds of processors, for each process,
that one acknowledgement or answer took; `python` is the sender, and the broker if it is `mock`.
Broker, object store, senders and servers are on the same cores. A fetch waits for --wait
milliseconds at a broker that has nothing; these two brokers wake none that waits when a message
comes.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import confluent_kafka  # noqa: E402
import kafka_journal as bench  # noqa: E402
from kafka_journal import journal  # noqa: E402

SHARDS = 3
RUNS = 50
QUESTIONS = (
    ("small: one host, ten rows", "SELECT time, path, status FROM access WHERE host = '192.0.2.7' "
     "ORDER BY time DESC, path LIMIT 10"),
    ("small: count", "SELECT count(*) AS n FROM access"),
    ("small: hits by day, of a level", "SELECT bucket, sum(hits) AS n FROM stats.daily GROUP BY bucket ORDER BY bucket"),
    ("scan: by path", "SELECT path, count(*) AS n, sum(response_size) AS s FROM access WHERE status >= 200 "
     "GROUP BY path ORDER BY path LIMIT 20"),
    ("scan: bytes by host", "SELECT host, avg(response_size + length(path)) AS a FROM access GROUP BY host "
     "ORDER BY host LIMIT 20"),
    ("scan: distinct", "SELECT count(DISTINCT host || path) AS n FROM access"),
)


def free_ports(count):
    """Returns the first of some ports in a row at which nobody listens, and which no client gets."""
    while True:
        first = random.randrange(10000, 32000)
        if not any(journal.is_open(first + n) for n in range(count)):
            return first


class MockPlace(journal.Place):
    """The object store, beside the broker of librdkafka instead of Tansu."""

    def __init__(self, tansu, storage):
        self.mock = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
        broker, = self.mock.list_topics(timeout=10).brokers.values()
        super().__init__(tansu, storage, f"{broker.host}:{broker.port}")

    def create(self, topic):
        # It has four partitions, and comes when it is asked for.
        self.mock.list_topics(topic, timeout=10)


def processors():
    """Returns the seconds of processors that each process has taken, by its number."""
    taken, ticks = {}, os.sysconf("SC_CLK_TCK")
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/stat") as file:
                stat = file.read()
            with open(f"/proc/{process}/cmdline") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        user, system = stat.rpartition(")")[2].split()[11:13]
        shard = f" shard {words[words.index('--shard') + 1]}" if "--shard" in words else ""
        taken[process] = (int(user) + int(system)) / ticks, os.path.basename(words[0]) + shard
    return taken


def of_each(before, count):
    """Returns the milliseconds of processors that each process took for one of so many requests."""
    took = {name: (now - before.get(process, (0, ""))[0]) * 1000 / count
            for process, (now, name) in processors().items()}
    return ", ".join(f"{name} {ms:.1f}" for name, ms in took.items() if ms > 0.2)


def show_processors(before, seconds):
    for process, (taken, name) in processors().items():
        share = (taken - before.get(process, (0, ""))[0]) / seconds
        if share > 0.02:
            print(f"    {share:.2f} of a processor: {name}")


class BenchServer:
    """A node that has all shards, or a server with one store."""

    def __init__(self, program, place, data, topic, shards, key, wait=4):
        self.port = journal.free_port()
        node = f'group = "{topic}"\nshards = {shards}\nshard_ports = {free_ports(shards)}\n' if shards > 1 else ""
        config = data + ".toml"
        with open(config, "w") as file:
            file.write(
                f'[cluster]\n{node}kafka = "{place.brokers}"\nkafka_topic = "{topic}"\n'
                f'[cluster.kafka_options]\n"fetch.wait.max.ms" = {wait}\n'
                f'[storage]\nobjects = "s3://logs/{topic}"\nlag = "60s"\n'
                f'[stream.access]\nshard_key = "{key}"\n')
        self.path = "/api/v1/cluster/status" if shards > 1 else "/ready"
        self.log = open(data + ".log", "ab")
        self.process = subprocess.Popen(
            [program, "--config", config, "serve", data, "--http", f"127.0.0.1:{self.port}", "--postgres", "off"],
            env=place.environment, stdout=subprocess.DEVNULL, stderr=self.log)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.path}", timeout=5) as answer:
                told = answer.read()
        except (OSError, socket.timeout):
            return False
        return self.path == "/ready" or json.loads(told)["missing"] == []


def ask(port, question):
    url = f"http://127.0.0.1:{port}/api/v1/sql"
    began = time.monotonic()
    with urllib.request.urlopen(url, data=question.encode(), timeout=60) as answer:
        told = json.load(answer)["rows"]
    return time.monotonic() - began, told


def times(port):
    """Returns the median of each question's times, its rows, and the processors that it took."""
    found = []
    for _, question in QUESTIONS:
        before = processors()
        asked = [ask(port, question) for _ in range(RUNS)]
        found.append((bench.median([took for took, _ in asked]), asked[-1][1], of_each(before, RUNS)))
    return found


def create(place, topic, partitions):
    if isinstance(place, MockPlace):
        return place.create(topic)
    new = journal.NewTopic(topic, partitions, 1)
    admin = journal.AdminClient({"bootstrap.servers": place.brokers})
    for created in admin.create_topics([new]).values():
        created.result(30)


def is_equal(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    return one == other


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("tansu")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--key", default="site, path")
    parser.add_argument("--batches", type=int, default=600)
    parser.add_argument("--wait", type=int, default=4)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        of = MockPlace if asked.tansu == "mock" else journal.Place
        place, servers = of(asked.tansu, "memory://tansu/"), []
        try:
            create(place, "bench", 1)
            print(f"produce and fetch: {bench.round_trip(place.brokers, asked.wait):.2f} ms")
            for turn in range(2):
                answers = {}
                for name, shards in (("one server", 1), ("three shards", SHARDS)):
                    topic = f"bench-{turn}-{shards}"
                    create(place, topic, shards)
                    server = BenchServer(asked.program, place, f"{folder}/{topic}", topic, shards, asked.key,
                                         asked.wait)
                    servers.append(server)
                    journal.wait_for(server.is_ready)
                    connection = bench.http.client.HTTPConnection("127.0.0.1", server.port)
                    for number in range(asked.batches):
                        bench.post(connection, number)
                    answers[name] = times(server.port)
                    before = processors()
                    p50 = bench.acknowledgements(server.port)
                    of_one = of_each(before, bench.ACKNOWLEDGEMENTS)
                    before = processors()
                    rate = bench.throughput(server.port, asked.seconds)
                    print(f"{name}: acknowledged after {p50:.2f} ms ({of_one}); {rate:,.0f} events/s")
                    show_processors(before, asked.seconds)
                    server.process.terminate()
                    server.process.wait()
                for (label, _), (one, rows, of_one), (three, others, of_three) in zip(QUESTIONS, *answers.values()):
                    assert is_equal(rows, others), f"{label}: {rows} and {others}"
                    print(f"  {label}: {one:.1f} ms and {three:.1f} ms, {three / one:.2f} ({of_one}; {of_three})")
        finally:
            for server in servers:
                server.process.kill()
            place.end()


if __name__ == "__main__":
    main()
