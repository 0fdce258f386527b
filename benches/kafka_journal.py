"""A store with its journal in Kafka, beside one with its own.

    python3 benches/kafka_journal.py PROGRAM TANSU [SECONDS]

PROGRAM is `target/release/logmill`, TANSU the broker; the Python has moto[server] and
confluent-kafka. Prints the time of a message of 1,000 events from its produce to its fetch by a
client of librdkafka alone, the time of an acknowledgement by one sender, and the events per second
of several senders, each of batches of 1,000 lines of an access log over HTTP; the broker, the
object store and the senders are on the same cores.
"""

import http.client
import os
import sys
import tempfile
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/clients"))
sys.dont_write_bytecode = True
import journal  # noqa: E402

SENDERS = 4
ACKNOWLEDGEMENTS = 300


def body(number):
    lines = []
    for n in range(1000):
        second = (number * 7 + n // 50) % 86400
        stamp = "01/May/2024:%02d:%02d:%02d +0000" % (second // 3600, second // 60 % 60, second % 60)
        lines.append(f'192.0.2.{n % 250} - - [{stamp}] "GET /page/{n * 7 % 300} HTTP/1.1" 200 {n + 300} "-" "Mozilla/5.0"\n')
    return "".join(lines).encode()


BODIES = [body(number) for number in range(50)]


def post(connection, number):
    connection.request("POST", "/api/v1/ingest/access?format=combined", BODIES[number % len(BODIES)])
    answer = connection.getresponse()
    told = answer.read()
    assert answer.status == 200, (answer.status, told)


def median(times):
    return sorted(times)[len(times) // 2] * 1000


def acknowledgements(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for number in range(ACKNOWLEDGEMENTS):
        began = time.monotonic()
        post(connection, number)
        times.append(time.monotonic() - began)
        time.sleep(0.002)
    return median(times)


def throughput(port, seconds):
    until, counts = time.monotonic() + seconds, [0] * SENDERS

    def send(sender):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while time.monotonic() < until:
            post(connection, counts[sender] + sender)
            counts[sender] += 1

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1000 * sum(counts) / (time.monotonic() - began)


def round_trip(brokers, wait=4):
    """Returns the time from the produce of a message to its fetch, in milliseconds; a fetch waits for
    so many milliseconds at the broker."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "acks": "all", "max.in.flight": 1})
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "fetch.wait.max.ms": wait})
    consumer.assign([TopicPartition("bench", 0, 0)])
    payload, times = os.urandom(60_000), []
    for _ in range(ACKNOWLEDGEMENTS):
        began = time.monotonic()
        producer.produce("bench", payload, partition=0)
        producer.poll(0)
        while consumer.poll(1) is None:
            producer.poll(0)
        times.append(time.monotonic() - began)
        time.sleep(0.002)
    consumer.close()
    producer.flush(10)
    return median(times)


def main():
    program, tansu = sys.argv[1], sys.argv[2]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 15
    with tempfile.TemporaryDirectory() as folder:
        place, servers = journal.Place(tansu, "memory://tansu/"), []
        try:
            place.create("bench")
            print(f"produce and fetch: {round_trip(place.brokers):.2f} ms")
            for name, kafka in (("own journal", False), ("Kafka", True)) * 2:
                flags = ["--take-over"] if kafka else []
                server = journal.Server(program, place, f"{folder}/{len(servers)}", flags, kafka, "60s")
                servers.append(server)
                journal.wait_for(server.is_ready)
                p50 = acknowledgements(server.port)
                print(f"{name}: acknowledged after {p50:.2f} ms; {throughput(server.port, seconds):,.0f} events/s")
                server.process.terminate()
                server.process.wait()
        finally:
            for server in servers:
                server.process.kill()
            place.end()


if __name__ == "__main__":
    main()
