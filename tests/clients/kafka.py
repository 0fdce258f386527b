"""Kills a server that reads a real broker, and compares what it stored record by record.

    python kafka.py BROKERS LOGMILL --records 2000000 --kills 200

needs the package confluent-kafka and a broker with nothing else to do. A topic is created and filled while the
server is killed with SIGKILL at random moments; then every number must be in the stream once.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
BAD_EVERY = 1009


def value_of(number):
    if number % BAD_EVERY == 0:
        return b"no JSON %d" % number
    return b'{"number":%d,"host":"10.0.%d.%d","path":"/shop/item/%d","status":200,"size":%d}' % (
        number, number % 7, number % 251, number % 1000, number % 4096)


def create(brokers, topic):
    admin = AdminClient({"bootstrap.servers": brokers})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        created.result()


def configure(config, brokers, topic, group, options):
    """Writes the configuration of a server that reads a topic into the stream `logs`."""
    with open(config, "w") as file:
        file.write(f'[kafka.real]\nbrokers = ["{brokers}"]\ntopics = ["{topic}"]\nstream = "logs"\n'
                   f'format = "json"\ngroup = "{group}"\n[kafka.real.options]\n{options}\n')


def fill(brokers, topic, records, seconds, done):
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 20,
                         "queue.buffering.max.messages": 500000})
    failed = []

    def report(error, _message):
        if error:
            failed.append(error)

    began = time.time()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value_of(number), key=b"k%d" % number,
                                 partition=number % PARTITIONS, on_delivery=report)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 500 == 0:
            producer.poll(0)
            ahead = seconds * number / records - (time.time() - began)
            if ahead > 0:
                time.sleep(ahead)
    assert producer.flush(300) == 0 and not failed, failed[:3]
    print(f"{records} records produced in {time.time() - began:.1f} s", flush=True)
    done.set()


class Server:
    def __init__(self, binary, data, config):
        self.log = open(data + ".log", "ab")
        self.process = subprocess.Popen(
            [binary, "--config", config, "serve", data, "--http", "127.0.0.1:0", "--postgres", "off"],
            stdout=subprocess.PIPE, stderr=self.log)
        self.url = self.process.stdout.readline().decode().split(" at ")[1].strip().rstrip("/")

    def sql(self, query):
        body = json.dumps({"sql": query}).encode()
        request = urllib.request.Request(self.url + "/api/v1/sql", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=300))["rows"]

    def number(self, query):
        return list(self.sql(query)[0].values())[0]

    def stored(self, stream):
        if not self.sql(f"SELECT name FROM system.streams WHERE name = '{stream}'"):
            return 0
        return self.number(f"SELECT count(*) FROM {stream}") + self.number("SELECT count(*) FROM system.quarantine")

    def wait_reading(self):
        query = "SELECT count(*) FROM system.sources WHERE state = 'reading' AND producer <> 'kafka/real'"
        until = time.time() + 60
        while not self.number(query):
            assert time.time() < until, "no partition is read"
            time.sleep(0.05)

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers")
    parser.add_argument("logmill")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=os.getpid())
    parser.add_argument("--pace", type=float, default=4.0, help="seconds that a kill takes, while records come")
    parser.add_argument("--options", default='"fetch.wait.max.ms" = 10')
    args = parser.parse_args()
    dice = random.Random(args.seed)
    topic = f"logs_{os.getpid()}"
    create(args.brokers, topic)
    folder = tempfile.mkdtemp(prefix="logmill-kafka-")
    data, config = folder + "/data", folder + "/logmill.toml"

    done = threading.Event()
    filling = threading.Thread(target=fill, args=(args.brokers, topic, args.records, args.kills * args.pace, done))
    filling.start()
    kills, under_load = 0, 0
    while kills < args.kills:
        configure(config, args.brokers, topic, f"{topic}_{kills}", args.options)
        server = Server(args.logmill, data, config)
        server.wait_reading()
        time.sleep(dice.uniform(0.0, 1.0))
        server.end(signal.SIGKILL)
        kills += 1
        under_load += not done.is_set()
    filling.join()
    configure(config, args.brokers, topic, f"{topic}_last", args.options)
    server = Server(args.logmill, data, config)
    began = time.time()
    while (stored := server.stored("logs")) < args.records:
        assert time.time() - began < 600, f"only {stored} of {args.records}"
        time.sleep(0.05)
    bad = (args.records + BAD_EVERY - 1) // BAD_EVERY
    expected = (args.records - bad, args.records - bad, bad, bad)
    found = (server.number("SELECT count(*) FROM logs"), server.number("SELECT count(DISTINCT number) FROM logs"),
             server.number("SELECT count(*) FROM system.quarantine"),
             server.number("SELECT count(DISTINCT raw) FROM system.quarantine"))
    span = server.sql("SELECT min(number) AS low, max(number) AS high FROM logs")[0]
    print(f"seed {args.seed}: {kills} kills, {under_load} of them while records came; stored, distinct, bad, distinct: "
          f"{found}, expected {expected}; {span}")
    print("stop:", server.end(signal.SIGTERM))
    assert found == expected


if __name__ == "__main__":
    main()
