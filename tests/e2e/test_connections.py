# SPDX-License-Identifier: Apache-2.0
"""Connections that end at any moment, and the server's own end."""
import contextlib
import resource
import threading

import daemon
import faults
from daemon import eventually
from s3raw import UNSIGNED

COUNT = 40


def test_clients_that_go_in_the_middle_of_a_request_leave_nothing(server, s3, bucket):
    # The end comes with the last bytes: no event of its own tells of it.
    before = server.descriptors()
    for _ in range(COUNT):
        for data in (s3.head("PUT", f"/{bucket}/k", length=1 << 20, sha256=UNSIGNED) + bytes(500000),
                     s3.head("GET", f"/{bucket}/none"), b"GET / HT"):
            with s3.connect() as conn:
                conn.send(data)
    assert eventually(lambda: server.descriptors() <= before + COUNT // 10, 10)
    assert s3("GET", f"/{bucket}/k").code == "NoSuchKey"


def test_the_end_comes_in_order_while_connections_come_and_go(servers):
    # Event threads go round all the time; one stands still just as the listener is taken away.
    server = servers.make("off")
    server.environment.update(faults.Disk(server.data, server.folder).environment(),
                              S3R_FAULT_UNLISTEN_MS="5")
    server.start()
    is_over = threading.Event()

    def connect():
        while not is_over.is_set():
            with contextlib.suppress(OSError, EOFError):
                server.get("/minio/health/live")

    threads = [threading.Thread(target=connect) for _ in range(6)]
    for t in threads:
        t.start()
    try:
        server.stop()
    finally:
        is_over.set()
        for t in threads:
            t.join()


def test_idle_connections_leave_descriptors_for_files(servers):
    # Half of the descriptors are the connections': nobody can take those that files need.
    server = servers.make("off")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    server.command = lambda: ["prlimit", "--nofile=400:400", *daemon.Daemon.command(server)]
    server.start()
    s3 = server.s3()
    assert s3("PUT", "/idle").status == 200
    with contextlib.ExitStack() as stack:
        conn = stack.enter_context(s3.connect())
        assert s3("GET", "/idle", conn=conn).status == 200
        for _ in range(min(450, limits[0] // 2)):
            stack.enter_context(s3.connect())
        body = bytes(3 << 20)
        for i in range(5):
            assert s3("PUT", f"/idle/{i}", body, sha256=UNSIGNED, conn=conn).status == 200
            assert s3("GET", f"/idle/{i}", conn=conn).body == body


def test_the_soft_limit_of_descriptors_is_raised(servers):
    server = servers.make("off")
    server.command = lambda: ["prlimit", "--nofile=100:1000", *daemon.Daemon.command(server)]
    server.start()
    assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (1000, 1000)
