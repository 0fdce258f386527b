"""Kills and stops the parts of a store whose journal is in Kafka, under four senders.

    python journal.py LOGMILL TANSU --acts 300 --seed 1
    python journal.py LOGMILL --brokers HOST:PORT,... --replicas 3 --pids PID,... --acts 300

needs the packages confluent-kafka and moto[server], and the broker Tansu. Each act is one of: the
writer is killed and starts again; it is killed, its disk is lost, and another takes over; it is
stopped, another takes over, and it goes on; the broker is stopped, or killed where it keeps its
records in moto (--killable: a read takes a tenth of a second there); the object store is stopped; a
reader is killed. In the end every acknowledged batch must be there once, under its numbers, no other
batch more than once, and the rollups must be what a recount gives. A writer that was stopped must
end by itself, with status 74. With --brokers the cluster is one that runs already, and --pids are
the processes of its brokers, which are stopped, one at a time.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "logmill.journal"
SENDERS = 4
EVENTS = 20


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait_for(what, seconds=60):
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise AssertionError("it takes too long")
        time.sleep(0.02)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Place:
    """The object store and the broker."""

    def __init__(self, tansu, storage, brokers=None, replicas=1):
        self.tansu, self.storage, self.replicas = tansu, storage, replicas
        self.s3, self.port = free_port(), free_port()
        self.brokers = brokers or f"127.0.0.1:{self.port}"
        self.endpoint = f"http://127.0.0.1:{self.s3}"
        self.environment = dict(
            os.environ, AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_REGION="us-east-1",
            AWS_DEFAULT_REGION="us-east-1", AWS_ENDPOINT_URL=self.endpoint, AWS_ENDPOINT=self.endpoint,
            AWS_ALLOW_HTTP="true")
        self.moto = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.s3)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: is_open(self.s3))
        for bucket in ("logs", "tansu"):
            urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{bucket}", method="PUT")).close()
        self.broker = None
        if not brokers:
            self.start_broker()
        self.create(TOPIC)

    def create(self, topic):
        admin = AdminClient({"bootstrap.servers": self.brokers})
        config = {"min.insync.replicas": "2"} if self.replicas > 2 else {}
        new = NewTopic(topic, 1, self.replicas, config=config)
        for created in admin.create_topics([new]).values():
            created.result(30)

    def start_broker(self):
        url = f"tcp://127.0.0.1:{self.port}"
        self.broker = subprocess.Popen(
            [self.tansu, "broker", "--storage-engine", self.storage, "--listener-url", url,
             "--advertised-listener-url", url],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: is_open(self.port))

    def end(self):
        for process in filter(None, (self.broker, self.moto)):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


class Server:
    """A writer, or a reader, in a directory of its own."""

    def __init__(self, program, place, data, flags, has_kafka=True, lag="2s"):
        self.data, self.port = data, free_port()
        config = data + ".toml"
        # Tansu answers a fetch that finds nothing when its time is over, whatever comes meanwhile.
        wait = 4 if place.storage and place.storage.startswith("memory") else 50
        with open(config, "w") as file:
            if has_kafka:
                file.write(f'[cluster]\nkafka = "{place.brokers}"\nkafka_topic = "{TOPIC}"\n')
                file.write(f'[cluster.kafka_options]\n"fetch.wait.max.ms" = {wait}\n')
                file.write('[storage]\nobjects = "s3://logs/store"\n')
            else:
                file.write("[storage]\n")
            file.write(f'lag = "{lag}"\n')
        self.log = open(data + ".log", "ab")
        self.process = subprocess.Popen(
            [program, "--config", config, "serve", data, "--http", f"127.0.0.1:{self.port}", "--postgres", "off",
             *flags],
            env=place.environment, stdout=subprocess.DEVNULL, stderr=self.log)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, question):
        url = f"http://127.0.0.1:{self.port}/api/v1/sql"
        with urllib.request.urlopen(url, data=question.encode(), timeout=60) as answer:
            return json.load(answer)["rows"]

    def post(self, path, body, headers, seconds):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Run:
    def __init__(self, options, folder):
        self.program, self.folder = options.logmill, folder
        self.draw = random.Random(options.seed)
        if options.brokers:
            self.place = Place(None, None, options.brokers, options.replicas)
        else:
            self.place = Place(options.tansu, "s3://tansu/" if options.killable else "memory://tansu/")
        self.pids = [int(pid) for pid in options.pids.split(",") if pid] or [self.place.broker and self.place.broker.pid]
        self.kinds = ["kill", "lose", "zombie", "objects_stop", "reader"]
        self.kinds += ["broker_stop"] if self.pids[0] else []
        self.kinds += ["broker_kill"] if options.killable else []
        self.writer = None
        self.zombies = []
        self.counts = {}
        self.made = 0
        self.acknowledged = [{} for _ in range(SENDERS)]
        self.sent = [0] * SENDERS
        self.doubts = [0] * SENDERS
        self.stopping = threading.Event()

    def directory(self):
        self.made += 1
        return f"{self.folder}/data-{self.made}"

    def start(self, data, flags=()):
        """Starts a writer, again if something that it needs was stopped too long."""
        for _ in range(20):
            server = Server(self.program, self.place, data, flags)
            until = time.monotonic() + 90
            while time.monotonic() < until and server.process.poll() is None:
                if server.is_ready():
                    self.writer = server
                    return
                time.sleep(0.02)
            code = server.process.poll()
            if code is None:
                server.kill()
            # A broker or an object store that answers late; what is wrong stays so.
            assert code in (None, 1, 69, 74), (code, open(data + ".log").read()[-2000:])
        raise AssertionError(open(data + ".log").read()[-2000:])

    def send(self, sender):
        number = 0
        while not self.stopping.is_set():
            stamp = "01/May/2024:%02d:%02d:%02d +0000" % (number // 3600 % 24, number // 60 % 60, number % 60)
            lines = "".join(
                f'10.0.0.{sender} - - [{stamp}] "GET /{number} HTTP/1.1" 200 {n} "-" "x"\n' for n in range(EVENTS))
            key = {"Idempotency-Key": f"{sender}-{number}"}
            self.sent[sender] = number + 1
            while True:
                try:
                    path = "/api/v1/ingest/access?format=combined"
                    told = self.writer.post(path, lines.encode(), key, 20)
                    assert told["accepted"] == EVENTS, told
                    self.acknowledged[sender][number] = (told["first_seq"], told["duplicate"])
                    break
                except urllib.error.HTTPError as error:
                    assert error.code in (500, 503, 504), (error.code, error.read())
                except (OSError, ValueError):
                    pass
                self.doubts[sender] += 1
                if self.stopping.is_set():
                    return
                time.sleep(0.05)
            number += 1
            # The broker keeps all records in memory, and grows slow with them.
            time.sleep(0.05)

    def act(self):
        kind = self.draw.choice(self.kinds)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "kill":
            self.writer.kill()
            self.start(self.writer.data)
        elif kind == "lose":
            self.writer.kill()
            shutil.rmtree(self.writer.data, ignore_errors=True)
            self.start(self.directory(), ["--take-over"])
        elif kind == "zombie":
            old = self.writer
            old.process.send_signal(signal.SIGSTOP)
            self.start(self.directory(), ["--take-over"])
            self.zombies.append(old)
        elif kind == "broker_kill":
            self.place.broker.kill()
            self.place.broker.wait()
            time.sleep(self.draw.random())
            self.place.start_broker()
            self.pids = [self.place.broker.pid]
        elif kind in ("broker_stop", "objects_stop"):
            pid = self.draw.choice(self.pids) if kind == "broker_stop" else self.place.moto.pid
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2 * self.draw.random())
            os.kill(pid, signal.SIGCONT)
        else:
            reader = Server(self.program, self.place, self.directory(), ["--reader"])
            time.sleep(self.draw.random())
            reader.kill()
        if self.zombies and self.draw.random() < 0.7:
            self.wake(self.zombies.pop(0))

    def wake(self, zombie):
        """Lets a stopped writer go on: it must find that it was superseded."""
        zombie.process.send_signal(signal.SIGCONT)
        code = zombie.process.wait(120)
        assert code == 74, (code, open(zombie.data + ".log").read()[-2000:])
        shutil.rmtree(zombie.data, ignore_errors=True)

    def check(self):
        rows = self.writer.ask(
            "SELECT host, path, count(*) AS n, count(DISTINCT response_size) AS d, min(_seq) AS lo, max(_seq) AS hi "
            "FROM access GROUP BY host, path LIMIT 1000000")
        there = {(int(row["host"].rsplit(".")[-1]), int(row["path"][1:])): row for row in rows}
        lost = doubled = moved = 0
        for (sender, batch), row in there.items():
            doubled += row["n"] != EVENTS or row["d"] != EVENTS
            assert batch < self.sent[sender], row
        for sender, acknowledged in enumerate(self.acknowledged):
            for batch, (first, _) in acknowledged.items():
                row = there.get((sender, batch))
                lost += row is None
                moved += row is not None and (row["lo"], row["hi"]) != (first, first + EVENTS - 1)
        return lost, doubled, moved, len(rows)

    def run(self, acts, pace):
        self.start(self.directory())
        senders = [threading.Thread(target=self.send, args=(sender,), daemon=True) for sender in range(SENDERS)]
        for sender in senders:
            sender.start()
        began = time.monotonic()
        for act in range(acts):
            time.sleep(pace * self.draw.random())
            self.act()
            if act % 50 == 49:
                print(f"{act + 1} acts in {time.monotonic() - began:.0f} s", flush=True)
        for zombie in self.zombies:
            self.wake(zombie)
        time.sleep(1)
        self.stopping.set()
        for sender in senders:
            sender.join(60)
        lost, doubled, moved, rows = self.check()
        acknowledged = sum(len(batches) for batches in self.acknowledged)
        again = sum(duplicate for batches in self.acknowledged for _, duplicate in batches.values())
        print(f"{acts} acts in {time.monotonic() - began:.0f} s: {json.dumps(self.counts, sort_keys=True)}")
        print(f"{acknowledged} batches of {EVENTS} acknowledged, {again} of them when sent again after "
              f"{sum(self.doubts)} doubts; {rows} there")
        print(f"lost {lost}, doubled {doubled}, moved {moved}")
        wrong = self.verify()
        self.writer.process.terminate()
        code = self.writer.process.wait(60)
        assert code == 0, code
        # A writer that has stopped leaves a store that another directory opens without a flag.
        self.start(self.directory())
        after = self.check()
        assert after[:3] == (0, 0, 0), after
        self.writer.process.terminate()
        self.writer.process.wait(60)
        assert not (lost or doubled or moved or wrong), (lost, doubled, moved, wrong)

    def verify(self):
        for rollup in ("stats", "traffic"):
            told = self.writer.post(f"/api/v1/rollups/{rollup}/verify", b"", {}, 120)
            print(json.dumps(told)[:300])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.writer.port}/metrics", timeout=30) as answer:
            found = answer.read().decode()
        return "\nlogmill_rollup_mismatch_total 0\n" not in found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("logmill")
    parser.add_argument("tansu", nargs="?")
    parser.add_argument("--brokers")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--pids", default="")
    parser.add_argument("--acts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument("--killable", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(options, folder)
        try:
            run.run(options.acts, options.pace)
        finally:
            if run.writer:
                run.writer.process.kill()
            for zombie in run.zombies:
                zombie.process.kill()
            run.place.end()


if __name__ == "__main__":
    main()
