"""Produces numbered records into a topic of Kafka with confluent-kafka.

    python3 confluent_producer.py BROKERS TOPIC COUNT [FIRST [tell]]

Prints `sent COUNT` once the brokers have acknowledged all of them, or `skipped: …` where the
package is not installed; a record that is not delivered is an error. The numbers begin with FIRST,
otherwise with 0. With `tell`, each record that was delivered is told in a line, `delivered N`. The
value of a record is `{"number":N,"text":"event N"}`, its key `key-N`.
"""

import sys


def produce(brokers, topic, numbers, tells):
    from confluent_kafka import Producer

    producer = Producer({
        "bootstrap.servers": brokers,
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        "compression.type": "lz4",
    })
    delivered, failed = [], []

    def report(error, message):
        if error is None:
            delivered.append(int(message.key().removeprefix(b"key-")))
            if tells:
                print(f"delivered {delivered[-1]}", flush=True)
        else:
            failed.append(f"{message.key()}: {error}")

    for number in numbers:
        value = f'{{"number":{number},"text":"event {number}"}}'
        while True:
            try:
                producer.produce(topic, value, key=f"key-{number}", on_delivery=report)
                break
            except BufferError:
                # Its queue is full: deliveries make room.
                producer.poll(0.1)
        producer.poll(0)
    waiting = producer.flush(300)
    assert waiting == 0 and not failed, f"{waiting} wait, {len(failed)} failed: {failed[:3]}"
    assert sorted(delivered) == list(numbers), f"{len(delivered)} of {len(numbers)} were delivered"


def main():
    brokers, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    try:
        produce(brokers, topic, range(first, first + count), "tell" in sys.argv[5:])
    except ModuleNotFoundError as missing:
        print(f"skipped: confluent needs the package {missing.name}")
        return
    print(f"sent {count}")


main()
