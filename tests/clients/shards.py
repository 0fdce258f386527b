"""A stream divided over several servers: its answers beside those of one store, and its faults.

    python shards.py LOGMILL --shards 3 --key all --questions 5000 --seed 1
    python shards.py LOGMILL --shards 3 --key "path + hash" --acts 300 --seed 1
    python shards.py --print-questions 20

Without --acts, the same requests go in the same order to one store and to the cluster, whose
servers take them in turn. Then random questions (shards_questions.py) are asked of both, a quarter
of them in each state: while all events are in memory, when a part of them is sealed, when all are,
and after each server has started again. --data DIR sends the files *.log and *.log.gz below DIR,
too: 200,000 lines of each at most.

With --acts, four senders send lines through random servers while servers are killed, stopped for a
while, or ended and started again. A batch is sent again, with its key or its producer's range,
until it is acknowledged. In the end each line must be there once, and the rollups of each server
must be what a recount gives.

With --key all, each key has a run of its own with so many questions or acts. After a failure the
directory stays, and its path is printed.
"""

import argparse
import concurrent.futures
import gzip
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request

from shards_questions import SITES, Events, Questions, difference, whole_tables

KEYS = ["batch", "host", "site, path", "path + hash", "path + hash if hot", "time"]
SENDERS = 4
# The time for a batch to be acknowledged, whatever happens meanwhile.
BATCH_S = 180
# Errors of DataFusion that depend on the plan, which is another one over several stores.
ONE_SIDED = ["Selectivity is out of limit", "eliminate_group_by_constant"]
ONE_SIDED += ["Physical plan does not support logical expression"]
# One that takes a minute on a busy machine may take less over several stores, or more.
ONE_SIDED += ["the query took more than"]
EQUAL, EMPTY = "equal", "equal without a row"
REFUSED, REFUSED_BY_ONE = "refused alike", "refused by one"
# Errors of a request whose server is killed or stopped.
BROKEN = (OSError, http.client.HTTPException, ValueError)


def free_ports(count):
    """Returns ports below those of outgoing connections, which would take them from a server that
    is down for a moment."""
    ports = set()
    for port in random.SystemRandom().sample(range(20_000, 32_000), 2_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
            ports.add(port)
        except OSError:
            continue
        if len(ports) == count:
            return sorted(ports)
    raise AssertionError("there are no free ports from 20000 to 32000")


class Server:
    def __init__(self, program, folder, name, port, environment, config):
        self.name, self.port, self.environment = name, port, environment
        self.log = folder / f"{name}.log"
        self.command = [program, "--config", str(config), "serve", str(folder / name)]
        self.command += ["--http", f"127.0.0.1:{port}", "--postgres", "off"]
        self.process = None

    def spawn(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=subprocess.DEVNULL, stderr=log)

    def wait(self, seconds=90):
        """Waits until the server answers. One that finds its port taken is started again."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            code = self.process.poll()
            if code is not None:
                told = self.log.read_text(errors="replace")[-2000:].lower()
                assert "in use" in told, f"{self.name} ended at its start, status {code}"
                time.sleep(0.5)
                self.spawn()
            try:
                if self.call("/ready", seconds=5)[0] == 200:
                    return
            except BROKEN:
                pass
            time.sleep(0.05)
        raise AssertionError(f"{self.name} was not ready within {seconds} s")

    def call(self, path, body=None, headers=None, seconds=120):
        """Returns the status and the body of an answer, as JSON where it is JSON."""
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data=body, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    def ask(self, question):
        """Returns the status and the answer of a question. A server that has no place for it, or a
        peer that is late on a loaded machine, is asked again."""
        for attempt in range(8):
            status, told = self.call("/api/v1/sql", question.encode())
            if status not in (429, 503):
                break
            time.sleep(0.2 * (attempt + 1))
        return status, told

    def rows(self, question):
        status, told = self.ask(question)
        assert status == 200, f"{self.name}: {question}: {status} {told}"
        return told["rows"]

    def seal(self):
        status, told = self.call("/api/v1/rollups/run", b"")
        assert status == 200, f"{self.name}: sealing: {status} {told}"

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        if self.process:
            self.process.wait(60)

    def end(self):
        self.process.terminate()
        code = self.process.wait(120)
        assert code == 0, f"{self.name} ended with status {code} after SIGTERM"


class Place:
    """The servers of a run: one for each shard, and one alone where answers are compared."""

    def __init__(self, options, key, folder, is_alone, lag):
        self.folder = folder
        own = {name: text for name, text in os.environ.items() if not name.startswith("LOGMILL_")}
        own["LOGMILL_STORAGE__LAG"] = lag
        divided = f"shard_key = {json.dumps(key)}\n"
        divided += 'hot_values = ["/"]\n' if key.endswith("if hot") else ""
        config = f"[stream.access]\n{divided}[stream.docs]\n{divided}"
        (folder / "cluster.toml").write_text(config)
        (folder / "alone.toml").write_text("")
        ports = free_ports(options.shards + 1)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.shards = []
        for n in range(options.shards):
            others = urls[:n] + urls[n + 1 : options.shards]
            environment = dict(
                own,
                LOGMILL_CLUSTER__SHARDS=str(options.shards),
                LOGMILL_CLUSTER__SHARD=str(n),
                LOGMILL_CLUSTER__PEERS=json.dumps(others))
            config = folder / "cluster.toml"
            server = Server(options.logmill, folder, f"shard-{n}", ports[n], environment, config)
            self.shards.append(server)
        alone = Server(options.logmill, folder, "alone", ports[-1], own, folder / "alone.toml")
        self.alone = alone if is_alone else None
        self.servers = self.shards + ([alone] if is_alone else [])

    def start(self):
        for server in self.servers:
            server.spawn()
        for server in self.servers:
            server.wait()

    def restart(self):
        for server in self.servers:
            server.end()
            server.spawn()
            server.wait()

    def seal(self):
        for server in self.servers:
            server.seal()

    def kill(self):
        for server in self.servers:
            server.kill()

    def logs(self):
        for server in self.servers:
            text = server.log.read_text(errors="replace") if server.log.exists() else ""
            yield "\n".join([f"--- {server.log}"] + text.splitlines()[-15:])


def checked_parts(told, shards):
    """Returns the number of lines that an answer has taken, after a look at its parts."""
    count = told["accepted"] + told["quarantined"]
    parts = told.get("parts") or []
    numbers = [part["shard"] for part in parts]
    assert len(set(numbers)) == len(numbers) and set(numbers) <= set(range(shards)), told
    spans = [(part["first_seq"], part["last_seq"]) for part in parts]
    if spans and all(None not in span for span in spans):
        assert sum(last - first + 1 for first, last in spans) == count, told
    return count


class Equality:
    """The same events in one store and in a cluster, and the same questions of both."""

    def __init__(self, options, key, place):
        self.options, self.place = options, place
        self.draw = random.Random(f"{options.seed} {key}")
        self.events = Events(self.draw)
        self.questions = Questions(self.draw, self.events)
        self.counts = dict.fromkeys([EQUAL, EMPTY, REFUSED, REFUSED_BY_ONE], 0)
        self.asked = self.sent = 0
        self.refusal = None

    def deliver(self, servers, request, key):
        """Sends a request, again while its outcome is unknown. Returns the part of the answer that
        does not depend on the store, and whether all of it was known before this call."""
        stream, parameters, body = request
        path = f"/api/v1/ingest/{stream}?{urllib.parse.urlencode(parameters)}"
        until = time.monotonic() + BATCH_S
        for nth in itertools.count():
            server = servers[nth % len(servers)]
            status, told = server.call(path, body, {"Idempotency-Key": key})
            if status not in (429, 503):
                break
            assert time.monotonic() < until, f"{server.name}: {key}: {status} {told}"
            time.sleep(0.1)
        assert status in (200, 400), f"{server.name}: {path}: {status} {told}"
        count = checked_parts(told, self.options.shards) if "accepted" in told else 0
        names = ["accepted", "quarantined", "quarantined_by_reason", "empty", "errors"]
        answer = [status] + [told.get(name) for name in names + ["errors_omitted"]]
        # Of a second attempt nobody knows how much the first one has stored.
        return answer, told["duplicate"] if count and not nth else None

    def send(self, requests):
        shards = self.place.shards
        for request in requests:
            self.sent += 1
            first = self.sent % len(shards)
            servers = shards[first:] + shards[:first]
            # Now and then a request comes twice, the second time by way of another server.
            for again in range(2 if self.draw.random() < 0.03 else 1):
                key = f"request-{self.sent}"
                mine, was_known = self.deliver([self.place.alone], request, key)
                others = servers[again:] + servers[:again]
                theirs, is_known = self.deliver(others, request, key)
                told = f"{key} to {request[0]}: {mine}, of the cluster {theirs}"
                assert mine == theirs, told
                told = f"{told}; duplicates: {was_known}, of the cluster {is_known}"
                assert None in (was_known, is_known) or was_known == is_known, told

    def files(self):
        """Yields requests with the lines of real logs."""
        paths = sorted(pathlib.Path(self.options.data).rglob("*"))
        paths = [path for path in paths if path.name.endswith((".log", ".log.gz"))]
        assert paths, f"{self.options.data}: there is no *.log or *.log.gz"
        for path in paths:
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
                lines = itertools.islice(file, 200_000)
                while batch := list(itertools.islice(lines, 2_000)):
                    yield "access", {}, b"".join(batch)

    def learn(self):
        """Lets questions name values of real logs, and their times."""
        ask, words = self.place.alone.rows, self.questions.words
        for column in ("host", "path", "user_agent", "referrer", "query", "protocol", "method"):
            sql = f"SELECT {column} AS c FROM access WHERE length({column}) < 300"
            rows = ask(f"{sql} GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 30")
            words[column] = words[column] + [row["c"] for row in rows]
        sql = "SELECT DISTINCT date_trunc('hour', time) AS c FROM access ORDER BY 1 LIMIT 5000"
        times = [row["c"] for row in ask(sql)]
        self.questions.times += self.draw.sample(times, min(len(times), 100))

    def ask(self, state, count):
        """Asks whole tables and random questions. The first that differs ends the run."""
        asked = whole_tables() + [self.questions.question() for _ in range(count)]
        shards = itertools.cycle(self.place.shards)
        jobs = [(sql, is_ordered, next(shards)) for sql, is_ordered in asked]
        self.asked += count
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for job, (kind, detail) in zip(jobs, pool.map(self.compare, jobs)):
                sql, _, shard = job
                if kind not in self.counts:
                    pool.shutdown(wait=False, cancel_futures=True)
                    about = f"seed {self.options.seed}, {state}, asked of {shard.name}"
                    raise AssertionError(f"{about}:\n{sql}\n{detail}")
                self.counts[kind] += 1
                if detail and not self.refusal:
                    self.refusal = f"{sql}\n  {detail[:300]}"
        sql = "SELECT count(*) AS n FROM system.quarantine"
        kept = self.place.alone.rows(sql)[0]["n"]
        for server in self.place.shards:
            theirs = server.rows(sql)[0]["n"]
            assert kept == theirs, f"{state}: {kept} lines in quarantine, of the cluster {theirs}"

    def compare(self, job):
        """Returns the outcome of a question, and its detail."""
        sql, is_ordered, shard = job
        try:
            status, ours = self.place.alone.ask(sql)
            their_status, theirs = shard.ask(sql)
        except BROKEN as error:
            return "broken", repr(error)
        statuses = (status, their_status)
        if statuses == (200, 200):
            found = difference(ours, theirs, is_ordered)
            if found is None:
                return (EQUAL if ours["rows"] else EMPTY), None
        elif 200 not in statuses and 503 not in statuses:
            return REFUSED, str(ours)
        else:
            found = f"status {status}, of the cluster {their_status}"
            refusal = str(theirs if status == 200 else ours)
            if any(error in refusal for error in ONE_SIDED):
                return REFUSED_BY_ONE, refusal
        short = [json.dumps(told)[:3000] for told in (ours, theirs)]
        return "different", f"{found}\nanswer: {short[0]}\nof the cluster: {short[1]}"

    def run(self):
        began = time.monotonic()
        self.place.start()
        requests = self.events.requests(self.options.lines)
        if self.options.data:
            requests += self.files()
        part, cut = self.options.questions // 4, max(len(requests) * 2 // 5, 2)
        self.send(requests[:cut])
        self.ask("in memory", part)
        self.place.seal()
        self.send(requests[cut:])
        if self.options.data:
            self.learn()
        self.ask("sealed and in memory", part)
        self.place.seal()
        self.ask("sealed", part)
        self.place.restart()
        self.ask("started again", self.options.questions - 3 * part)
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        whole = sum(self.counts.values()) - self.asked
        print(f"{len(requests)} requests; {self.asked} questions, and {whole} of whole tables: "
              f"{counts}; {time.monotonic() - began:.0f} s")
        if self.refusal:
            print(f"the first that was refused: {self.refusal}")
        # A grammar that is refused finds nothing.
        refused = self.counts[REFUSED] + self.counts[REFUSED_BY_ONE]
        assert refused * 10 <= sum(self.counts.values()), f"{refused} questions were refused"


class Sender(threading.Thread):
    """Sends one batch after the other, each until it is acknowledged: by keys, or as a producer."""

    def __init__(self, number, run):
        super().__init__(daemon=True)
        self.number, self.run_of, self.is_producer = number, run, number % 2 == 1
        self.draw = random.Random(f"{run.options.seed} sender {number}")
        self.events = Events(self.draw)
        self.lines, self.acknowledged = [], []
        self.doubts = self.duplicates = 0
        self.offset, self.content = 0, hashlib.blake2b(digest_size=8)
        self.failure = None

    def run(self):
        try:
            while not self.run_of.stopping.is_set():
                self.send(self.batch())
                time.sleep(0.1 * self.draw.random())
        except Exception as error:
            self.failure = f"sender {self.number}: {error}\n{traceback.format_exc()}"

    def batch(self):
        """Makes the next batch. The size of a line is the number of its batch, and its user agent
        its own name."""
        batch, user = len(self.lines), f"s{self.number}"
        count = self.draw.randint(1, self.draw.choice([1, 20, 100, 300]))
        names = [f"{self.number}-{batch}-{n}" for n in range(count)]
        lines = [self.events.line(self.draw.random(), user, batch, name) for name in names]
        self.lines.append(count)
        body = "".join(line + "\n" for line in lines).encode()
        parameters, headers = {"format": "combined", "site": self.draw.choice(SITES)}, {}
        if self.is_producer:
            self.content.update(body)
            parameters["producer"] = f"shards-{self.number}"
            parameters["from"], parameters["to"] = self.offset, self.offset + len(body)
            parameters["content"] = int.from_bytes(self.content.digest(), "big")
            self.offset += len(body)
        else:
            headers["Idempotency-Key"] = f"{self.number}-{batch}"
        return f"/api/v1/ingest/access?{urllib.parse.urlencode(parameters)}", body, headers

    def send(self, batch):
        until, last = time.monotonic() + BATCH_S, None
        number = len(self.lines) - 1
        while time.monotonic() < until:
            server = self.draw.choice(self.run_of.place.shards)
            try:
                # A short wait leaves requests behind whose outcome nobody reads.
                status, told = server.call(*batch, seconds=self.draw.choice([1, 5, 20]))
                last = f"{server.name}: {status} {told}"
                if status == 200:
                    taken = checked_parts(told, self.run_of.options.shards)
                    count = self.lines[number]
                    assert taken == told["accepted"] == count, f"of {count} lines: {last}"
                    self.acknowledged.append(number)
                    self.duplicates += bool(told["duplicate"])
                    return
                assert status in (429, 503, 504), f"batch {number}: {last}"
            except BROKEN as error:
                last = f"{server.name}: {error!r}"
            self.doubts += 1
            time.sleep(0.05 + 0.2 * self.draw.random())
        raise AssertionError(f"batch {number} was not acknowledged within {BATCH_S} s; last {last}")


class Faults:
    def __init__(self, options, key, place):
        self.options, self.place = options, place
        self.draw = random.Random(f"{options.seed} {key}")
        self.stopping = threading.Event()
        self.counts = {"kill": 0, "stop": 0, "terminate": 0}
        self.senders = [Sender(number, self) for number in range(SENDERS)]

    def act(self):
        kind = self.draw.choice(list(self.counts))
        # Now and then two are away at once.
        count = 2 if kind == "kill" and self.draw.random() < 0.25 else 1
        servers = self.draw.sample(self.place.shards, min(count, len(self.place.shards)))
        self.counts[kind] += len(servers)
        if kind == "stop":
            servers[0].process.send_signal(signal.SIGSTOP)
            time.sleep(self.draw.uniform(0.1, 3))
            servers[0].process.send_signal(signal.SIGCONT)
            return
        for server in servers:
            server.kill() if kind == "kill" else server.end()
        time.sleep(self.draw.random() * self.draw.choice([0, 0.3, 2]))
        for server in servers:
            server.spawn()
        for server in servers:
            server.wait()

    def watch(self):
        for server in self.place.servers:
            code = server.process.poll()
            assert code is None, f"{server.name} ended by itself, status {code}"
        for sender in self.senders:
            assert sender.failure is None, sender.failure

    def check(self, gateway):
        """Returns the numbers of lines: lost, there more than once, and there."""
        lost = doubled = total = 0
        for sender in self.senders:
            # Pages, because an answer has a limit of rows.
            for first in range(0, len(sender.lines), 500):
                last = min(first + 500, len(sender.lines))
                rows = gateway.rows(
                    "SELECT user_agent AS line, count(*) AS n FROM access "
                    f"WHERE \"user\" = 's{sender.number}' AND response_size >= {first} "
                    f"AND response_size < {last} GROUP BY 1")
                there = {row["line"]: row["n"] for row in rows}
                sent = {batch: [f"{sender.number}-{batch}-{n}" for n in range(sender.lines[batch])]
                        for batch in range(first, last)}
                strange = there.keys() - set(itertools.chain.from_iterable(sent.values()))
                assert not strange, f"lines that nobody sent: {sorted(strange)[:5]}"
                acknowledged = set(sender.acknowledged)
                for batch, lines in sent.items():
                    lost += batch in acknowledged and sum(line not in there for line in lines)
                doubled += sum(count - 1 for count in there.values())
                total += sum(there.values())
        for server in self.place.shards:
            counted = server.rows("SELECT count(*) AS n FROM access")[0]["n"]
            in_cells = server.rows("SELECT sum(hits) AS n FROM stats.hourly")[0]["n"]
            told = f"{server.name} counts {counted}, its rollup {in_cells}; there are {total}"
            assert counted == in_cells == total, told
        return lost, doubled, total

    def verify(self):
        """Compares the rollups of each server with a recount of its own events."""
        for server in self.place.shards:
            own = "SELECT count(*) AS n FROM system.streams WHERE name = 'access' AND server = 'this server'"
            own = server.rows(own)[0]["n"]
            for name in ("stats", "traffic"):
                status, told = server.call(f"/api/v1/rollups/{name}/verify", b"", seconds=300)
                if status == 404 and not own:
                    print(f"{server.name} has no events, and no rollup {name}")
                    continue
                assert status == 200, f"{server.name}: verifying {name}: {status} {told}"
                wrong = sum(level["differences"] for level in told["levels"])
                wrong += told["questions"]["differences"]
                assert not wrong, f"{server.name}: {name} differs: {json.dumps(told)[:3000]}"
            _, metrics = server.call("/metrics")
            told = f"{server.name}: a rollup differs"
            assert "\nlogmill_rollup_mismatch_total 0\n" in metrics, told

    def run(self):
        began = time.monotonic()
        self.place.start()
        for sender in self.senders:
            sender.start()
        for act in range(self.options.acts):
            time.sleep(0.5 * self.draw.random())
            self.watch()
            self.act()
            if act % 50 == 49:
                print(f"{act + 1} acts in {time.monotonic() - began:.0f} s", flush=True)
        time.sleep(1)
        self.stopping.set()
        until = time.monotonic() + BATCH_S + 60
        for sender in self.senders:
            sender.join(max(until - time.monotonic(), 1))
            assert not sender.is_alive(), f"sender {sender.number} does not end"
        self.watch()
        found = [self.check(self.draw.choice(self.place.shards))]
        self.place.seal()
        self.verify()
        self.place.restart()
        found.append(self.check(self.draw.choice(self.place.shards)))
        lost, doubled, total = found[0]
        batches = sum(len(sender.acknowledged) for sender in self.senders)
        again = sum(sender.duplicates for sender in self.senders)
        doubts = sum(sender.doubts for sender in self.senders)
        acts, seconds = json.dumps(self.counts), time.monotonic() - began
        print(f"{self.options.acts} acts in {seconds:.0f} s: {acts}")
        print(f"{batches} batches acknowledged, {again} of them when sent again after "
              f"{doubts} doubts; {total} lines there")
        print(f"lost {lost}, doubled {doubled}")
        assert not any(lost or doubled for lost, doubled, _ in found), f"lost, doubled: {found}"


def run(options, key):
    """Runs with one key. Returns whether all is well."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="logmill-shards-"))
    is_faulty = options.acts > 0
    place = Place(options, key, folder, not is_faulty, "2s" if is_faulty else "1h")
    print(f"key {key}, {options.shards} shards, seed {options.seed}", flush=True)
    try:
        (Faults if is_faulty else Equality)(options, key, place).run()
    except BaseException as error:
        place.kill()
        print("\n".join(place.logs()))
        if not isinstance(error, AssertionError):
            traceback.print_exc(file=sys.stdout)
        print(f"FAILED: {error}\nkey {key}, seed {options.seed}; the directory is {folder}")
        if not isinstance(error, Exception):
            raise
        return False
    place.kill()
    shutil.rmtree(folder)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("logmill", nargs="?")
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--key", default="path + hash", choices=KEYS + ["all"])
    parser.add_argument("--questions", type=int, default=5000)
    parser.add_argument("--acts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=60_000)
    parser.add_argument("--data")
    parser.add_argument("--print-questions", type=int, default=0)
    options = parser.parse_args()
    if options.print_questions:
        draw = random.Random(options.seed)
        questions = Questions(draw, Events(draw))
        for _ in range(options.print_questions):
            print(questions.question()[0])
        return
    if not options.logmill or options.shards < 2:
        parser.error("name the program, and at least two shards")
    options.logmill = os.path.abspath(options.logmill)
    for key in KEYS if options.key == "all" else [options.key]:
        if not run(options, key):
            sys.exit(1)


if __name__ == "__main__":
    main()
