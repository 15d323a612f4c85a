# SPDX-License-Identifier: Apache-2.0
"""A server that was stopped while it had a token, and goes on after the client has given up: what
it does then must not be found in memory that the caller has got back."""
import os
import random
import signal
import time

import pytest

import daemon
from callers import CANARY, RANGE_OFF, read_line, running, take_call, take_end
from daemon import eventually
from interruption import is_at_rest
from s3raw import UNSIGNED
from traffic import victim_body

MIB = 1 << 20
SIZE = 64 * MIB
BODY = victim_body(SIZE)
QUEUED = ("queue", "queue-piece")


@pytest.fixture(scope="module")
def server(module_servers, device):
    started = module_servers.start(device)
    s3 = started.s3()
    assert s3("PUT", "/bucket").status == 200
    for key in (*QUEUED, "miniocpp"):
        assert s3("PUT", f"/bucket/{key}", BODY, sha256=UNSIGNED).status == 200
    return started


def tell(program):
    program.stdin.write(b"\n")
    program.stdin.flush()


def judge(program, server, made):
    """The server goes on; what it still does must not be seen."""
    is_given_back = read_line(program)["given_back"]
    assert is_given_back == (made.error != "RDMA_UNFENCED"), made
    server.signal(signal.SIGCONT)
    assert eventually(lambda: is_at_rest(server), 60), server.metrics()
    tell(program)
    assert read_line(program)["untouched"] or not is_given_back, made
    return is_given_back


def only_of(content, guard, off):
    """Nothing but the object's bytes, each in its place, and the canary, also past their end."""
    for at in range(0, len(content), MIB):
        piece, right = content[at:at + MIB], BODY[off + at:off + at + MIB].ljust(MIB, CANARY)
        if piece in (right[:len(piece)], CANARY * len(piece)):
            continue
        assert all(byte in (0xAA, right[i]) for i, byte in enumerate(piece)), at
    assert guard == CANARY * len(guard)


def ask(server, device, tmp_path, operation, interface, options):
    if operation == "put":
        (tmp_path / "m").write_bytes(BODY)
    return running(server, operation, tmp_path / "m", interface, size=SIZE, device=device,
                   options=["-w", *options])


# How a caller of the queue gives up, and what it is then told.
ENDS = {"deadline": (["-d", "700"], "TIMEOUT"), "cancel": (["-c"], "CANCELLED")}


@pytest.mark.parametrize("operation", ["get", "put"])
@pytest.mark.parametrize("end", ENDS)
def test_a_server_that_was_stopped_before_it_read_the_request(server, device, tmp_path, end,
                                                              operation):
    options, error = ENDS[end]
    before = server.rdma_counts()
    for interface in QUEUED:
        if operation == "put" and interface == "queue-piece":
            continue  # its upload is not there
        server.signal(signal.SIGSTOP)
        try:
            with ask(server, device, tmp_path, operation, interface, options) as program:
                if end == "cancel":
                    time.sleep(0.2)
                    tell(program)
                made = take_call(program, operation, tmp_path / "m", SIZE)
                assert made.error == error and made.registered == 0, made
                assert operation == "put" or made.is_untouched(), made
                assert judge(program, server, made)
        finally:
            server.signal(signal.SIGCONT)
    assert server.rdma_counts() == before


@pytest.mark.skipif(daemon.VARIANT != "plain", reason="ten seconds of waiting show no more there")
def test_a_call_of_miniocpp_that_outlasts_the_stop(server, device, tmp_path):
    """Silent for longer than its ten seconds, so it has withdrawn when the server finds the token;
    it waits for HTTP."""
    before = server.rdma_counts()
    server.signal(signal.SIGSTOP)
    try:
        with ask(server, device, tmp_path, "get", "miniocpp", []) as program:
            where = read_line(program)
            assert not eventually(lambda: program.poll() is not None, 12 / daemon.SLOWER)
            server.signal(signal.SIGCONT)
            made = take_end(program, "get", tmp_path / "m", SIZE, where)
            assert made.error == "OK" and made.content == BODY and made.is_untouched(SIZE), made
            assert judge(program, server, made)
    finally:
        server.signal(signal.SIGCONT)
    assert server.rdma_counts() == before


@pytest.mark.slow
@pytest.mark.parametrize("interface, end", [("queue", "deadline"), ("queue", "cancel"),
                                            ("queue-piece", "deadline"), ("queue-piece", "cancel"),
                                            ("miniocpp", None)])
def test_a_server_that_was_stopped_in_the_middle(server, device, tmp_path, interface, end):
    """A call of miniocpp cannot be given up: its server goes on before the call has to."""
    options, error = ENDS.get(end, ([], "OK"))
    for _ in range(max(3, daemon.scaled(30))):
        try:
            with ask(server, device, tmp_path, "get", interface, options) as program:
                where = read_line(program)
                time.sleep(random.random() * 0.06)
                server.signal(signal.SIGSTOP)
                if end == "cancel":
                    tell(program)
                elif end is None:
                    time.sleep(0.2)
                    server.signal(signal.SIGCONT)
                made = take_end(program, "get", tmp_path / "m", SIZE, where)
                assert made.error in ("OK", error, "RDMA_UNFENCED"), made
                only_of(made.content, made.guard, RANGE_OFF if interface == "queue-piece" else 0)
                judge(program, server, made)
        finally:
            server.signal(signal.SIGCONT)
        os.unlink(f"{tmp_path}/m.{interface}")
