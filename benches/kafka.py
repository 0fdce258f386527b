"""Measures how fast a server stores a topic of Kafka, beside kcat, which only prints it.

    python benches/kafka.py HOST:PORT target/release/logmill --records 2000000 --runs 3

needs a broker with nothing else to do, kcat and the package confluent-kafka. A topic of four partitions is filled
with records of JSON, some of which are none; then kcat and a new server read all of it in turn, from its beginning. A server has read it
once every record is stored, or in quarantine. Each run has the seconds of the clock from the start of the program, those of
its CPU, and records by second of the clock: from the start, and for a server also from the first records that it
stored, since a broker lets a member of a group wait for others.

kcat has the librdkafka of the system; `LD_LIBRARY_PATH` names the folder of another one.
"""

import argparse
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/clients"))

from kafka import Server, configure, create, fill

# The broker of a test answers a fetch that has no records only after this time.
FETCH_WAIT_MS = 10


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


def logmill(program, brokers, topic, records):
    """Returns the seconds of the clock and of CPU, and records by second from the first ones on."""
    with tempfile.TemporaryDirectory(prefix="logmill-kafka-") as folder:
        config, group = folder + "/logmill.toml", f"{topic}_{os.urandom(4).hex()}"
        configure(config, brokers, topic, group, f'"fetch.wait.max.ms" = {FETCH_WAIT_MS}')
        began, first = time.monotonic(), None
        server = Server(program, folder + "/data", config)
        try:
            while (stored := server.stored("logs")) < records:
                if stored and first is None:
                    first = time.monotonic(), stored
                assert time.monotonic() - began < 600, f"only {stored} of {records}"
                time.sleep(0.05)
            ended = time.monotonic()
            with open(f"/proc/{server.process.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            distinct = server.number("SELECT count(DISTINCT number) FROM logs")
            assert distinct == server.number("SELECT count(*) FROM logs"), distinct
        finally:
            server.end(signal.SIGTERM)
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
    create(args.brokers, topic)
    fill(args.brokers, topic, args.records, 0, threading.Event())
    for _ in range(args.runs):
        readers = [("kcat", kcat(args.brokers, topic, args.records)),
                   ("logmill", logmill(args.program, args.brokers, topic, args.records))]
        for name, (seconds, cpu, rate) in readers:
            print(f"{name:8} {seconds:6.2f} s  {cpu:6.2f} s of CPU  {args.records / seconds:10,.0f} records/s from "
                  f"the start, {rate:10,.0f} once it reads", flush=True)


main()
