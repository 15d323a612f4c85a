# SPDX-License-Identifier: Apache-2.0
"""Many connections at once, bodies of every length, connections that break off, and the server's end
while all of that goes on."""
import random
import threading
import time

import pytest

import faults
from crowd import Crowd
from daemon import eventually, scaled
from s3raw import UNSIGNED, md5

MIB = 1 << 20


@pytest.mark.parametrize("beyond", [0, 1, 1000, 4097, 48 * 1024 + 5])
def test_a_body_is_answered_wherever_it_ends(s3, bucket, beyond):
    """The last bytes may come with those that fill a buffer: nothing comes after them."""
    rng = random.Random(beyond)
    with s3.connect() as conn:
        for size in (64 * 1024, MIB, 2 * MIB, 3 * MIB):
            body = rng.randbytes(size + beyond)
            for _ in range(3):
                reply = s3("PUT", f"/{bucket}/k", body, sha256=UNSIGNED, conn=conn)
                assert reply.status == 200 and reply.etag == md5(body), reply


class Pressure:
    """Uploads and downloads that do not end by themselves."""

    def __init__(self, server, uploads=8, downloads=4):
        self.server, self.threads = server, []
        assert server.s3()("PUT", "/pressure").status == 200
        assert server.s3()("PUT", "/pressure/large", bytes(32 * MIB), sha256=UNSIGNED).status == 200
        for work, count in ((self.upload, uploads), (self.download, downloads)):
            self.threads += [threading.Thread(target=work, args=(i,)) for i in range(count)]
        for t in self.threads:
            t.start()

    def upload(self, number):
        s3 = self.server.s3()
        try:
            with s3.connect() as conn:
                conn.send(s3.head("PUT", f"/pressure/endless-{number}", length=1 << 40,
                                  sha256=UNSIGNED))
                while True:
                    conn.send(bytes(MIB))
        except OSError:
            pass

    def download(self, _):
        s3 = self.server.s3()
        try:
            while s3("GET", "/pressure/large").status == 200:
                pass
        except (OSError, EOFError):
            pass

    def join(self):
        for t in self.threads:
            t.join()


@pytest.mark.parametrize("rules", [(), ("write /data/ delay_ms=300", "read /data/ delay_ms=300")],
                         ids=["quick-disk", "slow-disk"])
def test_sigterm_under_load_ends_the_server_and_keeps_what_was_acknowledged(servers, rules):
    """Whatever state requests are in: waiting for a worker, in the middle of a body, refused."""
    server, disk = faults.start(servers, options=["--drain-timeout-s", "1", "--log-level", "warn"])
    for i in range(3):
        s3 = server.s3()
        s3("PUT", "/kept")
        kept = random.Random(i).randbytes(100000)
        assert s3("PUT", f"/kept/{i}", kept).status == 200
        disk.set()
        if i:
            assert s3("DELETE", "/pressure/large").status == 204
            assert s3("DELETE", "/pressure").status == 204
        pressure = Pressure(server)
        disk.set(*rules)
        time.sleep(0.3 + random.random() * 0.5)
        server.stop()
        pressure.join()
        disk.set()
        server.start()
        assert server.s3()("GET", f"/kept/{i}").body == kept
    assert server.s3()("GET", "/pressure?list-type=2").texts("Key") == ["large"]


def test_connections_without_a_request_do_not_delay_the_end(servers):
    """An idle one, one with half a head: there is nothing to wait for, however long the drain."""
    server = servers.start(options=["--drain-timeout-s", "600"])
    s3 = server.s3()
    idle, half, silent = s3.connect(), s3.connect(), s3.connect()
    assert s3("GET", "/", conn=idle).status == 200
    half.send(b"GET / HTTP/1.1\r\nHost: x\r\nx-half: ")
    assert eventually(lambda: server.get("/minio/health/live").status == 200)
    server.stop()
    for conn in (idle, half, silent):
        conn.close()


@pytest.mark.slow
def test_a_mixed_load_with_connections_that_break_off(servers):
    """Pipelining, keep-alive, resets in the middle of both bodies; run under the sanitizers too."""
    server = servers.start(options=["--log-level", "warn"])
    s3 = server.s3()
    s3("PUT", "/crowd")
    assert s3("PUT", "/crowd/large", bytes(8 * MIB), sha256=UNSIGNED).status == 200
    before = server.descriptors()
    crowds = [Crowd(server, "mixed", max(5, scaled(120)), 8) for _ in range(2)]
    try:
        for crowd in crowds:
            crowd.line("begun")
        for crowd in crowds:
            said = crowd.line("end")
            assert said["errors"] == [] and said["ops"] > 0, said
    finally:
        for crowd in crowds:
            crowd.end()
    assert eventually(lambda: server.metric("s3rdma_http_active_requests") <= 1)
    assert eventually(lambda: server.descriptors() <= before + 2), (before, server.descriptors())
