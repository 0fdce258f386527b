"""A store with its sealed files in an object store, beside one on the disk.

    python3 benches/objects.py PROGRAM [LINES]

PROGRAM is `target/release/logmill`; the Python has moto[server]. Prints the time of an import of an
access log into both, in alternating runs; and for some questions, asked of a reader without state
and without a cache, the bytes that came from the object store beside those that a server which has
just started reads on the disk, and the times of the first and of the second answer of both.
"""

import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

RUNS = 5
QUESTIONS = [
    "SELECT count(*) AS n FROM access",
    "SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY n DESC, path LIMIT 10",
    "SELECT time, path FROM access WHERE host = '192.0.3.7' ORDER BY time, path LIMIT 20",
    "SELECT host, count(*) AS n FROM access WHERE status = 404 GROUP BY host ORDER BY n DESC, host LIMIT 5",
    "SELECT bucket, sum(hits) AS n FROM stats.hourly GROUP BY bucket ORDER BY bucket",
]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class CountingProxy:
    """Passes connections on, and counts the bytes that come back."""

    def __init__(self, port):
        self.target, self.bytes = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self.copy, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(far, near, True), daemon=True).start()

    def copy(self, source, to, counts):
        try:
            while data := source.recv(1 << 18):
                if counts:
                    self.bytes += len(data)
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Server:
    def __init__(self, program, data, flags, environment):
        self.process = subprocess.Popen(
            [program, "serve", data, "--http", "127.0.0.1:0", "--postgres", "off", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, **environment),
            text=True,
        )
        line = self.process.stdout.readline()
        self.url = re.search(r"http://[^/]+", line).group(0)

    def ask(self, question):
        request = urllib.request.Request(self.url + "/api/v1/sql", data=question.encode(), method="POST")
        began = time.monotonic()
        with urllib.request.urlopen(request) as answer:
            told = json.load(answer)
        return told["rows"], told["stats"]["bytes_read"], 1000 * (time.monotonic() - began)

    def end(self):
        self.process.terminate()
        self.process.wait()


def write_log(path, lines):
    draw = random.Random(1)
    with open(path, "w") as file:
        for n in range(lines):
            host = "192.0.%d.%d" % divmod(min(int(draw.expovariate(0.005)), 2499), 250)
            page = min(int(draw.expovariate(0.03)), 2000)
            second = n * 600_000 // lines
            day, clock = 1 + second // 86400, second % 86400
            stamp = "%02d/May/2024:%02d:%02d:%02d +0000" % (day, clock // 3600, clock // 60 % 60, clock % 60)
            status = draw.choice([200, 200, 200, 200, 304, 404])
            file.write(
                f'{host} - - [{stamp}] "GET /page/{page} HTTP/1.1" {status} {draw.randrange(200, 90000)} "-" "Mozilla/5.0"\n'
            )


def imported(program, log, data, environment):
    began = time.monotonic()
    command = [program, "import", log, "--stream", "access", "--format", "combined", "--data", data]
    subprocess.run(command, env=dict(os.environ, **environment), check=True, capture_output=True)
    return time.monotonic() - began


def main():
    program, lines = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000
    folder = tempfile.mkdtemp()
    port = free_port()
    moto = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        measure(program, lines, folder, port)
    finally:
        moto.kill()
        moto.wait()


def measure(program, lines, folder, port):
    endpoint = f"http://127.0.0.1:{port}"
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(endpoint + "/logs", method="PUT"))
            break
        except OSError:
            time.sleep(0.1)
    environment = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }
    log = f"{folder}/access.log"
    write_log(log, lines)
    local, remote = [], []
    for run in range(RUNS):
        local.append(imported(program, log, f"{folder}/local-{run}", {}))
        there = dict(environment, LOGMILL_STORAGE__OBJECTS=f"s3://logs/store-{run}")
        remote.append(imported(program, log, f"{folder}/remote-{run}", there))
    at_disk, at_depot = statistics.median(local), statistics.median(remote)
    print(f"import of {lines:,} lines: disk {at_disk:.2f} s, object store {at_depot:.2f} s,", end=" ")
    print(f"{at_disk / at_depot:.2f} of the speed")
    proxy = CountingProxy(port)
    there = dict(environment, LOGMILL_STORAGE__OBJECTS="s3://logs/store-0")
    for data, variables in [("local-0", {}), ("remote-0", there)]:
        writer = Server(program, f"{folder}/{data}", [], variables)
        request = urllib.request.Request(writer.url + "/api/v1/rollups/run", data=b"", method="POST")
        urllib.request.urlopen(request).read()
        writer.end()
    for number, question in enumerate(QUESTIONS):
        # Both begin with nothing in memory.
        near = Server(program, f"{folder}/local-0", ["--read-only"], {})
        expected, read, cold = near.ask(question)
        _, _, warm = near.ask(question)
        near.end()
        through = dict(there, AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
        reader = Server(program, f"{folder}/cache-{number}", ["--reader"], through)
        # Start and manifest are not part of the question.
        time.sleep(0.3)
        before = proxy.bytes
        rows, _, first = reader.ask(question)
        came = proxy.bytes - before
        again, _, second = reader.ask(question)
        reader.end()
        assert rows == again == expected, question
        print(f"{question}\n  disk {read:,} bytes, object store {came:,} ({came / max(read, 1):.2f});", end="")
        print(f" first answer {cold:.0f} and {first:.0f} ms, second {warm:.0f} and {second:.0f} ms")


if __name__ == "__main__":
    main()
