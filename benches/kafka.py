"""Measures how fast a server stores a topic of Kafka, beside kcat, which only prints it.

    python benches/kafka.py HOST:PORT target/release/logmill --records 2000000 --runs 3

needs a broker with nothing else to do, kcat and the package confluent-kafka. A topic of four partitions is filled
with records of JSON; then kcat and a new server read all of it in turn, from its beginning. A server has read it
once its stream has every record. Each run has the seconds of the clock from the start of the program, those of
its CPU, and records by second of the clock: from the start, and for a server also from the first records that it
stored, since a broker lets a member of a group wait for others.

kcat has the librdkafka of the system; `LD_LIBRARY_PATH` names the folder of another one.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import urllib.request

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
# The broker of a test answers a fetch that has no records only after this time.
FETCH_WAIT_MS = 10


def value_of(number):
    return (b'{"number":%d,"host":"10.0.%d.%d","path":"/shop/item/%d","status":200,"size":%d}'
            % (number, number % 7, number % 251, number % 1000, number % 4096))


def fill(brokers, topic, records):
    """Returns the bytes of all values."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        created.result()
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 20,
                         "queue.buffering.max.messages": 500000})
    failed, sent = [], 0

    def report(error, _message):
        if error:
            failed.append(error)

    for number in range(records):
        value = value_of(number)
        sent += len(value)
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=report)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0 and not failed, failed[:3]
    return sent


def kcat(brokers, topic, records):
    """Returns the seconds of the clock and of CPU, and records by second."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    options = ["-X", f"fetch.wait.max.ms={FETCH_WAIT_MS}"]
    with tempfile.TemporaryFile() as out:
        subprocess.run(["kcat", "-C", "-b", brokers, "-t", topic, "-o", "beginning", "-e", "-q", *options],
                       stdout=out, check=True)
        ended, after = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        printed = sum(1 for _ in out)
    assert printed == records, f"kcat printed {printed} of {records} records"
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended - began, cpu, records / (ended - began)


def sql(url, query):
    body = json.dumps({"sql": query}).encode()
    request = urllib.request.Request(url + "/api/v1/sql", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=300))["rows"]


def logmill(program, brokers, topic, records):
    """Returns the seconds of the clock and of CPU, and records by second from the first ones on."""
    with tempfile.TemporaryDirectory(prefix="logmill-kafka-") as folder:
        config = folder + "/logmill.toml"
        with open(config, "w") as file:
            file.write(f'[kafka.bench]\nbrokers = ["{brokers}"]\ntopics = ["{topic}"]\nstream = "logs"\n'
                       f'format = "json"\ngroup = "{topic}_{os.urandom(4).hex()}"\n'
                       f'[kafka.bench.options]\n"fetch.wait.max.ms" = {FETCH_WAIT_MS}\n')
        began = time.monotonic()
        command = [program, "--config", config, "serve", folder + "/data", "--http", "127.0.0.1:0",
                   "--postgres", "off"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            url = server.stdout.readline().decode().split(" at ")[1].strip().rstrip("/")
            first = None
            while True:
                known = sql(url, "SELECT name FROM system.streams WHERE name = 'logs'")
                stored = sql(url, "SELECT count(*) AS n FROM logs")[0]["n"] if known else 0
                if stored >= records:
                    break
                if stored and first is None:
                    first = time.monotonic(), stored
                assert time.monotonic() - began < 600, f"only {stored} of {records}"
                time.sleep(0.05)
            ended = time.monotonic()
            with open(f"/proc/{server.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            distinct = sql(url, "SELECT count(*) AS n, count(DISTINCT number) AS d FROM logs")[0]
            assert (distinct["n"], distinct["d"]) == (records, records), distinct
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    since, before = first or (began, 0)
    return ended - began, cpu, (records - before) / (ended - since)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("brokers", metavar="HOST:PORT")
    parser.add_argument("program", metavar="LOGMILL")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    topic = f"bench_{os.getpid()}"
    sent = fill(args.brokers, topic, args.records)
    print(f"{args.records:,} records, {sent / args.records:.0f} bytes each")
    for _ in range(args.runs):
        readers = [("kcat", kcat(args.brokers, topic, args.records)),
                   ("logmill", logmill(args.program, args.brokers, topic, args.records))]
        for name, (seconds, cpu, rate) in readers:
            print(f"{name:8} {seconds:6.2f} s  {cpu:6.2f} s of CPU  {args.records / seconds:10,.0f} records/s from "
                  f"the start, {rate:10,.0f} once it reads", flush=True)


main()
