"""Two programs beside each other on one log: an import, questions, and acknowledgements over HTTP.

    python3 benches/versions.py BEFORE AFTER LOG [--times 10] [--only imports|questions]

Each round imports LOG, an access log of some hundred thousand lines, into a new store with each
program, and serves both stores. The programs take turns, the one that begins with it too. Prints
medians of the rounds, and the median and the range of the ratios within a round: those say more
than the times on a machine that is not quiet. Answers must be equal. With --only questions the
stores of the first round are asked in all.
"""

import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

QUESTIONS = {
    "count": "SELECT count(*) AS n FROM access",
    "ten rows of a host": "SELECT time, path, status FROM access WHERE host = '{host}' "
                          "ORDER BY time DESC, path LIMIT 10",
    "a level by day": "SELECT bucket, sum(hits) AS n FROM stats.daily GROUP BY bucket ORDER BY bucket",
    "by path": "SELECT path, count(*) AS n, sum(response_size) AS s FROM access WHERE status >= 200 "
               "GROUP BY path ORDER BY n DESC, path LIMIT 20",
    "bytes by host": "SELECT host, avg(response_size + length(path)) AS a FROM access GROUP BY host "
                     "ORDER BY host LIMIT 20",
    "distinct": "SELECT count(DISTINCT host || path) AS n FROM access",
    "like": "SELECT count(*) AS n FROM access WHERE path LIKE '%cmd.exe%' AND status = 404",
}
ASKED = 20
BATCH = 1000
BATCHES = 100


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Version:
    """A program with its store."""

    def __init__(self, program, data):
        self.program, self.data = os.path.abspath(program), data

    def import_log(self, log):
        """Returns the seconds of an import into a new store, and those of processors."""
        shutil.rmtree(self.data, ignore_errors=True)
        began = time.monotonic()
        command = [self.program, "import", "--stream", "access", "--data", self.data, log]
        quiet = {"stdout": subprocess.DEVNULL, "cwd": os.path.dirname(self.data)}
        process = subprocess.Popen(command, **quiet)
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0, command
        return time.monotonic() - began, used.ru_utime + used.ru_stime

    def serve(self):
        port = free_port()
        command = [self.program, "serve", self.data, "--http", f"127.0.0.1:{port}", "--postgres", "off"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=os.path.dirname(self.data), **quiet)
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < until, f"{self.program} does not start"
                time.sleep(0.05)
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def post(self, path, body):
        """Returns the milliseconds to the end of the answer, and its text."""
        began = time.perf_counter()
        self.connection.request("POST", path, body)
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return (time.perf_counter() - began) * 1000, text


def in_turns(versions, times, work):
    """Does some work with each version in turn. Returns the median of what it returns."""
    found = [[] for _ in versions]
    for turn in range(times):
        order = range(len(versions)) if turn % 2 == 0 else reversed(range(len(versions)))
        for nth in order:
            found[nth].append(work(versions[nth], turn))
    return [statistics.median(of) for of in found]


def asked(versions, question):
    rows = {}

    def ask(version, _turn):
        took, text = version.post("/api/v1/sql", question.encode())
        rows[version.data] = json.loads(text)["rows"]
        return took

    in_turns(versions, 3, ask)
    times = in_turns(versions, ASKED, ask)
    first, *others = rows.values()
    assert all(other == first for other in others), f"{question}: {rows}"
    return times


def one_round(versions, options, is_first, batches, note):
    if is_first or options.only != "questions":
        took = [version.import_log(options.log) for version in versions]
        note("import, s", [wall for wall, _ in took])
        note("import, s of processors", [used for _, used in took])
    if options.only == "imports":
        return
    try:
        for version in versions:
            version.serve()
        time.sleep(1)
        host = batches[0].split(None, 1)[0].decode()
        for name, question in QUESTIONS.items():
            note(f"{name}, ms", asked(versions, question.format(host=host)))
        path = "/api/v1/ingest/access"
        note(f"{BATCH} lines acknowledged, ms",
             in_turns(versions, BATCHES, lambda version, turn: version.post(path, batches[turn % len(batches)])[0]))
    finally:
        for version in versions:
            version.process.terminate()
            version.process.wait(60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("log", type=os.path.abspath)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--only", choices=["imports", "questions"])
    options = parser.parse_args()
    with open(options.log, "rb") as file:
        lines = [line for _, line in zip(range(BATCH * 20), file)]
    batches = [b"".join(lines[at:at + BATCH]) for at in range(0, len(lines) - BATCH + 1, BATCH)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        programs = (options.before, options.after)
        versions = [Version(program, f"{folder}/{nth}") for nth, program in enumerate(programs)]
        for nth in range(options.times):
            turn = 1 if nth % 2 == 0 else -1

            def note(name, pair, turn=turn):
                found.setdefault(name, []).append(pair[::turn])

            one_round(versions[::turn], options, nth == 0, batches, note)
            print(f"round {nth + 1} of {options.times}", flush=True)
    for name, pairs in found.items():
        before, after = (statistics.median(side) for side in zip(*pairs))
        ratios = [after / before for before, after in pairs]
        print(f"{name}: {before:.2f} and {after:.2f}; ratio {statistics.median(ratios):.3f}, "
              f"from {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
