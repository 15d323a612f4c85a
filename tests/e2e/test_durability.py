# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged is there, to the byte; what was not is whole or absent, never half."""
import os
import random
import subprocess
import threading
import time

import pytest

from daemon import SECRET, USER, eventually, scaled
from s3raw import S3, UNSIGNED, md5

MIB = 1 << 20


def body_of(key, version):
    """Any body is known from its name: 0 bytes to 3 MiB."""
    rng = random.Random(f"{key} {version}")
    size = rng.choice((0, 10, 5000, 16384, 16385, rng.randrange(200000), rng.randrange(3 * MIB)))
    return b"%s %d " % (key.encode(), version) + rng.randbytes(size)


class Writer(threading.Thread):
    """Overwrites, deletes and completes until the server goes; knows what was acknowledged."""

    def __init__(self, s3, number, known):
        super().__init__()
        self.s3, self.number, self.known = s3, number, known
        self.asked = {}
        self.rng = random.Random(number * 7919 + time.time_ns())

    def run(self):
        try:
            with self.s3.connect() as conn:
                while True:
                    self.step(conn)
        except (OSError, EOFError):
            pass

    def step(self, conn):
        key = f"w{self.number}-{self.rng.randrange(6)}"
        before = self.known.get(key, (0, True))[0]
        kind = self.rng.random()
        self.asked[key] = (before + 1, kind < 0.1)
        if kind < 0.1:
            reply = self.s3("DELETE", f"/durable/{key}", conn=conn)
        elif kind < 0.3:
            reply = self.multipart(key, body_of(key, before + 1), conn)
        else:
            reply = self.s3("PUT", f"/durable/{key}", body_of(key, before + 1), sha256=UNSIGNED,
                            conn=conn)
        if reply.status // 100 == 2:
            self.known[key] = self.asked.pop(key)

    def multipart(self, key, body, conn):
        target = f"/durable/{key}"
        upload = self.s3("POST", f"{target}?uploads", conn=conn).text("UploadId")
        etag = self.s3("PUT", f"{target}?partNumber=1&uploadId={upload}", body, sha256=UNSIGNED,
                       conn=conn)["etag"]
        xml = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        return self.s3("POST", f"{target}?uploadId={upload}",
                       f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode(),
                       conn=conn)


def check(s3, known, asked):
    for key in set(known) | set(asked):
        got = s3("GET", f"/durable/{key}")
        assert got.status in (200, 404), got
        states = [known.get(key, (0, True))] + ([asked[key]] if key in asked else [])
        allowed = [None if gone else body_of(key, version) for version, gone in states]
        now = got.body if got.status == 200 else None
        assert now in allowed, (key, states, got.status, got.body[:40], got.headers)
        known[key] = states[allowed.index(now)] if now in allowed else known[key]


@pytest.mark.slow
def test_kill_9_under_load_loses_nothing_acknowledged(servers):
    server = servers.start()
    assert server.s3()("PUT", "/durable").status == 200
    known = [{} for _ in range(6)]
    for _ in range(max(3, scaled(20))):
        writers = [Writer(server.s3(), i, known[i]) for i in range(len(known))]
        for w in writers:
            w.start()
        time.sleep(0.3 + random.random())
        server.kill()
        for w in writers:
            w.join()
        server.start()
        s3 = server.s3()
        for w in writers:
            check(s3, w.known, w.asked)
        listed = set()
        for reply in [s3("GET", "/durable?list-type=2")]:
            listed = set(reply.texts("Key"))
        wanted = {k for states in known for k, (_, gone) in states.items() if not gone}
        assert listed == wanted
    # Uploads that were cut are still there, to be ended by their client.
    for upload in s3("GET", "/durable?uploads").xml.iter("Upload"):
        target = f"/durable/{upload.findtext('Key')}?uploadId={upload.findtext('UploadId')}"
        assert s3("DELETE", target).status == 204


def bytes_beside_index(server):
    sizes = 0
    for folder, _, names in os.walk(server.data):
        for name in names if "index" not in folder else ():
            try:
                sizes += os.path.getsize(os.path.join(folder, name))
            except FileNotFoundError:
                pass
    return sizes


def test_after_kill_9_no_stray_file_is_left(servers):
    server = servers.start()
    s3 = server.s3()
    s3("PUT", "/durable")
    for i in range(4):
        head = s3.head("PUT", f"/durable/k{i}", length=40 * MIB, sha256=UNSIGNED)
        conn = s3.connect()
        conn.send(head + os.urandom(20 * MIB))
    server.kill()
    server.start()
    s3 = server.s3()
    assert s3("GET", "/durable?list-type=2").texts("Key") == []
    # They go beside the first requests, and may be gone between a name and its length.
    assert eventually(lambda: bytes_beside_index(server) < 4 * MIB), \
        f"{bytes_beside_index(server)} bytes are left of uploads that were cut"


def test_acknowledged_objects_survive_a_restart(servers):
    server = servers.start()
    s3 = server.s3()
    s3("PUT", "/durable")
    bodies = {f"k{i}": body_of(f"k{i}", i) for i in range(30)}
    for key, body in bodies.items():
        assert s3("PUT", f"/durable/{key}", body, [("x-amz-meta-k", key)]).status == 200
    server.stop()
    server.start()
    s3 = server.s3()
    for key, body in bodies.items():
        got = s3("GET", f"/durable/{key}")
        assert got.body == body and got.etag == md5(body) and got["x-amz-meta-k"] == key
    assert s3("GET", "/").texts("Name") == ["durable"]


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 96 MiB."""
    where = tmp_path / "small"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", str(where)],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting a small file system needs root: {done.stderr.strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_full_disk_is_a_defined_error_and_harms_nothing(servers, small_disk):
    server = servers.make()
    server.data = str(small_disk / "data")
    server.start()
    s3 = server.s3()
    s3("PUT", "/full")
    old = os.urandom(3 * MIB)
    assert s3("PUT", "/full/old", old).status == 200
    stored, refused = {}, None
    for i in range(40):
        body = os.urandom(4 * MIB)
        reply = s3("PUT", f"/full/k{i}", body, sha256=UNSIGNED)
        if reply.status == 200:
            stored[f"k{i}"] = body
        else:
            refused = reply
            break
    assert refused is not None and refused.status == 507, refused
    assert refused.code == "XMinioStorageFull" and refused.text("Message")
    assert s3("PUT", "/full/old", os.urandom(8 * MIB), sha256=UNSIGNED).status == 507
    assert s3("GET", "/full/old").body == old
    for key, body in stored.items():
        assert s3("GET", f"/full/{key}").body == body
    assert s3("GET", f"/full/k{len(stored)}").status == 404
    assert server.get("/minio/health/live").status == 200
    # Space that is freed is used again.
    for key in list(stored)[:6]:
        assert s3("DELETE", f"/full/{key}").status == 204
        del stored[key]
    body = os.urandom(4 * MIB)
    assert s3("PUT", "/full/after", body, sha256=UNSIGNED).status == 200
    assert server.get("/minio/health/ready").status == 200
    server.stop()
    server.start()
    s3 = S3(server.address, USER, SECRET)
    assert s3("GET", "/full/after").body == body and s3("GET", "/full/old").body == old
    for key, body in stored.items():
        assert s3("GET", f"/full/{key}").body == body
    server.stop()


def test_a_byte_changed_on_the_disk_is_an_error_never_another_byte(servers):
    server = servers.start()
    s3 = server.s3()
    s3("PUT", "/rotten")
    body = os.urandom(3 * MIB)
    s3("PUT", "/rotten/k", body)
    server.stop()
    changed = 0
    for folder, _, names in os.walk(server.data):
        for name in names:
            where = os.path.join(folder, name)
            with open(where, "r+b") as f:
                data = f.read()
                at = data.find(body[MIB + 100:MIB + 164])
                if at >= 0:
                    f.seek(at)
                    f.write(bytes([data[at] ^ 1]))
                    changed += 1
    assert changed == 1
    server.start()
    s3 = server.s3()
    good = s3("GET", "/rotten/k", headers=[("Range", "bytes=0-1000")])
    assert good.status == 206 and good.body == body[:1001]
    bad = s3("GET", "/rotten/k", headers=[("Range", f"bytes={MIB + 5}-{MIB + 10}")])
    assert bad.status == 500 and bad.code == "InternalError", bad
    with s3.connect() as conn:
        conn.send(s3.head("GET", "/rotten/k"))
        try:
            whole = conn.read_reply()
            assert whole.status == 500
        except EOFError:
            pass
        assert conn.is_closed() or whole.status == 500
    assert server.is_alive()
