# SPDX-License-Identifier: Apache-2.0
"""The library, through each of its interfaces, against the answers of tests/lib/answers.py: the
error, or what carried the bytes and why; the memory and what lies behind it; the requests on the
wire; and that no window is open any more when the same is asked for by HTTP."""
import contextlib
import queue

import pytest

import daemon
import scripted
from answers import (BODIES, BOUNDS, DATA, FALLBACKS, FINAL, FINAL_STATUS, MOVED, NOT_OF_RANGES,
                     PUT_FALLBACKS, PUT_MOVED, RANGES, TOO_LARGE, answer, ignored, moved,
                     object_reply, torn_after_moving, torn_before)
from callers import (CANARY, GUARD_LEN, PIECES, RANGE_OFF, TELLING, WHOLE, call, call_together,
                     read_line, running, take_call, take_end)
from scripted import error, reply

SIZE = len(DATA)
ALL = WHOLE + PIECES
GET_FALLBACKS = {**FALLBACKS, **BOUNDS}
# Those in which bytes move, or may still move: over both wires. Mere words are the same over each.
OVER_BOTH = {*MOVED, *RANGES, *PUT_MOVED, "silence", "torn before the transfer", "half a reply",
             "torn after the transfer", "wrong bytes", "more bytes than the window", "torn before",
             "a body with a 200 decline, torn", "torn after", "declined with 501", "declined",
             "took more bytes than the window", "declined, the object in the body"}


def rows(table):
    """Of a table: (device, name)."""
    return pytest.mark.parametrize(
        "device, name", [(device, name) for device in ("cma", "ofi:tcp") for name in table
                         if device == "cma" or name in OVER_BOTH], indirect=["device"])


class Made:
    """The calls, and what the server saw of each."""

    def __init__(self, server, calls):
        self.calls, self.stored = calls, server.stored
        self.requests = {name: [r for r in server.requests
                                if r.target.partition("?")[0] == f"/bucket/{name}"]
                         for name in calls}

    def __iter__(self):
        for name, made in self.calls.items():
            yield made, len(self.requests[name]), sum(bool(r.token) for r in self.requests[name])


def make(operation, path, script, interfaces, device, *options, stored=DATA, size=SIZE,
         broken=None):
    is_silent = script is scripted.silence
    # A kept connection that is closed instead of a reply costs one more request.
    is_alone = is_silent or script in (torn_before, torn_after_moving)
    with scripted.Server(stored, script) as server:
        server.is_prying, server.is_plain_broken = True, broken
        calls = (call_together if is_alone else call)(
            server, operation, path, *interfaces, size=size, device=device,
            options=["-p", "1500" if is_silent else "60000", *options])
        assert server.open_windows == []
    kept = size + GUARD_LEN if "-k" in options else 0
    assert all(made.registered == kept for made in calls.values()), calls
    return Made(server, calls)


def get(tmp_path, script, interfaces, device, *options, **more):
    return make("get", tmp_path / "got", script, interfaces, device, *options, **more)


def put(tmp_path, script, interfaces, device, *options, **more):
    """Server.stored is what the last of the calls left."""
    (tmp_path / "given").write_bytes(DATA)
    return make("put", tmp_path / "given", script, interfaces, device, *options,
                **{"stored": b"before", **more})


def is_right(made, by, reason="none"):
    """A success that says so, and the bytes."""
    if made.interface not in TELLING:
        assert made.error == "OK" and made.message == "", made
        return
    assert (made.error, made.transport, made.reason) == ("OK", by, reason), made
    assert bool(made.why) == (reason != "none"), made


def has_arrived(made):
    wanted = DATA[RANGE_OFF:] if made.interface in PIECES else DATA
    assert made.bytes == len(wanted) and made.content[:len(wanted)] == wanted, made
    assert made.is_untouched(len(wanted)), made
    if made.interface in ("s3r", "queue"):
        assert made.verified == 1, made


# ---- GET ----

def is_moved_by_one_request(made_by_each):
    for made, requests, _ in made_by_each:
        is_right(made, "rdma")
        has_arrived(made)
        assert requests == 1, made


@rows(MOVED)
def test_what_was_moved_takes_one_request(tmp_path, device, name):
    is_moved_by_one_request(get(tmp_path, MOVED[name], ALL, device))


@rows(RANGES)
def test_every_way_to_say_that_a_range_was_moved(tmp_path, device, name):
    is_moved_by_one_request(get(tmp_path, RANGES[name], PIECES, device))


@rows(GET_FALLBACKS)
def test_a_get_falls_back_with_the_reason(tmp_path, device, name):
    script, reason = GET_FALLBACKS[name]
    interfaces = WHOLE if name in NOT_OF_RANGES else ALL
    if script is scripted.silence:
        interfaces = TELLING  # miniocpp's patience cannot be told: see below
    for made, requests, tokens in get(tmp_path, script, interfaces, device, "-k"):
        is_right(made, "http", reason)
        has_arrived(made)
        assert (requests, tokens) == (2, 1), made
        assert made.interface not in TELLING or made.requests == 2, made


@rows(GET_FALLBACKS)
def test_a_get_that_requires_rdma_fails_instead(tmp_path, device, name):
    script, reason = GET_FALLBACKS[name]
    interfaces = ("s3r", "queue") if name in NOT_OF_RANGES else TELLING
    for made, requests, _ in get(tmp_path, script, interfaces, device, "-r"):
        assert (made.error, made.reason, requests) == ("RDMA_REQUIRED", reason, 1), made
        assert made.is_untouched(SIZE), made


@pytest.mark.skipif(daemon.VARIANT != "plain", reason="ten seconds of waiting show no more there")
def test_silence_is_waited_for_ten_seconds_by_miniocpp(tmp_path):
    (tmp_path / "given").write_bytes(DATA)
    with scripted.Server(DATA, scripted.silence) as server:
        server.is_prying = True
        with running(server, "get", tmp_path / "got", "miniocpp", size=SIZE) as getting, \
                running(server, "put", tmp_path / "given", "miniocpp", size=SIZE) as putting:
            got = take_call(getting, "get", tmp_path / "got", SIZE)
            given = take_call(putting, "put", tmp_path / "given", SIZE)
        assert len(server.requests) == 4 and server.open_windows == []
    assert server.stored == DATA and given.error == "OK", given
    has_arrived(got)


@rows(BODIES)
def test_the_object_in_the_body_of_the_first_reply_is_taken(tmp_path, device, name):
    script, reason = BODIES[name]
    for made, requests, _ in get(tmp_path, script, ALL, device):
        is_right(made, "http", reason)
        has_arrived(made)
        assert requests == 1, made


@pytest.mark.parametrize("interface", ALL)
def test_a_body_does_not_touch_the_memory_before_the_window_is_withdrawn(tmp_path, device,
                                                                         interface):
    """Half of the object comes along with the decline. Once the first of its bytes are seen in the
    client's memory, the window must be gone."""
    told, was_open = queue.Queue(), []

    def script(server, request, conn):
        raw = object_reply(server, request, ("x-amz-rdma-reply", "501"))
        conn.sendall(raw[:-SIZE // 2])
        where = told.get(timeout=60 * daemon.SLOWER)
        with open(f"/proc/{where['pid']}/mem", "rb", buffering=0) as memory:
            def is_touched():
                memory.seek(where["address"])
                return memory.read(16) != CANARY * 16
            assert daemon.eventually(is_touched)
        was_open.append(request.window.is_open())
        return raw[-SIZE // 2:]
    with scripted.Server(DATA, script) as server, \
            running(server, "get", tmp_path / "got", interface, size=SIZE, device=device,
                    options=["-k", "-p", "60000"]) as program:
        where = read_line(program)
        told.put(where)
        made = take_end(program, "get", tmp_path / "got", SIZE, where)
    is_right(made, "http", "declined")
    has_arrived(made)
    assert was_open == [False]


@pytest.mark.parametrize("name", FINAL)
def test_final_errors_of_a_get_come_as_themselves_with_one_request(tmp_path, name):
    status, code, _, error_name = FINAL[name]
    script = answer(error(status, code, message="told by the server"))
    for made, requests, _ in get(tmp_path, script, ALL, "cma"):
        assert requests == 1 and made.is_untouched(), made
        assert made.message.startswith(f"{code}: told by the server"), made
        if made.interface in TELLING:
            assert (made.error, made.s3_code, made.requests) == (error_name, code, 1), made
        else:
            assert made.error == "GENERIC", made


@pytest.mark.parametrize("status", FINAL_STATUS)
def test_final_statuses_with_a_reply_header_likewise(tmp_path, status):
    script = answer(reply(status, [("x-amz-rdma-reply", str(status))]))
    for made, requests, _ in get(tmp_path, script, ALL, "cma"):
        assert requests == 1 and made.is_untouched() and str(status) in made.message, made
        assert made.error == (FINAL_STATUS[status][1] if made.interface in TELLING else "GENERIC")


@pytest.mark.parametrize("name", TOO_LARGE)
def test_an_object_that_does_not_fit_is_an_error_and_stays_inside(tmp_path, name):
    for made, _, _ in get(tmp_path, TOO_LARGE[name], WHOLE, "cma", size=SIZE - 1):
        assert made.error in ("BUFFER_TOO_SMALL", "GENERIC"), made
        assert str(SIZE) in made.message and str(SIZE - 1) in made.message, made
        assert made.interface not in TELLING or made.object_bytes == SIZE, made
        assert made.is_untouched(SIZE - 1), made


def test_what_fills_the_memory_without_a_checksum_is_measured(tmp_path):
    def without(server, request, conn):
        return server.moved(request).replace(b"x-amz-checksum-crc64nvme", b"x-none")
    for made, requests, tokens in get(tmp_path, without, WHOLE, "cma"):
        assert (made.error, requests, tokens) == ("OK", 2, 1) and made.content == DATA, made
    for made, requests, _ in get(tmp_path, without, WHOLE, "cma", size=SIZE + 1):
        assert (made.error, requests, made.bytes) == ("OK", 1, SIZE), made


@pytest.mark.parametrize("script", [moved(), answer(reply(200)), answer(error(501, "X"))],
                         ids=["moved", "versitygw", "declined"])
def test_an_empty_object_is_one(tmp_path, script):
    for made, _, _ in get(tmp_path, script, WHOLE, "cma", stored=b""):
        assert made.error == "OK" and made.bytes == 0 and made.is_untouched(), made


def test_nothing_in_place_of_an_object_is_an_error(tmp_path):
    """A server that answers nothing by HTTP either."""
    def torn(server, request, conn):
        return reply(200, [server.etag(), server.checksum()])
    for made, requests, _ in get(tmp_path, answer(reply(200)), WHOLE, "cma", broken=torn):
        assert made.error in ("CHECKSUM", "GENERIC") and requests == 2, made


# ---- PUT: `piece` is a part of an upload ----


@rows(PUT_MOVED)
def test_a_put_that_was_moved_takes_one_request(tmp_path, device, name):
    made_all = put(tmp_path, PUT_MOVED[name], ALL, device)
    for made, requests, _ in made_all:
        is_right(made, "rdma")
        assert requests == 1 and made.bytes == SIZE and made.etag, made
    assert made_all.stored == DATA


@rows(PUT_FALLBACKS)
def test_a_put_falls_back_with_the_reason(tmp_path, device, name):
    script, reason = PUT_FALLBACKS[name]
    is_silent = script is scripted.silence
    made_all = put(tmp_path, script, TELLING if is_silent else ALL, device, "-k")
    for made, requests, tokens in made_all:
        is_right(made, "http", reason)
        assert (requests, tokens) == (2, 1) and made.bytes == SIZE, made
        assert made_all.requests[made.interface][-1].body == DATA
    assert made_all.stored == DATA


@rows(PUT_FALLBACKS)
def test_a_put_that_requires_rdma_fails_instead(tmp_path, device, name):
    script, reason = PUT_FALLBACKS[name]
    for made, requests, _ in put(tmp_path, script, TELLING, device, "-r"):
        assert (made.error, made.reason, requests) == ("RDMA_REQUIRED", reason, 1), made


@pytest.mark.parametrize("name", FINAL)
def test_final_errors_of_a_put_come_as_themselves_with_one_request(tmp_path, name):
    status, code, _, error_name = FINAL[name]
    made_all = put(tmp_path, answer(error(status, code)), ALL, "cma")
    for made, requests, _ in made_all:
        assert requests == 1 and made.message.startswith(code), made
        assert made.error == (error_name if made.interface in TELLING else "GENERIC"), made
    assert made_all.stored == b"before"


def test_a_server_that_stores_nothing_either_way_is_never_a_success(tmp_path):
    for made, requests, _ in put(tmp_path, ignored, ALL, "cma", broken=ignored):
        assert made.error in ("BAD_REPLY", "GENERIC") and requests == 2, made


# ---- a server that comes too late ----

@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_server_that_comes_after_the_client_gave_up_reaches_nothing(tmp_path, device,
                                                                      operation):
    """The calls are over and their memory is used for something else when it tries the tokens."""
    path = tmp_path / "m"
    path.write_bytes(DATA)
    with scripted.Server(DATA, scripted.silence) as server, contextlib.ExitStack() as stack:
        programs = [stack.enter_context(running(
            server, operation, path, interface, size=SIZE, device=device,
            options=["-k", "-r", "-w", "-p", "1500"])) for interface in TELLING]
        for program in programs:
            made = take_call(program, operation, path, SIZE)
            assert (made.error, made.reason) == ("RDMA_REQUIRED", "silent"), made
            assert read_line(program)["given_back"]
        assert len(server.requests) == len(TELLING)
        assert not any(r.window.is_open() for r in server.requests)
        for program in programs:
            program.stdin.write(b"\n")
            program.stdin.flush()
            assert read_line(program)["untouched"]
