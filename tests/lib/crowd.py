# SPDX-License-Identifier: Apache-2.0
"""A crowd of clients in a process of its own: python crowd.py MODE HOST PORT [ARGUMENT...]

    drip COUNT TARGET               COUNT uploads, of each a byte a second
    wait COUNT OBJECTS TARGET again|once
                                    COUNT GETs at a time, of TARGET-0 to OBJECTS, over and over or once
    abort TARGET                    uploads that are reset in the middle, one after the other
    frozen DEVICE SIZE GET PUT      one GET and one PUT by RDMA; stops itself when they are sent
    mixed SECONDS THREADS           everything at once, checked, with connections that break off

It says `{"phase": "begun"}` when it is under way, and ends when its input does."""
import contextlib
import itertools
import json
import os
import random
import selectors
import signal
import subprocess
import sys
import threading
import time

import daemon
import rdma
import s3raw

MIB = 1 << 20


class Crowd:
    """Such a process, from a test's side."""

    def __init__(self, server, mode, *arguments):
        environment = {**daemon.plain_environment(), "PYTHONDONTWRITEBYTECODE": "1",
                       "S3RDMA_BUILD": daemon.BUILD, "S3RDMA_VARIANT": daemon.VARIANT,
                       "S3RDMA_CLIENT_LIBRARY": rdma.library_path()}
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), mode, server.address[0],
             str(server.address[1]), *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def line(self, phase):
        text = self.process.stdout.readline()
        assert text, f"a crowd ended with {self.process.wait()} and said nothing"
        said = json.loads(text)
        assert said["phase"] == phase, said
        return said

    def end(self):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def say(**what):
    print(json.dumps(what), flush=True)


def until_input_ends():
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    return ended


def drip(s3, count, target):
    ended, conns = until_input_ends(), []
    for i in range(int(count)):
        conn = s3.connect()
        conn.send(s3.head("PUT", f"{target}-{i}", length=MIB, sha256=s3raw.UNSIGNED))
        conns.append(conn)
    say(phase="begun")
    while not ended.wait(1):
        for conn in conns:
            conn.send(b"x")


def wait(s3, count, objects, target, how):
    ended, selector = until_input_ends(), selectors.DefaultSelector()
    targets = (f"{target}-{i}" for i in range(int(objects)))
    if how == "again":
        targets = itertools.cycle(targets)
    for _ in range(int(count)):
        conn = s3.connect()
        conn.send(s3.head("GET", next(targets)))
        selector.register(conn.sock, selectors.EVENT_READ, conn)
    say(phase="begun")
    while not ended.is_set():
        for key, _ in selector.select(0.1):
            reply = key.data.read_reply()
            assert reply.status == 200, reply
            following = next(targets, None)
            if following:
                key.data.send(s3.head("GET", following))
            else:
                selector.unregister(key.fileobj)


def abort(s3, target):
    ended = until_input_ends()
    say(phase="begun")
    while not ended.wait(0.05):
        conn = s3.connect()
        conn.send(s3.head("PUT", target, length=4 * MIB, sha256=s3raw.UNSIGNED) + bytes(2 * MIB))
        conn.reset()


def frozen(s3, device, size, get, put):
    size = int(size)
    owner = rdma.Owner(device)
    region = owner.region(2 * size)
    with region.window(size) as one, region.window(size, size) as two:
        conns = s3.connect(), s3.connect()
        heads = (s3.head("GET", get, rdma.headers(one.token)),
                 s3.head("PUT", put, rdma.headers(two.token)))
        for conn, head in zip(conns, heads):
            conn.send(head)
        say(phase="begun")
        os.kill(os.getpid(), signal.SIGSTOP)


class Guest:
    """One of the mixed load: whatever it finished must have been answered rightly."""

    def __init__(self, s3, number):
        self.s3, self.rng, self.number = s3, random.Random(number), number
        self.conn, self.have, self.errors, self.ops = None, {}, [], 0

    def body(self):
        size = self.rng.choice((0, 1, 5000, 16385, MIB + 1, self.rng.randrange(3 * MIB)))
        return self.rng.randbytes(size)

    def expect(self, what, is_right, reply):
        self.ops += 1
        if not is_right:
            self.errors.append(f"{what}: {reply!r:.300}")

    def ask(self, *args, **options):
        if self.conn is None:
            self.conn = self.s3.connect()
        return self.s3(*args, conn=self.conn, **options)

    def key(self):
        return f"/crowd/{self.number}-{self.rng.randrange(4)}"

    def put(self):
        key, body = self.key(), self.body()
        reply = self.ask("PUT", key, body, sha256=s3raw.UNSIGNED)
        self.expect("put", reply.status == 200 and reply.etag == s3raw.md5(body), reply)
        self.have[key] = body

    def get(self):
        key = self.key()
        reply = self.ask("GET", key)
        if key in self.have:
            self.expect("get", reply.status == 200 and reply.body == self.have[key], reply)
        else:
            self.expect("get", reply.status == 404, reply)

    def delete(self):
        key = self.key()
        self.expect("delete", self.ask("DELETE", key).status == 204, None)
        self.have.pop(key, None)

    def look(self):
        reply = self.ask("GET", f"/crowd?list-type=2&prefix={self.number}-")
        wanted = sorted(key.split("/")[2] for key in self.have)
        self.expect("list", reply.status == 200 and reply.texts("Key") == wanted, reply)

    def cut_put(self):
        body = self.body()
        with self.s3.connect() as conn:
            head = self.s3.head("PUT", self.key(), length=len(body) + 1, sha256=s3raw.UNSIGNED)
            conn.send(head + body[:self.rng.randrange(len(body) + 1)])
            if self.rng.random() < 0.5:
                time.sleep(self.rng.random() * 0.01)
            conn.reset()

    def cut_get(self):
        with self.s3.connect(rcvbuf=4096) as conn:
            conn.send(self.s3.head("GET", self.rng.choice((self.key(), "/crowd/large"))))
            if self.rng.random() < 0.7:
                conn.read_head()
            if self.rng.random() < 0.5:
                conn.sock.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    conn.sock.recv(1 + self.rng.randrange(100000))
            conn.reset()

    def pipeline(self):
        """Several heads and small bodies in one piece; the answers come in their order."""
        key, bodies = self.key(), [self.rng.randbytes(self.rng.randrange(2000)) for _ in range(3)]
        parts = []
        for body in bodies:
            parts += [self.s3.head("PUT", key, length=len(body), sha256=s3raw.UNSIGNED), body,
                      self.s3.head("GET", key)]
        with self.s3.connect() as conn:
            conn.send(b"".join(parts))
            for body in bodies:
                reply = conn.read_reply("PUT")
                self.expect("pipelined put", reply.status == 200, reply)
                reply = conn.read_reply()
                self.expect("pipelined get", reply.status == 200 and reply.body == body, reply)
        self.have[key] = bodies[-1]

    def multipart(self):
        key, parts = self.key(), [self.rng.randbytes(5 * MIB), self.body() or b"x"]
        upload = self.ask("POST", f"{key}?uploads").text("UploadId")
        xml = ""
        for i, part in enumerate(parts, 1):
            etag = self.ask("PUT", f"{key}?partNumber={i}&uploadId={upload}", part,
                            sha256=s3raw.UNSIGNED)["etag"]
            xml += f"<Part><PartNumber>{i}</PartNumber><ETag>{etag}</ETag></Part>"
        if self.rng.random() < 0.3:
            reply = self.ask("DELETE", f"{key}?uploadId={upload}")
            self.expect("abort", reply.status == 204, reply)
            return
        xml = f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>"
        reply = self.ask("POST", f"{key}?uploadId={upload}", xml.encode())
        self.expect("complete", reply.status == 200 and reply.code is None, reply)
        self.have[key] = b"".join(parts)

    def step(self):
        kinds = (self.put, self.get, self.delete, self.look, self.cut_put, self.cut_get,
                 self.pipeline, self.multipart)
        self.doing = self.rng.choices(kinds, (6, 6, 2, 1, 4, 4, 2, 1))[0]
        self.doing()
        if self.conn and self.rng.random() < 0.05:
            self.conn.close()
            self.conn = None

    def run(self, end):
        while time.monotonic() < end and len(self.errors) < 5:
            try:
                self.step()
            except (OSError, EOFError) as e:
                self.errors.append(f"{self.doing.__name__}: {type(e).__name__}: {e}")
                self.conn = None


def mixed(s3, seconds, threads):
    until_input_ends()
    guests = [Guest(s3, os.getpid() * 100 + i) for i in range(int(threads))]
    end = time.monotonic() + float(seconds)
    running = [threading.Thread(target=g.run, args=(end,)) for g in guests]
    say(phase="begun")
    for t in running:
        t.start()
    for t in running:
        t.join()
    say(phase="end", ops=sum(g.ops for g in guests), errors=[e for g in guests for e in g.errors])


if __name__ == "__main__":
    mode, host, port = sys.argv[1:4]
    client = s3raw.S3((host, int(port)), daemon.USER, daemon.SECRET, timeout=15 * daemon.SLOWER)
    {"drip": drip, "wait": wait, "abort": abort, "frozen": frozen,
     "mixed": mixed}[mode](client, *sys.argv[4:])
