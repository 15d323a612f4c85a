# SPDX-License-Identifier: Apache-2.0
"""The client against every answer that a server is known to give, and worse: what the caller gets,
what is in the file or the store afterwards, and how many requests were on the wire."""
import json
import os
import re
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import scripted  # noqa: E402
from answers import (BODIES, DATA, DECLINED, FALLBACKS, FINAL, FINAL_STATUS, MOVED, OTHER,  # noqa: E402
                     PUT_FALLBACKS, PUT_MOVED, RANGES, answer, cut, moved, with_object)
from scripted import error, reply  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("S3RDMA_BUILD") or os.path.join(TOP, "build")


def s3rdma(server, *args, data=None, device="cma", environment=None):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("S3RDMA_", "AWS_", "MINIO_", "http", "HTTP"))}
    env.update(AWS_ACCESS_KEY_ID="user", AWS_SECRET_ACCESS_KEY="secret", HOME="/nonexistent",
               AWS_ENDPOINT_URL=server.url, **(environment or {}))
    if device:
        env["S3RDMA_DEVICE"] = device
    return subprocess.run([os.path.join(BUILD, "s3rdma"), *args], env=env, input=data,
                          capture_output=True, timeout=300, check=False)


class Outcome:
    def __init__(self, run, server, path=None):
        self.code, self.stderr = run.returncode, run.stderr.decode()
        lines = run.stdout.decode().splitlines()
        self.json = json.loads(lines[-1]) if lines else {}
        self.requests = len(server.requests)
        self.tokens = [r.token for r in server.requests if r.token]
        self.path = path

    @property
    def content(self):
        if not os.path.exists(self.path):
            return None
        with open(self.path, "rb") as f:
            return f.read()


def patience(script):
    """Seconds: short only where it is to run out."""
    return "1.5" if script is scripted.silence else "60"


def get(tmp_path, script, *args, stored=DATA, broken=None, keeps_open=True):
    path = tmp_path / "out"
    with scripted.Server(stored, script) as server:
        server.is_plain_broken, server.keeps_open = broken, keeps_open
        run = s3rdma(server, "get", "bucket/key", str(path), "--json", "--timeout", patience(script),
                     *args)
        outcome = Outcome(run, server, str(path))
    assert os.listdir(tmp_path) in ([], ["out"]), "something was left behind"
    return outcome


def put(tmp_path, script, *args, data=DATA, stored=b"before"):
    path = tmp_path / "in"
    path.write_bytes(data)
    with scripted.Server(stored, script) as server:
        run = s3rdma(server, "put", str(path), "bucket/key", "--json", "--timeout", patience(script),
                     *args)
        outcome = Outcome(run, server)
        outcome.stored = server.stored
    return outcome


# ---- GET ----

@pytest.mark.parametrize("script", MOVED.values(), ids=MOVED)
def test_get_that_was_moved_takes_one_request(tmp_path, script):
    got = get(tmp_path, script)
    assert (got.code, got.json["transport"], got.requests) == (0, "rdma", 1), got.stderr
    assert got.content == DATA
    assert got.json["verified"] and got.json["requests"] == 1 and "reason" not in got.json


@pytest.mark.parametrize("script", RANGES.values(), ids=RANGES)
def test_every_way_to_say_that_a_range_was_moved(tmp_path, script):
    got = get(tmp_path, script, "--range", "100-1099")
    assert (got.code, got.json["transport"], got.requests) == (0, "rdma", 1), got.stderr
    assert got.content == DATA[100:1100]


def test_an_empty_object_is_moved(tmp_path):
    got = get(tmp_path, moved(), stored=b"")
    assert (got.code, got.json["transport"], got.json["bytes"]) == (0, "rdma", 0), got.stderr
    assert got.content == b""


@pytest.mark.parametrize("script, reason", FALLBACKS.values(), ids=FALLBACKS)
def test_get_falls_back_to_http_with_the_reason(tmp_path, script, reason):
    got = get(tmp_path, script)
    assert (got.code, got.json["transport"], got.json["reason"]) == (0, "http", reason), got.stderr
    assert got.content == DATA and got.json["verified"]
    assert got.json["why"]
    assert got.requests == 2 and len(got.tokens) == 1 and got.json["requests"] == 2


@pytest.mark.parametrize("script, reason", FALLBACKS.values(), ids=FALLBACKS)
def test_get_that_requires_rdma_fails_instead(tmp_path, script, reason):
    got = get(tmp_path, script, "--require-rdma")
    assert got.code == 3, got.stderr
    assert got.json["error"] == "RDMA_REQUIRED" and got.json["message"] in got.stderr
    assert got.content is None and got.requests == 1


@pytest.mark.parametrize("script, reason", BODIES.values(), ids=BODIES)
def test_the_object_in_the_body_of_the_first_reply_is_used(tmp_path, script, reason):
    got = get(tmp_path, script)
    assert (got.code, got.json["transport"], got.json["reason"]) == (0, "http", reason), got.stderr
    assert got.content == DATA and got.requests == 1


@pytest.mark.parametrize("script, reason", BODIES.values(), ids=BODIES)
def test_the_object_in_the_body_is_no_rdma(tmp_path, script, reason):
    got = get(tmp_path, script, "--require-rdma")
    assert got.code == 3 and got.requests == 1 and got.content is None, got.stderr


def test_a_range_in_the_body_of_a_decline_is_used(tmp_path):
    got = get(tmp_path, with_object(("x-amz-rdma-reply", "501")), "--range", "5-14")
    assert (got.code, got.content, got.requests) == (0, DATA[5:15], 1), got.stderr


def test_the_whole_object_in_place_of_a_range_is_not_taken_for_it(tmp_path):
    def whole(server, request, conn):
        return reply(200, [server.etag()], server.stored)
    got = get(tmp_path, whole, "--range", "5-14", broken=whole)
    assert got.code == 1 and got.json["error"] == "BAD_REPLY", got.stderr
    assert got.content is None


@pytest.mark.parametrize("status, code, exit_code, name", FINAL.values(), ids=FINAL)
def test_final_errors_reach_the_caller_with_one_request(tmp_path, status, code, exit_code, name):
    got = get(tmp_path, answer(error(status, code, message="told by the server")))
    assert (got.code, got.requests, got.json["error"]) == (exit_code, 1, name), got.stderr
    assert code in got.stderr and "told by the server" in got.stderr
    assert got.content is None


@pytest.mark.parametrize("status", FINAL_STATUS)
def test_elbencho_s_errors_with_a_reply_header_are_final_too(tmp_path, status):
    got = get(tmp_path, answer(reply(status, [("x-amz-rdma-reply", str(status))])))
    code, name = FINAL_STATUS[status]
    assert (got.code, got.requests, got.json["error"]) == (code, 1, name), got.stderr


def test_a_redirect_is_not_followed(tmp_path):
    got = get(tmp_path, answer(reply(307, [("Location", "http://127.0.0.1:1/x")])))
    assert (got.code, got.requests) == (1, 1), got.stderr


def test_an_object_longer_than_the_buffer_never_leaves_it(tmp_path):
    """6 MiB through a window of 5 MiB: refused, then asked for in ranges."""
    big = DATA * 62
    got = get(tmp_path, moved(), "--part-size", "5MiB", stored=big)
    assert (got.code, got.json["transport"]) == (0, "rdma"), got.stderr
    assert got.content == big and got.json["verified"]


def test_a_server_that_cuts_the_object_to_the_window_is_found_out(tmp_path):
    big = DATA * 62

    got = get(tmp_path, cut, "--part-size", "5MiB", stored=big)
    assert got.code == 0 and got.content == big, got.stderr


def test_a_longer_object_by_http_never_leaves_the_buffer_either(tmp_path):
    big = DATA * 62
    got = get(tmp_path, answer(DECLINED), "--part-size", "5MiB", stored=big)
    assert (got.code, got.json["transport"]) == (0, "http"), got.stderr
    assert got.content == big and got.json["verified"]


def test_an_object_replaced_between_two_pieces_is_an_error(tmp_path):
    big = DATA * 62

    def script(server, request, conn):
        if request.range() and request.range()[0] > 0:
            assert request.headers["if-match"]
            return error(412, "PreconditionFailed")
        return server.moved(request)
    got = get(tmp_path, script, "--part-size", "5MiB", stored=big)
    assert got.code == 1 and got.content is None and got.json["error"] == "PRECONDITION", got.stderr


def test_wrong_bytes_by_http_are_an_error(tmp_path):
    def wrong(server, request, conn):
        return reply(200, [server.etag(), server.checksum()], OTHER)
    got = get(tmp_path, answer(DECLINED), broken=wrong)
    assert (got.code, got.json["error"]) == (1, "BAD_DIGEST"), got.stderr
    assert got.content is None


def test_a_torn_body_by_http_is_an_error(tmp_path):
    def torn(server, request, conn):
        conn.sendall(reply(200, [server.etag()], DATA)[:-1])
    got = get(tmp_path, answer(DECLINED), broken=torn)
    assert got.code == 6 and got.content is None, got.stderr


def test_a_body_without_an_end_is_no_object(tmp_path):
    def endless(server, request, conn):
        conn.sendall(reply(200, [server.etag()], DATA, length=-1))
    got = get(tmp_path, answer(DECLINED), broken=endless)
    assert (got.code, got.json["error"]) == (1, "BAD_REPLY") and got.content is None, got.stderr


def test_a_token_is_not_sent_again_on_a_connection_that_was_closed(tmp_path):
    """Two pieces; after the first the server closes the kept connection as the next request
    arrives. The same token must not come twice."""
    big = DATA * 62
    seen = []

    def script(server, request, conn):
        seen.append(request.token)
        if len(seen) == 3:
            return None
        return server.moved(request)
    got = get(tmp_path, script, "--part-size", "5MiB", "--require-rdma", stored=big)
    assert got.code == 0 and got.content == big, got.stderr
    assert len(seen) == len(set(seen)) >= 4


def test_connections_are_kept(tmp_path):
    big = DATA * 62
    path = tmp_path / "out"
    with scripted.Server(big, moved()) as server:
        run = s3rdma(server, "get", "bucket/key", str(path), "--json", "--part-size", "5MiB")
        assert run.returncode == 0, run.stderr
        assert server.connections == 1 and len(server.requests) == 4


def test_the_deadline_is_told_when_it_is_not_the_usual_one(tmp_path):
    for args, told in (([], None), (["--timeout", "10"], None), (["--timeout", "2.5"], "2500")):
        with scripted.Server(DATA, moved()) as server:
            run = s3rdma(server, "get", "bucket/key", str(tmp_path / "out"), *args)
            assert run.returncode == 0, run.stderr
            request = server.requests[0]
        assert request.headers.get("x-s3r-deadline-ms") == told
        signed = request.headers["authorization"]
        assert "x-amz-rdma-token" in signed and (told is None or "x-s3r-deadline-ms" in signed)
        assert "expect" not in request.headers


def test_no_proxy_of_the_environment_is_used(tmp_path):
    with scripted.Server(DATA, moved()) as server:
        run = s3rdma(server, "get", "bucket/key", str(tmp_path / "out"),
                     environment={"http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://[::1]:1"})
        assert run.returncode == 0, run.stderr


def test_without_a_device_http_is_used_and_said(tmp_path):
    with scripted.Server(DATA) as server:
        path = tmp_path / "out"
        run = s3rdma(server, "get", "bucket/key", str(path), "--json", device="mlx5_77")
        outcome = Outcome(run, server, str(path))
    assert outcome.json["reason"] == "no-device" and "mlx5_77" in outcome.json["why"]
    assert outcome.content == DATA and outcome.requests == 1


def test_no_server_is_a_code_of_its_own(tmp_path):
    with scripted.Server() as server:
        url = server.url
    server.url = url
    run = s3rdma(server, "get", "bucket/key", str(tmp_path / "out"))
    assert run.returncode == 6 and b"s3rdma: bucket/key: " in run.stderr


# ---- PUT ----

@pytest.mark.parametrize("script", PUT_MOVED.values(), ids=PUT_MOVED)
def test_put_that_was_moved_takes_one_request(tmp_path, script):
    got = put(tmp_path, script)
    assert (got.code, got.json["transport"], got.requests) == (0, "rdma", 1), got.stderr
    assert got.stored == DATA


def test_put_of_nothing_is_moved(tmp_path):
    got = put(tmp_path, moved(), data=b"")
    assert (got.code, got.json["transport"], got.stored) == (0, "rdma", b""), got.stderr


def test_the_request_with_the_token_has_no_body_and_a_signed_checksum(tmp_path):
    path = tmp_path / "in"
    path.write_bytes(DATA)
    with scripted.Server(b"", moved()) as server:
        run = s3rdma(server, "put", str(path), "bucket/key", "--metadata", "colour=blue")
        assert run.returncode == 0, run.stderr
        request = server.requests[0]
    signed = request.headers["authorization"]
    assert request.headers["content-length"] == "0"
    assert request.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    assert request.headers["x-amz-meta-colour"] == "blue"
    for name in ("x-amz-rdma-token", "x-amz-checksum-crc64nvme", "x-amz-meta-colour", "host"):
        assert name in signed, name


@pytest.mark.parametrize("script, reason", PUT_FALLBACKS.values(), ids=PUT_FALLBACKS)
def test_put_falls_back_to_http_with_the_reason(tmp_path, script, reason):
    got = put(tmp_path, script)
    assert (got.code, got.json["transport"], got.json["reason"]) == (0, "http", reason), got.stderr
    assert got.stored == DATA and got.requests == 2 and len(got.tokens) == 1


@pytest.mark.parametrize("script, reason", PUT_FALLBACKS.values(), ids=PUT_FALLBACKS)
def test_put_that_requires_rdma_fails_instead(tmp_path, script, reason):
    got = put(tmp_path, script, "--require-rdma")
    assert got.code == 3 and got.requests == 1, got.stderr


@pytest.mark.parametrize("status, code, exit_code, name", FINAL.values(), ids=FINAL)
def test_final_errors_of_put_reach_the_caller(tmp_path, status, code, exit_code, name):
    got = put(tmp_path, answer(error(status, code)))
    assert (got.code, got.requests, got.json["error"]) == (exit_code, 1, name), got.stderr
    assert got.stored == b"before"


# ---- what a terminal would obey ----

EVIL = "a\u009b31mb\x7fc"


def plain_output(answered, *args, environment=None):
    """What people see of a command whose requests are all answered so."""
    with scripted.Server(DATA, answer(answered)) as server:
        server.is_plain_broken = answer(answered)
        run = s3rdma(server, *args, environment=environment)
    shown = run.stdout + run.stderr
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", shown), shown
    return shown


def test_a_servers_words_move_no_cursor(tmp_path):
    refused = error(403, "AccessDenied", message=EVIL)
    for args in (["ls", "bucket"], ["get", "bucket/key", str(tmp_path / "out")], ["doctor"],
                 ["cp", "-r", "s3://bucket", str(tmp_path / "out")]):
        assert b"AccessDenied" in plain_output(refused, *args)
    declined = error(501, "NotImplemented", [("x-amz-rdma-reply", "501")], message=EVIL)
    with scripted.Server(DATA, answer(declined)) as server:
        run = s3rdma(server, "get", "bucket/key", str(tmp_path / "out"))
    assert run.returncode == 0 and not re.search(rb"\x7f|\xc2[\x80-\x9f]", run.stdout), run.stdout


def test_nor_do_its_headers_and_names():
    evil = EVIL.replace("\x7f", "").encode().decode("latin-1")
    head = reply(200, [("ETag", '"0"'), ("x-amz-meta-colour", evil)], length=5)
    assert b"a\\xc2\\x9b31mbc" in plain_output(head, "stat", "bucket/key")
    listing = (f"<ListBucketResult><Contents><Key>{EVIL}</Key><Size>1</Size><LastModified>{EVIL}"
               "</LastModified></Contents></ListBucketResult>").encode()
    assert plain_output(reply(200, [], listing), "ls", "bucket").count(b"a\\xc2\\x9b31mb\\x7fc") == 2
