"""Kills rsyslog at random moments while it sends the lines of a file to a slow receiver, and starts
it again. Tells how often its queue was damaged, and the lines that never came.

    python tests/clients/rsyslog_queue.py disk|spilling|memory [--kills 20]
"""

import argparse
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

LINES = 20_000
# Nothing more comes after so many seconds of silence.
SILENCE_S = 4
QUEUES = {
    "disk": 'queue.type="Disk" queue.filename="logmill" queue.saveOnShutdown="on" queue.size="10000000"',
    "spilling": 'queue.type="LinkedList" queue.filename="logmill" queue.saveOnShutdown="on"',
    "memory": 'queue.type="LinkedList" queue.size="100000"',
}


class Receiver:
    """Reads connections more slowly than rsyslog reads its file."""

    def __init__(self):
        self.seen = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        rest = b""
        while True:
            try:
                read = connection.recv(65536)
            except OSError:
                return
            if not read:
                return
            time.sleep(0.002)
            rest += read
            self.seen.update(int(n) for n in re.findall(rb"number (\d+)\n", rest))
            rest = rest[-40:]


def start(folder):
    log = open(f"{folder}/log", "ab")
    command = ["rsyslogd", "-n", "-f", f"{folder}/conf", "-i", f"{folder}/pid"]
    return subprocess.Popen(command, stdout=log, stderr=log)


def killed_once(queue):
    """Returns the number of missing lines, and whether the log tells of a damaged queue."""
    folder, receiver = tempfile.mkdtemp(), Receiver()
    with open(f"{folder}/numbers", "w") as file:
        file.writelines(f"number {n}\n" for n in range(LINES))
    with open(f"{folder}/conf", "w") as file:
        file.write(
            f'''global(workDirectory="{folder}")
module(load="imfile")
input(type="imfile" File="{folder}/numbers" Tag="numbers:" addMetadata="off")
action(type="omfwd" target="127.0.0.1" port="{receiver.port}" protocol="tcp"
       action.resumeRetryCount="-1" action.resumeInterval="1" {QUEUES[queue]})
'''
        )
    running = start(folder)
    until = time.time() + 10
    while not receiver.seen and time.time() < until:
        time.sleep(0.002)
    time.sleep(random.random() / 4)
    running.kill()
    running.wait()
    running = start(folder)
    last, since = 0, time.time()
    while len(receiver.seen) < LINES and time.time() - since < SILENCE_S:
        if len(receiver.seen) != last:
            last, since = len(receiver.seen), time.time()
        time.sleep(0.02)
    running.kill()
    running.wait()
    receiver.listener.close()
    with open(f"{folder}/log") as file:
        log = file.read()
    shutil.rmtree(folder)
    return LINES - len(receiver.seen), "dequeueing" in log or "invalid .qi" in log


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("queue", choices=QUEUES)
    parser.add_argument("--kills", type=int, default=20)
    asked = parser.parse_args()
    results = [killed_once(asked.queue) for _ in range(asked.kills)]
    damaged = sum(is_damaged for _, is_damaged in results)
    most = max(missing for missing, _ in results)
    print(f"{asked.queue}: {damaged} of {asked.kills} kills damaged the queue; up to {most} lines missing")


if __name__ == "__main__":
    main()
