# SPDX-License-Identifier: Apache-2.0
"""What is slow delays nobody else: a disk, clients that are frozen, clients that trickle.

The measure is the 99th percentile of a small cached GET, quiet and loaded, of the same run and the
same connection: it may at most double. Both are taken over many requests; since a machine that does
other things at the same time spoils single runs, the best of three runs counts on either side, and
the best of three rounds. Nothing here
compares with a time in seconds."""
import os
import time

import pytest

import faults
from crowd import Crowd
from daemon import SLOWER, VARIANT, eventually, scaled
from s3raw import UNSIGNED

MIB = 1 << 20
SLOW_OBJECTS, COLD_OBJECTS, FROZEN, DRIPPING = 24, 500, 32, 100
SLOW_DATA = ("read /data/ delay_ms=2000", "unlink /data/ delay_ms=2000")
SLOW_ALL = SLOW_DATA + ("read /index/ delay_ms=2000",)
pytestmark = pytest.mark.slow


@pytest.fixture
def place(servers, device):
    """A server and its disk: a small object that is cached, large ones on the data disk, and small
    ones whose records are not cached."""
    server, disk = faults.start(servers, device, options=["--drain-timeout-s", "2", "--log-level", "warn"])
    s3 = server.s3()
    assert s3("PUT", "/place").status == 200
    for i in range(SLOW_OBJECTS):
        assert s3("PUT", f"/place/slow-{i}", os.urandom(MIB), sha256=UNSIGNED).status == 200
    with s3.connect() as conn:
        for i in range(COLD_OBJECTS):
            reply = s3("PUT", f"/place/cold-{i}", os.urandom(16000), sha256=UNSIGNED, conn=conn)
            assert reply.status == 200, reply
    assert s3("PUT", "/place/small", os.urandom(1000)).status == 200
    # What the index holds in memory goes to its files at a start, and only what is read comes back.
    server.stop()
    server.start()
    for _ in range(2):
        assert server.s3()("GET", "/place/small").status == 200
    yield server, disk
    disk.set()


def percentile(server, count):
    """The 99th, of GETs one after the other on one connection."""
    s3, times = server.s3(), []
    head = s3.head("GET", "/place/small")
    with s3.connect() as conn:
        for _ in range(count):
            begin = time.perf_counter()
            conn.send(head)
            reply = conn.read_reply()
            times.append(time.perf_counter() - begin)
            assert reply.status == 200 and len(reply.body) == 1000, reply
    return sorted(times)[int(count * 0.99)]


def best_percentile(server, count):
    """Of three: what else runs on the machine slows some of them, a delay in the server all."""
    return min(percentile(server, count) for _ in range(3))


def active(server):
    return server.metric("s3rdma_http_active_requests")


class Load:
    """All of it at once, and gone at the end."""

    def __init__(self, server, disk, device, rules):
        self.server, self.disk, self.device, self.rules = server, disk, device, rules
        self.crowds, self.least = [], 0

    def add(self, *arguments):
        self.crowds.append(Crowd(self.server, *arguments))

    def begin(self):
        self.disk.set(*self.rules)
        for i in range(FROZEN if VARIANT == "plain" else scaled(FROZEN)):
            self.add("frozen", self.device, MIB, f"/place/slow-{i % SLOW_OBJECTS}",
                     f"/place/frozen-{i}")
        self.add("drip", DRIPPING, "/place/drip")
        self.add("wait", SLOW_OBJECTS, SLOW_OBJECTS, "/place/slow", "again")
        self.add("abort", "/place/aborted")
        self.least = DRIPPING + SLOW_OBJECTS // 2
        if self.rules == SLOW_ALL:
            # Each once: what has been read is cached, and would not wait the next time.
            self.add("wait", SLOW_OBJECTS, COLD_OBJECTS, "/place/cold", "once")
            self.least += SLOW_OBJECTS // 2
        for crowd in self.crowds:
            crowd.line("begun")
        assert eventually(lambda: active(self.server) >= self.least), active(self.server)

    def end(self):
        for crowd in self.crowds:
            crowd.end()
        self.disk.set()

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()
        if self.server.is_alive():
            assert eventually(lambda: active(self.server) <= 1, 30), active(self.server)


@pytest.mark.parametrize("rules", [SLOW_DATA, SLOW_ALL], ids=["data", "data-and-index"])
def test_a_small_get_is_as_quick_beside_all_that_is_slow(place, device, rules):
    server, disk = place
    count, ratios = 3000 // SLOWER, []
    percentile(server, count)
    rounds = 3 if VARIANT == "plain" else 1
    while len(ratios) < rounds and (not ratios or min(ratios) > 2):
        quiet = best_percentile(server, count)
        with Load(server, disk, device, rules):
            loaded = best_percentile(server, count)
            assert active(server) >= DRIPPING, "the load went before the end"
        ratios.append(loaded / quiet)
    print("loaded / quiet:", [f"{r:.2f}" for r in ratios])
    # A sanitizer's own locks and its slowness are no part of the promise; races still show here.
    assert min(ratios) <= 2 or VARIANT != "plain", ratios


def test_names_are_answered_while_every_read_of_data_waits(place):
    server, disk = place
    s3 = server.s3()
    disk.set("read /data/ delay_ms=20000")
    waiting = [s3.connect(timeout=120) for _ in range(48)]
    try:
        for i, conn in enumerate(waiting):
            conn.send(s3.head("GET", f"/place/slow-{i % SLOW_OBJECTS}"))
        assert eventually(lambda: active(server) >= len(waiting))
        for _ in range(20):
            assert s3("HEAD", "/place/slow-0").status == 200
            assert s3("GET", "/place?list-type=2").status == 200
            assert s3("GET", "/place/small").status == 200
            assert s3("PUT", "/place/new", b"small too").status == 200
        assert all(conn.is_silent(0.001) for conn in waiting), "they were not slow"
    finally:
        for conn in waiting:
            conn.close()


def test_sigterm_ends_a_server_whose_clients_and_disk_are_slow(place, device):
    server, disk = place
    with Load(server, disk, device, SLOW_ALL):
        server.stop()
    server.start()
    assert server.s3()("GET", "/place/small").status == 200
