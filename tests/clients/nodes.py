"""Nodes, which share the shards of a cluster by a consumer group, under kills, stops and restarts.

    python nodes.py LOGMILL TANSU --nodes 3 --shards 6 --acts 60 --seed 1
    python nodes.py LOGMILL TANSU --key "path + hash" --lag 1h --acts 60 --seed 2
    python nodes.py LOGMILL TANSU --rolling --acts 30 --readers 8

needs the package moto[server] and the broker Tansu. Four senders, one of them an ordered source,
send batches to any node until they are acknowledged, and a reader counts the events at any node.
Each act is one of:

    kill         a node and the servers of its shards are killed
    kill_node    a node alone is killed; the servers of its shards end by themselves
    kill_server  the server of a shard is killed
    stop, stop_node, stop_server
                 the same are stopped, and go on after a while
    restart      a node is ended by SIGTERM, and starts again
    stop_broker, stop_objects
                 the broker, or the object store, is stopped, and goes on after a while

Acts overlap: a node that was killed starts again within 8 seconds, a stop lasts up to 20. One node
at least is neither killed nor stopped. Between some acts everything goes on until each shard has a
server. A restart overlaps with no other act: at Tansu 0.6 a member that leaves the group while it
forms stays its leader, so that nothing is assigned any more; Kafka's coordinator chooses another.
An acknowledged event must be in each answer from then on. In the end each event must be there once,
by each node; a batch that is sent again must be known, of which some hundreds of each sender are:
Tansu in memory fetches the slower the more messages a partition has. And the rollups of each shard
must be what a recount gives.

With --rolling each act restarts the next node, as an upgrade does, once each shard has a server. A
refused count is asked for again after the second that Retry-After names; then 99.9 % must have an
answer.

The directory stays after a failure, or with --keep. A node that ends by itself is a failure, unless
it does so at its start while the broker or the object store is stopped. The longest times without
an acknowledgement are told as seconds, from the second of the run at which they began: with
--settle 1 no acts overlap, and each has its own.
"""

import argparse
import collections
import datetime
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse
import urllib.request

from shards import BROKEN, KEYS, Sender, Server, checked_parts, free_ports
from shards_questions import UTC, Events

TOPIC = "logmill.journal"
# The time after which something is not late, but will not come.
LATE_S = 240
# The time in which the server of a shard ends whose node has gone.
ORPHANED_S = 60
# The time in which the group has formed after its last change.
FORMED_S = 10
# The batches of a sender that are sent again in the end.
AGAIN_MAX = 250
# A start that fails so long after the broker or the object store was stopped fails because of it.
STARVED_S = 60
UP, AWAY, STARTING, ENDING = "up", "away", "starting", "ending"
ROLLUPS = ["stats", "traffic"]
# Random questions of each rollup, in each shard: one takes up to a second on a loaded machine.
QUESTIONS = 20
# The ranges of an ordered source whose counts a shard remembers at least; it remembers 128.
RANGES = 100


def wait_for(what, told, seconds=60):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, f"{told} takes longer than {seconds} s"
        time.sleep(0.05)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_row(count, taken):
    """Returns the first of several ports in a row at which nobody listens, apart from others."""
    for first in random.SystemRandom().sample(range(20_000, 32_000), 2_000):
        row = range(first, first + count)
        if not taken.intersection(row) and not any(is_open(port) for port in row):
            return first
    raise AssertionError(f"there are no {count} free ports in a row")


def processes(folder):
    """Returns the processes whose commands name something in a directory: the process id, that of
    the parent, and the words of the command."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().decode().split("\0")
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state != "Z" and any(word.startswith(f"{folder}/") for word in words):
            found.append((int(entry), int(parent), words))
    return [one for one in found if one[0] != os.getpid()]


def reason(told):
    """Returns the reason of a refusal, without the numbers in it."""
    error = told.get("error") if isinstance(told, dict) else None
    message = error.get("message") if isinstance(error, dict) else told
    return re.sub(r"[0-9]+", "N", str(message))[:120]


class Seconds(Events):
    """Lines that have a second of their own each."""

    def __init__(self, draw, number):
        super().__init__(draw)
        # A million seconds are more than a sender fills.
        self.next = datetime.datetime(2024, 1, 1, tzinfo=UTC)
        self.next += datetime.timedelta(seconds=number * 1_000_000)

    def time(self, share):
        self.next += datetime.timedelta(seconds=1)
        return self.next


class Node(Server):
    """A node, and the servers of its shards."""

    def __init__(self, program, folder, number, port, first, environment):
        environment = dict(environment, LOGMILL_CLUSTER__SHARD_PORTS=str(first))
        super().__init__(program, folder, f"node-{number}", port, environment, "")
        self.data = folder / self.name
        self.command = [program, "serve", str(self.data), "--http", f"127.0.0.1:{port}"]
        self.command += ["--postgres", "off"]
        self.state, self.since = AWAY, 0

    def start(self):
        self.spawn()
        self.state, self.since = STARTING, time.monotonic()

    def servers(self):
        """Returns the process of each shard's server, those of an earlier life among them."""
        found = {}
        for pid, _, words in processes(self.data.parent):
            if str(self.data) in words and "--shard" in words:
                found[pid] = int(words[words.index("--shard") + 1])
        return found

    def is_ready(self):
        try:
            return self.call("/ready", seconds=2)[0] == 200
        except BROKEN:
            return False

    def status(self):
        """Returns the state of the cluster as this node tells it, or none."""
        try:
            code, told = self.call("/api/v1/cluster/status", seconds=10)
            return told if code == 200 else None
        except BROKEN:
            return None

    def rows(self, question):
        """Asks until there is an answer other than 503."""
        until = time.monotonic() + LATE_S
        while True:
            try:
                code, told = self.call("/api/v1/sql", question.encode())
            except BROKEN as error:
                code, told = 503, repr(error)
            if code == 200:
                return told["rows"]
            assert code == 503 and time.monotonic() < until, f"{self.name}: {code} {told}"
            time.sleep(0.2)


class Place:
    """The object store, the broker, and the nodes."""

    def __init__(self, options, folder):
        self.folder, self.options = folder, options
        self.s3, self.kafka = free_ports(2)
        self.endpoint = f"http://127.0.0.1:{self.s3}"
        self.moto = self.broker = None
        self.nodes, taken = [], {self.s3, self.kafka}
        for number in range(options.nodes):
            first = free_row(options.shards + 1, taken)
            taken.update(range(first, first + options.shards + 1))
            environment = self.environment()
            node = Node(options.logmill, folder, number, first, first + 1, environment)
            self.nodes.append(node)

    def environment(self):
        own = {name: text for name, text in os.environ.items() if not name.startswith("LOGMILL_")}
        kafka_options = '{ "fetch.wait.max.ms" = 4, "message.timeout.ms" = 4000 }'
        own.update(
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY="test",
            AWS_REGION="us-east-1",
            AWS_ENDPOINT_URL=self.endpoint,
            LOGMILL_STORAGE__OBJECTS="s3://logs/store",
            LOGMILL_STORAGE__LAG=self.options.lag,
            LOGMILL_CLUSTER__GROUP="nodes",
            LOGMILL_CLUSTER__SHARDS=str(self.options.shards),
            LOGMILL_CLUSTER__KAFKA=f"127.0.0.1:{self.kafka}",
            LOGMILL_CLUSTER__KAFKA_OPTIONS=kafka_options,
            LOGMILL_STREAM__ACCESS__SHARD_KEY=self.options.key)
        if self.options.key.endswith("if hot"):
            own["LOGMILL_STREAM__ACCESS__HOT_VALUES"] = '["/"]'
        return own

    def start(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        moto = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.s3)]
        self.moto = subprocess.Popen(moto, **quiet)
        url = f"tcp://127.0.0.1:{self.kafka}"
        broker = [self.options.tansu, "broker", "--storage-engine", "memory://tansu/"]
        broker += ["--listener-url", url, "--advertised-listener-url", url]
        self.broker = subprocess.Popen(broker, **quiet)
        wait_for(lambda: is_open(self.s3) and is_open(self.kafka), "a start of moto or the broker")
        bucket = urllib.request.Request(f"{self.endpoint}/logs", method="PUT")
        urllib.request.urlopen(bucket, timeout=30).close()
        topic = [self.options.tansu, "topic", "create", "--broker", url]
        topic += ["--partitions", str(self.options.shards), TOPIC]
        subprocess.run(topic, check=True, timeout=60, stdout=subprocess.DEVNULL)
        for node in self.nodes:
            node.start()

    def pick(self, draw):
        return draw.choice(self.nodes)

    def kill(self):
        """Ends all processes, nodes before their servers, which they would start again."""
        for node in self.nodes:
            node.kill()
        for _ in range(20):
            found = processes(self.folder)
            for pid, _, _ in found:
                send_signal(pid, signal.SIGKILL, self.folder)
            if not found:
                break
            time.sleep(0.1)
        for process in filter(None, (self.broker, self.moto)):
            process.kill()
            process.wait(60)

    def logs(self):
        for node in self.nodes:
            text = node.log.read_text(errors="replace") if node.log.exists() else ""
            yield "\n".join([f"--- {node.log}"] + text.splitlines()[-15:])


def send_signal(pid, number, folder):
    """Sends a signal, if the process is still one of the directory."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        if f"{folder}/".encode() in command:
            os.kill(pid, number)
    except (OSError, ProcessLookupError):
        pass


class Tally:
    """The numbers of events that were sent, and of those that were acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent = self.acknowledged = 0

    def add(self, sent=0, acknowledged=0):
        with self.lock:
            self.sent += sent
            self.acknowledged += acknowledged


class NodeSender(Sender):
    """Sends one batch after the other to any node, each until it is acknowledged."""

    def __init__(self, number, run):
        super().__init__(number, run)
        self.is_producer = number == run.options.senders - 1
        self.events = Seconds(self.draw, number)
        self.batches, self.times, self.wrong = [], [], []
        self.again = 0
        self.reasons = collections.Counter()

    def batch(self):
        made = super().batch()
        self.batches.append(made)
        self.run_of.tally.add(sent=self.lines[-1])
        return made

    def send(self, batch):
        # The broker keeps all records in memory, and grows slow with them.
        time.sleep(0.3 * self.draw.random())
        number = len(self.lines) - 1
        told = self.deliver(batch, number, [1, 3, 8])
        self.times.append(time.monotonic())
        self.acknowledged.append(number)
        self.run_of.tally.add(acknowledged=self.lines[number])
        self.duplicates += bool(told["duplicate"])

    def deliver(self, batch, number, waits):
        """Sends a batch until there is an answer other than 503. Returns the answer."""
        until, last = time.monotonic() + LATE_S, None
        while time.monotonic() < until:
            node = self.run_of.place.pick(self.draw)
            try:
                code, told = node.call(*batch, seconds=self.draw.choice(waits))
                last = f"{node.name}: {code} {told}"
                if code == 200:
                    self.look_at(told, number, last)
                    return told
                assert code == 503, f"sender {self.number}, batch {number}: {last}"
                self.reasons[reason(told)] += 1
            except BROKEN as error:
                last = f"{node.name}: {error!r}"
            self.doubts += 1
            time.sleep(0.05 + 0.2 * self.draw.random())
        raise AssertionError(f"batch {number} was not acknowledged in {LATE_S} s; last {last}")

    def look_at(self, told, number, last):
        """Checks the counts of an answer. Those of old ranges are forgotten, and told as 0."""
        try:
            taken = checked_parts(told, self.run_of.options.shards)
        except (AssertionError, KeyError, TypeError) as error:
            raise AssertionError(f"batch {number}: {last}: {error!r}") from error
        count, about = self.lines[number], f"sender {self.number}, batch {number}"
        if self.is_producer and number < len(self.lines) - RANGES and told["duplicate"]:
            assert taken <= count, f"{about} of {count} lines: {last}"
        else:
            assert taken == told["accepted"] == count, f"{about} of {count} lines: {last}"

    def send_again(self):
        """Sends batches again, and notes what is wrong with the answers."""
        numbers = range(len(self.batches))
        some = self.draw.sample(numbers, min(len(numbers), AGAIN_MAX))
        try:
            for number in sorted(some):
                told = self.deliver(self.batches[number], number, [30])
                self.again += 1
                if not told["duplicate"]:
                    told = f"batch {number} was not known: {told}"
                    self.wrong.append(f"sender {self.number}: {told}")
        except Exception as error:
            self.failure = f"sender {self.number}: {error}\n{traceback.format_exc()}"


class Reader(threading.Thread):
    """Counts the events at any node that works, and compares with what was acknowledged."""

    def __init__(self, number, run):
        super().__init__(daemon=True)
        self.run_of = run
        self.draw = random.Random(f"{run.options.seed} reader {number}")
        self.answers = self.refusals = self.silences = 0
        # What a client sees that asks again once, after the time in Retry-After.
        self.counts, self.longest = collections.Counter(), 0.0
        self.unseen, self.wrong = [], []
        self.reasons = collections.Counter()
        self.failure = None

    def run(self):
        try:
            while not self.run_of.stopping.is_set():
                nodes = [node for node in self.run_of.place.nodes if node.state == UP]
                if nodes and self.run_of.tally.acknowledged:
                    self.ask_twice(nodes)
                time.sleep(0.3 * self.draw.random())
        except Exception as error:
            self.failure = f"the reader: {error}\n{traceback.format_exc()}"

    def ask_twice(self, nodes):
        began = time.monotonic()
        if self.ask(self.draw.choice(nodes)):
            self.counts["at once"] += 1
            self.longest = max(self.longest, time.monotonic() - began)
            return
        time.sleep(1)
        nodes = [node for node in self.run_of.place.nodes if node.state == UP]
        is_answered = nodes and self.ask(self.draw.choice(nodes))
        self.counts["after a second" if is_answered else "not then"] += 1

    def ask(self, node):
        """Asks for the counts. Returns whether there is an answer."""
        question = "SELECT count(*) AS n FROM access"
        if self.draw.random() < 0.2:
            question = "SELECT count(*) AS n, count(DISTINCT time) AS d FROM access"
        least, began = self.run_of.tally.acknowledged, time.monotonic()
        try:
            code, told = node.call("/api/v1/sql", question.encode(), seconds=30)
        except BROKEN:
            self.silences += 1
            return False
        about = f"{node.name}, asked for {time.monotonic() - began:.1f} s, {self.run_of.told_act()}"
        if code == 503:
            self.refusals += 1
            self.reasons[reason(told)] += 1
            return False
        if code != 200:
            self.note(self.wrong, f"{about}: {question}: {code} {told}")
            return False
        self.answers += 1
        row, most = told["rows"][0], self.run_of.tally.sent
        if row["n"] < least:
            self.note(self.unseen, f"{about}: {row['n']} of {least} acknowledged events")
        if row["n"] > most or row["n"] != row.get("d", row["n"]):
            self.note(self.wrong, f"{about}: {row}, and {most} events were sent")
        return True

    def note(self, where, told):
        where.append(told)
        name = "UNSEEN" if where is self.unseen else "WRONG"
        print(f"{name} at {self.run_of.clock()}: {told}", flush=True)


class Run:
    """Acts on the nodes while senders and the reader work, and a look at everything at the end."""

    def __init__(self, options, place):
        self.options, self.place = options, place
        self.draw = random.Random(f"{options.seed} {options.key}")
        self.stopping, self.tally = threading.Event(), Tally()
        self.senders = [NodeSender(number, self) for number in range(options.senders)]
        self.readers = [Reader(number, self) for number in range(options.readers)]
        self.kinds = ["kill", "kill_node", "kill_server", "stop", "stop_node", "stop_server"]
        self.kinds += ["restart", "stop_broker", "stop_objects"]
        self.counts = dict.fromkeys(self.kinds, 0)
        # The times and kinds of all acts, and what is undone later: the time, and how.
        self.history, self.later = [], []
        self.starved_at, self.stopped = -STARVED_S, set()
        self.began = time.monotonic()
        # A machine that is too busy lets this program wait, too.
        self.latest = 0

    def clock(self):
        """Returns the time in the form that logs have, and the seconds since the start."""
        now = datetime.datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        return f"{now} ({time.monotonic() - self.began:.1f} s)"

    def told_act(self):
        if not self.history:
            return "before all acts"
        at, told = self.history[-1]
        return f"{time.monotonic() - at:.1f} s after {told}"

    # Acts.

    def after(self, longest, undo, shortest=0.0):
        at = time.monotonic() + self.draw.uniform(shortest, longest)
        self.later.append((at, undo))

    def act(self):
        """Does the next act that can be done now."""
        kinds = self.draw.sample(self.kinds, len(self.kinds))
        nodes = self.draw.sample(self.place.nodes, len(self.place.nodes))
        up = [node for node in nodes if node.state == UP]
        for kind in kinds:
            if kind in ("stop_broker", "stop_objects"):
                told = self.stop_place(kind)
            elif kind in ("kill_server", "stop_server"):
                told = self.act_on_server(kind, up)
            elif kind == "restart":
                self.restart(nodes[0])
                return
            else:
                told = self.act_on_node(kind, up[0]) if len(up) > 1 else None
            if told:
                self.took(kind, told)
                return

    def took(self, kind, told):
        self.counts[kind] += 1
        self.history.append((time.monotonic(), told))
        print(f"{self.clock()} {told}", flush=True)

    def restart(self, node):
        """Restarts a node while each shard has a server and the group has its members."""
        self.settle()
        self.tend(FORMED_S)
        self.end(node)
        while node.state == ENDING:
            self.tend(0.2)

    def end(self, node):
        shards = sorted(node.servers().values())
        node.state, node.since = ENDING, time.monotonic()
        node.process.terminate()
        self.took("restart", f"restart {node.name} with shards {shards}")

    def restart_next(self):
        """Restarts the next node in turn, and waits until each shard has a server."""
        self.end(self.place.nodes[self.counts["restart"] % len(self.place.nodes)])
        self.settle()
        self.tend(1)

    def stop_place(self, kind):
        process = self.place.broker if kind == "stop_broker" else self.place.moto
        if process.pid in self.stopped:
            return None
        self.stopped.add(process.pid)
        process.send_signal(signal.SIGSTOP)

        def go_on():
            process.send_signal(signal.SIGCONT)
            self.stopped.discard(process.pid)
            self.starved_at = time.monotonic()

        self.after(5, go_on, 1)
        return kind

    def act_on_server(self, kind, up):
        node = up[0] if up else None
        servers = sorted(node.servers().items()) if node else []
        if not servers:
            return None
        pid, shard = self.draw.choice(servers)
        if kind == "kill_server":
            send_signal(pid, signal.SIGKILL, self.place.folder)
        else:
            send_signal(pid, signal.SIGSTOP, self.place.folder)
            self.after(15, lambda: send_signal(pid, signal.SIGCONT, self.place.folder), 1)
        return f"{kind} of shard {shard} at {node.name}"

    def act_on_node(self, kind, node):
        told = f"{kind} {node.name} with shards {sorted(node.servers().values())}"
        node.state = AWAY
        number = signal.SIGSTOP if kind.startswith("stop") else signal.SIGKILL
        pids = [] if kind.endswith("node") else list(node.servers())
        node.process.send_signal(number)
        if kind in ("kill", "stop"):
            # One that it has started meanwhile, too.
            pids = list({*pids, *node.servers()})
        for pid in pids:
            send_signal(pid, number, self.place.folder)
        if number == signal.SIGSTOP:
            self.after(20, lambda: self.go_on(node, pids), 1)
        else:
            node.process.wait(60)
            self.after(8, node.start)
        return told

    def go_on(self, node, pids):
        node.process.send_signal(signal.SIGCONT)
        for pid in pids:
            send_signal(pid, signal.SIGCONT, self.place.folder)
        node.state = UP

    # What happens between acts.

    def tend(self, seconds):
        """Undoes what is due and looks at the nodes, for a while."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            due = [one for one in self.later if one[0] <= now]
            self.later = [one for one in self.later if one[0] > now]
            for _, undo in due:
                undo()
            for node in self.place.nodes:
                self.tend_node(node)
            for thread in [*self.senders, *self.readers]:
                assert thread.failure is None, thread.failure
            if time.monotonic() >= until:
                return
            slept = time.monotonic()
            time.sleep(0.05)
            self.latest = max(self.latest, time.monotonic() - slept - 0.05)

    def tend_node(self, node):
        code = node.process.poll()
        if node.state == ENDING:
            late = time.monotonic() - node.since
            assert late < LATE_S, f"{node.name} does not end after SIGTERM"
            if code is not None:
                assert code == 0, f"{node.name} ended with status {code} after SIGTERM"
                print(f"{self.clock()} {node.name} ended within {late:.1f} s", flush=True)
                node.start()
        elif node.state == STARTING and code is not None:
            is_starved = self.stopped or time.monotonic() - self.starved_at < STARVED_S
            assert is_starved, f"{node.name} ended at its start, status {code}"
            print(f"{self.clock()} {node.name} ended at its start, status {code}", flush=True)
            node.start()
        elif node.state == STARTING and node.is_ready():
            node.state = UP
        elif node.state == STARTING:
            assert time.monotonic() - node.since < LATE_S, f"{node.name} does not start"
        elif node.state == UP:
            assert code is None, f"{node.name} ended by itself, status {code}"

    def settle(self):
        """Waits until all acts are undone, each shard has a server, and no others are there."""
        until = time.monotonic() + LATE_S
        while self.later or any(node.state != UP for node in self.place.nodes):
            assert time.monotonic() < until, "the nodes do not come back"
            self.tend(0.2)
        began = time.monotonic()
        until = began + LATE_S
        for node in self.place.nodes:
            while not (told := node.status()) or told["missing"]:
                assert time.monotonic() < until, f"{node.name}: not whole: {json.dumps(told)}"
                self.tend(0.2)
        whole = time.monotonic() - began
        while orphans := self.orphans():
            late = time.monotonic() - began
            assert late < ORPHANED_S, f"servers whose nodes have gone do not end: {orphans}"
            self.tend(0.2)
        print(f"{self.clock()} whole after {whole:.1f} s", flush=True)

    def orphans(self):
        parents = {node.process.pid for node in self.place.nodes}
        found = processes(self.place.folder)
        return [(pid, words) for pid, parent, words in found if not {pid, parent} & parents]

    # The end.

    def count(self, node):
        """Returns the numbers of acknowledged events that are lost, and of those that are there
        more than once."""
        lost = doubled = 0
        for sender in self.senders:
            for first in range(0, len(sender.lines), 1000):
                last = min(first + 1000, len(sender.lines))
                rows = node.rows(
                    "SELECT response_size AS batch, count(*) AS n, count(DISTINCT time) AS d, "
                    "count(DISTINCT user_agent) AS names FROM access "
                    f"WHERE \"user\" = 's{sender.number}' AND response_size >= {first} "
                    f"AND response_size < {last} GROUP BY 1 LIMIT 2000")
                there = {row["batch"]: row for row in rows}
                acknowledged = set(sender.acknowledged)
                for batch in range(first, last):
                    row = there.get(batch, {"n": 0, "d": 0, "names": 0})
                    assert row["d"] == row["names"] <= sender.lines[batch], row
                    missing = sender.lines[batch] - row["d"]
                    lost += missing if batch in acknowledged else 0
                    doubled += row["n"] - row["d"]
                    if missing or row["n"] != row["d"]:
                        told = f"sender {sender.number}, batch {batch} of {sender.lines[batch]}"
                        print(f"{node.name}: {told} events: {row}", flush=True)
        return lost, doubled

    def send_again(self):
        """Sends batches again. Returns what is wrong with the answers."""
        jobs = [threading.Thread(target=sender.send_again, daemon=True) for sender in self.senders]
        for job in jobs:
            job.start()
        told_at = last_at = time.monotonic()
        done = 0
        while any(job.is_alive() for job in jobs):
            assert time.monotonic() < last_at + LATE_S, f"only {done} batches were sent again"
            self.tend(0.2)
            before, done = done, sum(sender.again for sender in self.senders)
            if done > before:
                last_at = time.monotonic()
            if time.monotonic() - told_at > 60:
                told_at = time.monotonic()
                print(f"{self.clock()} {done} batches were sent again", flush=True)
        return [told for sender in self.senders for told in sender.wrong]

    def check_totals(self):
        """Returns the answers of nodes that are not the number of all events."""
        wrong, sent = [], self.tally.sent
        questions = ["SELECT count(*), count(DISTINCT time) FROM access"]
        questions += ["SELECT sum(hits) FROM stats.yearly"]
        for node in self.place.nodes:
            for question in questions:
                numbers = list(node.rows(question)[0].values())
                if set(numbers) != {sent}:
                    wrong.append(f"{node.name}: {question}: {numbers}, and {sent} were sent")
        return wrong

    def verify(self):
        """Compares the rollups of each shard with a recount of its own events."""
        wrong = []
        told = self.place.nodes[0].status()
        assert told and not told["missing"], told
        for server in told["servers"]:
            if server.get("shard") is not None:
                port = urllib.parse.urlsplit(server["url"]).port
                wrong += self.verify_shard(server["shard"], Peer(port, server["shard"]))
        return wrong

    def verify_shard(self, shard, peer):
        wrong = []
        own = "SELECT count(*) AS n FROM system.streams WHERE name = 'access' AND server = 'this server'"
        own = peer.rows(own)[0]["n"]
        for name in ROLLUPS:
            path = f"/api/v1/rollups/{name}/verify?questions={QUESTIONS}"
            code, told = peer.call(path, b"", seconds=300)
            if code == 404 and not own:
                print(f"shard {shard} has no events, and no rollup {name}")
                continue
            assert code == 200, f"shard {shard}: verifying {name}: {code} {told}"
            differences = sum(level["differences"] for level in told["levels"])
            differences += told["questions"]["differences"]
            if differences:
                wrong.append(f"shard {shard}: {name} differs: {json.dumps(told)[:3000]}")
        _, metrics = peer.call("/metrics")
        if "\nlogmill_rollup_mismatch_total 0\n" not in metrics:
            wrong.append(f"shard {shard}: a rollup differs, by its metrics")
        return wrong

    def gaps(self):
        """Returns the longest time in which a sender had no acknowledgement, for each kind of act:
        of the first act within that time, or of the last one before it."""
        longest = {}
        for sender in self.senders:
            now = [] if self.stopping.is_set() else [time.monotonic()]
            for begin, end in itertools.pairwise(sender.times + now):
                before = [told for at, told in self.history if at <= begin]
                within = [told for at, told in self.history if begin < at < end]
                told = within[0] if within else before[-1] if before else "start"
                kind = told.split()[0]
                gap = (round(end - begin, 1), round(begin - self.began, 1))
                longest[kind] = max(longest.get(kind, (0, 0)), gap)
        return {kind: f"{gap} from {at}" for kind, (gap, at) in sorted(longest.items())}

    def end_senders(self):
        self.stopping.set()
        until = time.monotonic() + LATE_S + 60
        for thread in [*self.senders, *self.readers]:
            while thread.is_alive():
                assert time.monotonic() < until, f"{thread} does not end"
                self.tend(0.1)
        self.tend(0)

    def report(self, lost, doubled):
        batches = sum(len(sender.acknowledged) for sender in self.senders)
        again = sum(sender.duplicates for sender in self.senders)
        doubts = sum(sender.doubts for sender in self.senders)
        seconds = time.monotonic() - self.began
        print(f"{batches} batches acknowledged, {again} of them when sent again after {doubts} "
              f"doubts; {self.tally.acknowledged} of {self.tally.sent} events acknowledged")
        answers, refusals, silences = map(sum, zip(*(
            (reader.answers, reader.refusals, reader.silences) for reader in self.readers)))
        counts = self.asked_twice()
        longest = max(reader.longest for reader in self.readers)
        print(f"{answers} counts by nodes, {refusals} refused, {silences} without an answer; "
              f"{json.dumps(counts)}, the longest of those at once took {longest:.1f} s")
        of_senders = sum((sender.reasons for sender in self.senders), collections.Counter())
        of_readers = sum((reader.reasons for reader in self.readers), collections.Counter())
        for name, reasons in (("batches", of_senders), ("counts", of_readers)):
            for told, count in reasons.most_common(6):
                print(f"{count} {name} were refused: {told}")
        print(f"longest seconds without an acknowledgement: {json.dumps(self.gaps())}")
        loads = ", ".join(f"{load:.0f}" for load in os.getloadavg())
        print(f"this program itself had to wait {self.latest:.2f} s; loads of the machine: {loads}")
        print(f"{self.options.acts} acts in {seconds:.0f} s: {json.dumps(self.counts)}; "
              f"{batches} batches acknowledged; lost {lost}, doubled {doubled}, "
              f"unseen {len(self.unseen())}", flush=True)

    def asked_twice(self):
        return sum((reader.counts for reader in self.readers), collections.Counter())

    def unseen(self):
        return [told for reader in self.readers for told in reader.unseen]

    def diagnose(self):
        """Prints the state at a failure, before all processes are ended."""
        print(f"failed at {self.clock()}, {self.told_act()}")
        for node in self.place.nodes:
            shards = sorted(node.servers().values())
            print(f"{node.name}: {node.state}, has {shards}: {json.dumps(node.status())}")
        self.report("unknown", "unknown")

    def run(self):
        self.place.start()
        self.settle()
        for thread in [*self.senders, *self.readers]:
            thread.start()
        self.tend(3)
        for _ in range(self.options.acts):
            if self.options.rolling:
                self.restart_next()
                continue
            self.act()
            self.tend(self.options.pace * self.draw.random())
            if self.draw.random() < self.options.settle:
                self.settle()
                self.tend(2)
        self.settle()
        self.tend(2)
        self.end_senders()
        self.check()

    def check(self):
        """Looks at everything that was sent, then prints the numbers."""
        self.settle()
        lost, doubled = self.count(self.place.pick(self.draw))
        wrong = self.check_totals()
        print(f"{self.clock()} lost {lost}, doubled {doubled}; batches are sent again", flush=True)
        wrong += self.send_again()
        self.settle()
        again = self.count(self.place.pick(self.draw))
        wrong += self.check_totals()
        print(f"{self.clock()} the rollups are verified", flush=True)
        wrong += self.verify()
        print(f"{self.clock()} the rollups were verified", flush=True)
        self.tend(0)
        wrong += [told for reader in self.readers for told in reader.wrong]
        self.report(lost, doubled)
        if lost or doubled or any(again):
            wrong.append(f"lost {lost}, doubled {doubled}; after all were sent again: {again}")
        wrong += [f"unseen: {told}" for told in self.unseen()]
        counts = self.asked_twice()
        if self.options.rolling and counts["not then"] > counts.total() / 1000:
            wrong.append(f"more than a thousandth is not answered after a second: {counts}")
        assert not wrong, "\n".join(["this is wrong:"] + wrong[:50])


class Peer(Server):
    """The server of a shard, which its node has started."""

    def __init__(self, port, shard):
        self.port, self.name = port, f"shard-{shard}"


def raise_exit(number, _frame):
    sys.exit(128 + number)


def run(options):
    """Runs once. Returns whether all is well."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="logmill-nodes-"))
    place = Place(options, folder)
    print(f"{options.nodes} nodes, {options.shards} shards, key {options.key}, lag {options.lag}, "
          f"seed {options.seed}, in {folder}", flush=True)
    of_all, failure = Run(options, place), None
    try:
        of_all.run()
    except BaseException as error:
        failure = error
        if isinstance(error, Exception):
            of_all.diagnose()
        print("\n".join(place.logs()))
        if not isinstance(error, AssertionError):
            traceback.print_exc(file=sys.stdout)
        print(f"FAILED: {error}\nkey {options.key}, seed {options.seed}; the directory is {folder}")
        if not isinstance(error, Exception):
            raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        place.kill()
    if failure is None and not options.keep:
        shutil.rmtree(folder)
    return failure is None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("logmill")
    parser.add_argument("tansu")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--shards", type=int, default=6)
    parser.add_argument("--key", default="host", choices=KEYS)
    parser.add_argument("--acts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--lag", default="2s")
    # Up to so many seconds between two acts.
    parser.add_argument("--pace", type=float, default=6.0)
    # The share of acts after which everything goes on until each shard has a server.
    parser.add_argument("--settle", type=float, default=0.3)
    parser.add_argument("--rolling", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    if options.nodes < 2 or options.shards < 2 or min(options.senders, options.readers) < 1:
        parser.error("two nodes, two shards, a sender and a reader are needed at least")
    options.logmill, options.tansu = map(os.path.abspath, (options.logmill, options.tansu))
    signal.signal(signal.SIGTERM, raise_exit)
    if not run(options):
        sys.exit(1)


if __name__ == "__main__":
    main()
