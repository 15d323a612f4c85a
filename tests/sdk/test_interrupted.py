# SPDX-License-Identifier: Apache-2.0
"""SIGINT in the middle of a transfer: the call returns or the program is gone, nothing stays
registered and nothing half stored, and the server has all of its memory back."""
import json
import queue
import random
import signal
import time

import pytest

import daemon
import scripted
from conftest import compile_c
from interruption import end, interrupt_once_held, is_at_rest, open_uploads, start
from relay import Relay
from scripted import reply

MIB = 1 << 20
SIZE = 40 * MIB

# What is held of each so that it is in the middle: a pattern, and how many pass before it.
MODES = {
    "put": (rb"PUT /\S+/k ", 0),
    "get": (rb"GET /\S+/big ", 0),
    "put-pieces": (rb"PUT /\S+/k\?partNumber", 3),
    "get-pieces": (rb"GET /\S+/big ", 3),
    "put-stream": (rb"PUT /\S+/k\?partNumber", 3),
    "get-stream": (rb"GET /\S+/big ", 3),
    "parts": (rb"PUT /\S+/k\?partNumber", 3),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(tmp_path_factory, "interrupted")


@pytest.fixture
def big(s3, bucket):
    assert s3("PUT", f"/{bucket}/big", bytes(SIZE)).status == 200
    return bucket


def begin(program, environment, bucket, mode, url=None):
    return start([program, bucket, mode, str(SIZE)],
                 {**environment, **({"AWS_ENDPOINT_URL": url} if url else {})})


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_asks_ends_and_leaves_nothing(program, environment, rdma_server, s3, big, mode):
    pattern, after = MODES[mode]
    with Relay(rdma_server.address) as relay:
        relay.hold(pattern, after)
        started = begin(program, environment, big, mode, relay.url)
        said = json.loads(interrupt_once_held(relay, started))
    assert said == {"error": "CANCELLED", "registered": 0} and started.returncode == 0
    assert s3("HEAD", f"/{big}/k").status == 404 and open_uploads(s3, big) == []
    assert daemon.eventually(lambda: is_at_rest(rdma_server)), rdma_server.metrics()


def test_an_upload_that_is_just_being_begun_is_taken_back(program, environment):
    """Its id comes after the interruption."""
    told = queue.Queue()

    def script(server, request, conn):
        if request.method != "POST":
            return reply(204)
        told.get(timeout=60 * daemon.SLOWER).send_signal(signal.SIGINT)
        time.sleep(2)  # longer than a request goes without asking whether it is cancelled
        return reply(200, body=b"<Result><UploadId>u1</UploadId></Result>")
    with scripted.Server() as server:
        server.is_plain_broken = script
        started = begin(program, environment, "bucket", "put-stream", server.url)
        told.put(started)
        said = json.loads(end(started))
        asked = [(r.method, r.target) for r in server.requests]
    assert said == {"error": "CANCELLED", "registered": 0}
    assert asked == [("POST", "/bucket/k?uploads="), ("DELETE", "/bucket/k?uploadId=u1")]


@pytest.mark.parametrize("mode", [*MODES, "killed"])
def test_at_any_moment_all_or_nothing(program, environment, rdma_server, s3, big, mode):
    for _ in range(max(4, daemon.scaled(40))):
        started = begin(program, environment, big, mode)
        time.sleep(random.random() * 0.08)
        started.send_signal(signal.SIGINT)
        out = end(started)
        if out:
            said = json.loads(out)
            assert said["error"] in ("OK", "CANCELLED") and said["registered"] == 0, said
        assert started.returncode == (0 if out else -signal.SIGINT) and (out or mode == "killed")
        assert daemon.eventually(lambda: is_at_rest(rdma_server)), rdma_server.metrics()
        head = s3("HEAD", f"/{big}/k")
        assert head.status == 404 or int(head["content-length"]) == SIZE, head
        assert head.status == 200 or mode.startswith("get") or "OK" not in out, out
        assert open_uploads(s3, big) == []
        assert s3("DELETE", f"/{big}/k").status == 204
