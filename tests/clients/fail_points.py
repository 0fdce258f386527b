"""A proxy before a server of MongoDB's protocol that fails commands as a driver's test asks.

Drivers' tests configure `failCommand` and `onPrimaryTransactionalWrite`, fail points that servers of
MongoDB have for these tests alone. The proxy has them in the server's place: a command fails before
it reaches the server, or behind its effect. Everything else passes through it unchanged.
"""

import socket
import struct
import threading
import time

import bson

OP_QUERY, OP_REPLY, OP_MSG = 2004, 1, 2013
MORE_TO_COME = 1 << 1
# Errors behind which drivers repeat a write (retryable writes specification, RetryableWriteError).
RETRYABLE = {6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436}


class FailPoint:
    def __init__(self, name, mode, data):
        self.is_of_writes = name == "onPrimaryTransactionalWrite"
        self.data = data
        self.skips = mode.get("skip", 0) if isinstance(mode, dict) else 0
        # None: until it is switched off.
        self.times = mode.get("times") if isinstance(mode, dict) else None

    def names(self, command, application):
        """Returns whether this command of this application is meant."""
        if self.is_of_writes:
            return write_of(command) is not None
        wanted = self.data.get("appName")
        return next(iter(command)) in self.data["failCommands"] and wanted in (None, application)

    def take(self):
        """Returns whether it fails the next command that it names."""
        if self.skips > 0:
            self.skips -= 1
            return False
        if self.times is None:
            return True
        self.times -= 1
        return self.times >= 0


class FailPoints:
    """The proxy. `address` is where it listens; `refusals` are the errors of the server itself."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.lock = threading.Lock()
        self.points = {}
        self.refusals = []
        # Writes that the server has met: a repeated one does not meet the fail point of writes.
        self.writes = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, client):
        try:
            with client, socket.create_connection(self.target) as server:
                application = None
                while (message := read_message(client)) is not None:
                    command = command_of(message)
                    driver = command.get("client") or {}
                    application = driver.get("application", {}).get("name", application)
                    if not self.pass_on(message, command, application, client, server):
                        return
        except OSError:
            pass

    def pass_on(self, message, command, application, client, server):
        """Passes a command on, or fails it. Returns whether the connection goes on."""
        if "configureFailPoint" in command:
            self.configure(command)
            client.sendall(reply(message, {"ok": 1.0}))
            return True
        point = self.chosen(command, application)
        if "getParameter" in command:
            # The only parameter that a test asks for: whether there are fail points.
            answer = {"enableTestCommands": True, "authenticationMechanisms": [], "ok": 1.0}
            client.sendall(reply(message, answer))
            return True
        data = point.data if point else {}
        if data.get("blockConnection"):
            time.sleep(data["blockTimeMS"] / 1000)
        if point and point.is_of_writes:
            if "failBeforeCommitExceptionCode" not in data:
                self.forward(message, command, server)
            return False
        if data.get("closeConnection"):
            return False
        if "errorCode" in data:
            client.sendall(reply(message, failure(command, data)))
            return True
        if flags_of(message) & MORE_TO_COME:
            server.sendall(message)
            return True
        answer = self.forward(message, command, server)
        if "writeConcernError" in data:
            told = command_of(answer)
            told["writeConcernError"] = data["writeConcernError"]
            labels = labels_of(command, data, data["writeConcernError"]["code"])
            if labels:
                told["errorLabels"] = labels
            answer = reply(message, told)
        client.sendall(answer)
        return True

    def forward(self, message, command, server):
        """Returns the answer of the server, after a look at its errors."""
        server.sendall(message)
        with self.lock:
            self.writes.add(write_of(command))
        answer = read_message(server)
        if answer is None:
            raise ConnectionError("the server closed the connection")
        self.note(command, command_of(answer))
        return answer

    def configure(self, command):
        name, mode = command["configureFailPoint"], command["mode"]
        with self.lock:
            if mode == "off":
                self.points.pop(name, None)
            else:
                self.points[name] = FailPoint(name, mode, command.get("data", {}))

    def chosen(self, command, application):
        with self.lock:
            for point in self.points.values():
                if point.is_of_writes and write_of(command) in self.writes:
                    continue
                if point.names(command, application) and point.take():
                    return point
        return None

    def note(self, command, answer):
        errors = [answer] if not answer.get("ok") else answer.get("writeErrors", [])
        with self.lock:
            for error in errors:
                refusal = (next(iter(command)), error.get("code"), error.get("errmsg", ""))
                self.refusals.append(refusal)

    def begin(self):
        """Forgets what the last test left."""
        with self.lock:
            self.points.clear()
            self.refusals.clear()


def write_of(command):
    """Returns the identity of a write that a driver repeats; None of any other command."""
    if "txnNumber" not in command:
        return None
    return bytes(command["lsid"]["id"]), command["txnNumber"]


def failure(command, data):
    code = data["errorCode"]
    answer = {"ok": 0.0, "errmsg": "the fail point failCommand", "code": code, "codeName": str(code)}
    labels = labels_of(command, data, code)
    if labels:
        answer["errorLabels"] = labels
    return answer


def labels_of(command, data, code):
    if "errorLabels" in data:
        return data["errorLabels"]
    return ["RetryableWriteError"] if "txnNumber" in command and code in RETRYABLE else []


def read_message(connection):
    """Reads one message; None at the end of the connection."""
    head = read_exactly(connection, 16)
    if head is None:
        return None
    body = read_exactly(connection, struct.unpack_from("<i", head)[0] - 16)
    return None if body is None else head + body


def read_exactly(connection, count):
    parts = b""
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            return None
        parts += part
    return parts


def flags_of(message):
    opcode, flags = struct.unpack_from("<ii", message, 12)
    return flags if opcode == OP_MSG else 0


def command_of(message):
    """Returns the document of a command or an answer, without its document sequences."""
    (opcode,) = struct.unpack_from("<i", message, 12)
    if opcode == OP_MSG:
        at = 20
        while message[at] == 1:
            at += 1 + struct.unpack_from("<i", message, at + 1)[0]
        at += 1
    elif opcode == OP_QUERY:
        at = message.index(b"\0", 20) + 1 + 8
    else:
        at = 36
    (length,) = struct.unpack_from("<i", message, at)
    return bson.decode(message[at : at + length])


def reply(message, document):
    """Returns the message that answers a message."""
    asked, _, opcode = struct.unpack_from("<iii", message, 4)
    encoded = bson.encode(document)
    if opcode == OP_QUERY:
        body = struct.pack("<iqii", 8, 0, 0, 1) + encoded
        answered = OP_REPLY
    else:
        body = struct.pack("<iB", 0, 0) + encoded
        answered = OP_MSG
    return struct.pack("<iiii", 16 + len(body), 0, asked, answered) + body
