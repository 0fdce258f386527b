"""CPU time of `logmill serve` for an event that comes over HTTP in bodies of 1,000 lines.

    python3 benches/http_ingest.py target/release/logmill LOG [BODIES]

LOG is an access log in the combined format. Its lines are sent as they are and as NDJSON, over four
connections, with w=1 and with j=true. The figures are the kernel's account of the server's
processor time: until the last acknowledgement, and until all is sealed and in the rollups too.
"""

import datetime
import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time

LINE = re.compile(
    r'^(\S+) \S+ (\S+) \[([^\]]+)\] "(\S+) (\S+)(?: [^"]*)?" (\d+) (\S+) "([^"]*)" "(.*)"$'
)
SENDERS = 4


def as_json(number, line):
    """Returns the fields of a line as an object, None for a line of another form."""
    match = LINE.match(line)
    if match is None:
        return None
    host, user, stamp, method, path, status, size, referrer, agent = match.groups()
    at = datetime.datetime.strptime(stamp, "%d/%b/%Y:%H:%M:%S %z").isoformat()
    fields = {
        "time": at,
        "host": host,
        "user": user,
        "method": method,
        "path": path,
        "status": int(status),
        "size": 0 if size == "-" else int(size),
        "referrer": referrer,
        "user_agent": agent,
        "number": number,
    }
    return json.dumps(fields)


def cpu_s(process):
    """Returns the processor time of a process, in seconds."""
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Server:
    """A server with a store of its own, until it is left."""

    def __init__(self, program):
        self.program = program

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        args = [self.program, "serve", self.folder.name, "--http", "127.0.0.1:0", "--postgres", "off"]
        self.process = subprocess.Popen(
            args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.address = self.process.stdout.readline().rsplit("http://", 1)[1].strip().rstrip("/")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def send(self, to, bodies, number, waits):
        """Sends bodies in turn, and adds the time of each answer."""
        connection = http.client.HTTPConnection(self.address)
        for nth in range(number):
            began = time.monotonic()
            connection.request("POST", to, body=bodies[nth % len(bodies)])
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            waits.append(time.monotonic() - began)


def measure(program, name, to, bodies, number):
    """Prints the figures of one way."""
    with Server(program) as server:
        waits, each = [], number // SENDERS
        before, began = cpu_s(server.process), time.monotonic()
        senders = [
            threading.Thread(target=server.send, args=(to, bodies, each, waits))
            for _ in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        took, stored = time.monotonic() - began, cpu_s(server.process)
        connection = http.client.HTTPConnection(server.address)
        connection.request("POST", "/api/v1/rollups/run")
        connection.getresponse().read()
        sealed = cpu_s(server.process)
    events = each * SENDERS * 1000
    waits.sort()
    p50, p99 = (waits[int(len(waits) * share)] * 1000 for share in (0.5, 0.99))
    stored_us, sealed_us = ((after - before) / events * 1e6 for after in (stored, sealed))
    print(
        f"| {name} | {events / took / 1000:.0f} | {stored_us:.2f} | {sealed_us:.2f} "
        f"| {p50:.1f} | {p99:.1f} |"
    )


def main():
    """Measures both forms under both concerns."""
    program, log = sys.argv[1:3]
    number = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.rstrip("\n") for line in file]
    pairs = [(line, as_json(number, line)) for number, line in enumerate(lines)]
    pairs = [pair for pair in pairs if pair[1] is not None]
    print("| body | thousand events/s | CPU µs/event | with seal and rollups | p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|")
    for nth, form in enumerate(["combined", "json"]):
        items = [pair[nth] for pair in pairs]
        bodies = [
            "\n".join(items[at : at + 1000]).encode() for at in range(0, len(items) - 999, 1000)
        ]
        for concern in ["w=1", "w=1&j=true"]:
            to = f"/api/v1/ingest/access?format={form}&{concern}"
            measure(program, f"`{form}`, {concern}", to, bodies, number)


main()
