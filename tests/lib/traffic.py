# SPDX-License-Identifier: Apache-2.0
"""A client process of the long tests: python traffic.py MODE DEVICE HOST PORT [ARGUMENT...]

    checked CLIENTS WARM COUNT   CLIENTS at once, each WARM transfers, a stop, COUNT more
    library CLIENTS WARM COUNT   the same by libminiocpp's own interface
    until                        checked transfers until standard input ends
    victim METHOD SIZE TARGET    one transfer after the other, for ever or until input ends
    freeze COUNT SIZE TARGET     COUNT GETs at once, and stops itself while they are under way

What it has to say are JSON lines on standard output. It ends with 0 and lists what was wrong."""
import ctypes
import functools
import json
import os
import random
import signal
import statistics
import sys
import threading
import time

import daemon
import library
import rdma
import s3raw

MIB = 1 << 20
# The checked clients wait this long, however short the server's own deadline for the others is:
# what they find is what was wrong, not how busy the machine was.
PATIENCE_MS = 20000 * daemon.SLOWER
POOL = random.Random(20260102).randbytes(16 * MIB)


def say(**what):
    print(json.dumps(what), flush=True)


def self_usage():
    with open("/proc/self/statm", encoding="ascii") as f:
        resident = int(f.read().split()[1]) * rdma.PAGE
    # Once connections that the other side ended are closed here too.
    descriptors = min(len(os.listdir("/proc/self/fd")) for _ in range(20) if not time.sleep(0.02))
    return {"descriptors": descriptors, "resident": resident}


def server(host, port):
    return s3raw.S3((host, int(port)), daemon.USER, daemon.SECRET, timeout=30 * daemon.SLOWER)


def random_size(rng):
    return rng.choice((0, rng.randrange(8 * MIB + 1), rng.randrange(65536), rng.randrange(MIB)))


class Checked:
    """PUTs and GETs of its own keys by RDMA, each checked to the byte."""

    def __init__(self, seed, size):
        self.rng, self.name, self.have = random.Random(seed), f"client-{seed}", {}
        self.ops, self.errors, self.times, self.limit = 0, [], [], size

    def step(self):
        key = f"/traffic/{self.name}-{self.rng.randrange(4)}"
        is_put = key not in self.have or self.rng.random() < 0.5
        begin = time.monotonic()
        wrong = self.put(key) if is_put else self.get(key)
        self.times.append(time.monotonic() - begin)
        self.ops += 1
        if wrong:
            self.errors.append(f"{'put' if is_put else 'get'} {key}: {wrong}")

    def put(self, key):
        size = min(random_size(self.rng), self.limit)
        start = self.rng.randrange(len(POOL) - size + 1)
        wrong = self.send(key, POOL[start:start + size])
        if not wrong:
            self.have[key] = (start, size)
        return wrong

    def get(self, key):
        start, size = self.have[key]
        return self.receive(key, POOL[start:start + size])

    def run(self, count):
        for _ in range(count):
            if len(self.errors) > 5:
                break
            try:
                self.step()
            except Exception as e:  # whatever it is, it is the test's result
                self.errors.append(repr(e))


class LibraryClient(Checked):
    """By the client library, which knows when a window is done with."""

    def __init__(self, device, s3, seed, size=8 * MIB):
        super().__init__(seed, size)
        self.client = library.Client("http://%s:%d" % s3.address, device, PATIENCE_MS)
        self.memory = self.client.alloc(size + 4096)
        ctypes.memset(self.memory, rdma.CANARY, size + 4096)  # else it grows as it is used

    def send(self, key, body):
        ctypes.memmove(self.memory, body, len(body))
        return self.client.put("traffic", key.removeprefix("/traffic/"), self.memory, len(body))

    def receive(self, key, body):
        size = len(body)
        ctypes.memset(self.memory, rdma.CANARY, size + 64)
        wrong = self.client.get("traffic", key.removeprefix("/traffic/"), self.memory, size)
        has = ctypes.string_at(self.memory, size + 64)
        if not wrong and has[:size] != body:
            wrong = "other bytes than were put"
        if has[size:] != bytes([rdma.CANARY]) * 64:
            wrong = "bytes outside the window"
        return wrong


class Client(Checked):
    """By requests and tokens of its own."""

    def __init__(self, device, s3, seed, size=8 * MIB):
        super().__init__(seed, size)
        self.owner, self.s3 = rdma.Owner(device), s3
        self.region, self.conn = self.owner.region(size + 4096), s3.connect()

    def ask(self, method, key, token):
        try:
            return self.s3(method, key, conn=self.conn, also_signed=["x-s3r-deadline-ms"],
                           headers=rdma.headers(token, ("x-s3r-deadline-ms", str(PATIENCE_MS))))
        except (OSError, EOFError, s3raw.BadReply):
            self.conn.close()
            self.conn = self.s3.connect()
            raise

    def judge(self, reply, size):
        got = (reply.status, reply["x-amz-rdma-reply"], reply["x-amz-rdma-bytes-transferred"])
        return None if got == (200, "200", str(size)) else repr(reply)

    def send(self, key, body):
        size = len(body)
        self.region[:size] = body
        with self.region.window(size) as w:
            return self.judge(self.ask("PUT", key, w.token), size)

    def receive(self, key, body):
        size = len(body)
        ctypes.memset(self.region.address, rdma.CANARY, size + 64)
        with self.region.window(size) as w:
            wrong = self.judge(self.ask("GET", key, w.token), size)
        if not wrong and self.region.read(0, size) != body:
            wrong = "other bytes than were put"
        if not self.region.is_untouched(size, size + 64):
            wrong = "bytes outside the window"
        return wrong


def checked(make, device, s3, clients, warm, count):
    seeds = os.getpid() * 1000
    mine = [make(device, s3, seeds + i) for i in range(int(clients))]
    for phase, number in (("warm", int(warm)), ("done", int(count))):
        threads = [threading.Thread(target=c.run, args=(number,)) for c in mine]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        say(phase=phase, ops=sum(c.ops for c in mine), errors=[e for c in mine for e in c.errors],
            **self_usage())
        sys.stdin.readline()


def until(device, s3):
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    client = Client(device, s3, os.getpid(), MIB)
    say(phase="begun")
    while not ended.is_set() and len(client.errors) < 5:
        client.run(1)
    say(ops=client.ops, errors=client.errors, slowest=max(client.times, default=0),
        median=statistics.median(client.times or [0]))


def alien(region, size, body):
    """Where the region holds a byte that is neither the canary nor the body's; None if nowhere."""
    data = region.read(0, size)
    if data == body or data == bytes([rdma.CANARY]) * size:
        return None
    for at in range(0, size, 4096):
        page, right = data[at:at + 4096], body[at:at + 4096]
        if page not in (right, bytes([rdma.CANARY]) * len(page)):
            for i, byte in enumerate(page):
                if byte not in (rdma.CANARY, right[i]):
                    return at + i
    return None


def victim_body(size):
    return (POOL * (size // len(POOL) + 1))[:size]


def victim(device, s3, method, size, target):
    size = int(size)
    body, errors, rounds, statuses = victim_body(size), [], 0, {}
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    owner = rdma.Owner(device)
    region = owner.region(size, body if method == "PUT" else None)
    while not ended.is_set():
        rounds += 1
        say(phase="begin", round=rounds)
        window = region.window()
        try:
            reply = s3(method, target, headers=rdma.headers(window.token))
            status = reply.status
        except (OSError, EOFError) as e:
            reply, status = None, type(e).__name__
        statuses[status] = statuses.get(status, 0) + 1
        if method == "GET":
            if status == 200 and region.read(0, size) != body:
                errors.append("200, and other bytes than the object's")
            at = alien(region, size, body)
            if at is not None:
                errors.append(f"after {status}: a byte of another object at {at}")
        elif status not in (200, 501, 503, "EOFError", "TimeoutError"):
            errors.append(repr(reply))
        window.close()
        if method == "GET":
            region.wipe()
            if status != 200:
                time.sleep(0.05)
            if not region.is_untouched():
                errors.append(f"after {status}: bytes landed after the window was withdrawn")
        if len(errors) > 5:
            break
    say(phase="end", rounds=rounds, errors=errors, statuses={str(k): v for k, v in statuses.items()})


def freeze(device, s3, count, size, target):
    count, size = int(count), int(size)
    body = victim_body(size)
    owner = rdma.Owner(device)
    region = owner.region(count * size)
    windows = [region.window(size, i * size) for i in range(count)]
    conns = [s3.connect() for _ in windows]
    for conn, w in zip(conns, windows):
        conn.send(s3.head("GET", target, rdma.headers(w.token)))
    say(phase="sent")
    os.kill(os.getpid(), signal.SIGSTOP)
    errors, statuses = [], {}
    for i, conn in enumerate(conns):
        try:
            reply = conn.read_reply()
            status = reply.status
        except (OSError, EOFError) as e:
            status = type(e).__name__
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        data = region.read(i * size, size)
        if status == 200 and data != body:
            errors.append(f"{i}: 200, and other bytes than the object's")
        elif data not in (body, bytes([rdma.CANARY]) * size):
            mixed = [at for at in range(size) if data[at] not in (rdma.CANARY, body[at])]
            if mixed:
                errors.append(f"{i}: a byte of another object at {mixed[0]}")
        conn.close()
    for w in windows:
        w.close()
    region.wipe()
    time.sleep(0.3)
    if not region.is_untouched():
        errors.append("bytes landed after the windows were withdrawn")
    say(phase="end", errors=errors, statuses=statuses)


if __name__ == "__main__":
    mode, device_name, at_host, at_port = sys.argv[1:5]
    modes = {"checked": functools.partial(checked, Client),
             "library": functools.partial(checked, LibraryClient),
             "until": until, "victim": victim, "freeze": freeze}
    modes[mode](device_name, server(at_host, at_port), *sys.argv[5:])
