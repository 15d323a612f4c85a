# SPDX-License-Identifier: Apache-2.0
"""The client against every answer that a server is known to give, and worse: what the caller gets,
what is in the file or the store afterwards, and how many requests were on the wire."""
import json
import os
import re
import socket
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import scripted  # noqa: E402
from scripted import error, reply  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("S3RDMA_BUILD") or os.path.join(TOP, "build")
DATA = bytes(range(256)) * 400 + b"end"
OTHER = b"\xaa" * len(DATA)


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


def tear(conn):
    """The peer sees a reset."""
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def moved(**wrong):
    return lambda server, request, conn: server.moved(request, **wrong)


def answer(raw):
    return lambda server, request, conn: raw


def with_object(*headers, status=200):
    """The object in the body, along with a decline or with nothing said."""
    def script(server, request, conn):
        body = server.stored
        more = [server.etag(), *headers]
        if status == 206:
            first, last = request.range()
            body = body[first:last + 1]
            more.append(("Content-Range",
                         f"bytes {first}-{first + len(body) - 1}/{len(server.stored)}"))
        return reply(status, more, body)
    return script


def torn_after_moving(server, request, conn):
    server.moved(request)
    tear(conn)


def torn_before(server, request, conn):
    tear(conn)


def half_a_reply(server, request, conn):
    conn.sendall(server.moved(request)[:40])
    tear(conn)


def half_a_body(server, request, conn):
    conn.sendall(reply(200, [("x-amz-rdma-reply", "501")], DATA)[:-1000])
    tear(conn)


def wrong_bytes(server, request, conn):
    answered = server.moved(request)
    request.window.write(b"\xee", 77)
    return answered


DECLINED = error(501, "NotImplemented", [("x-amz-rdma-reply", "501"),
                                         ("x-amz-rdma-protocol-status", "unsupported")])

# ---- GET ----

MOVED = {
    "AIStor and ours": moved(),
    "NooBaa's agent header": moved(headers=[("x-amz-rdma-agent", "x")]),
    "a peer's token in the reply": moved(said="200:" + "0" * 88),
    "ok": moved(said="ok"),
}


@pytest.mark.parametrize("script", MOVED.values(), ids=MOVED)
def test_get_that_was_moved_takes_one_request(tmp_path, script):
    got = get(tmp_path, script)
    assert (got.code, got.json["transport"], got.requests) == (0, "rdma", 1), got.stderr
    assert got.content == DATA
    assert got.json["verified"] and got.json["requests"] == 1 and "reason" not in got.json


def test_elbencho_s_chunked_empty_body_is_a_success(tmp_path):
    def script(server, request, conn):
        head = server.moved(request).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        return head + b"0\r\n\r\n"
    got = get(tmp_path, script)
    assert (got.code, got.json["transport"], got.requests) == (0, "rdma", 1), got.stderr


def test_the_short_name_of_the_count_is_understood(tmp_path):
    def script(server, request, conn):
        return server.moved(request).replace(b"x-amz-rdma-bytes-transferred", b"x-amz-rdma-bytes")
    got = get(tmp_path, script)
    assert (got.code, got.json["transport"], got.content) == (0, "rdma", DATA), got.stderr


RANGES = {"206 and 206": {}, "206 and 200": {"said": "200"}, "200 and 206": {"status": 200}}


@pytest.mark.parametrize("wrong", RANGES.values(), ids=RANGES)
def test_every_way_to_say_that_a_range_was_moved(tmp_path, wrong):
    got = get(tmp_path, moved(**wrong), "--range", "100-1099")
    assert (got.code, got.json["transport"], got.requests) == (0, "rdma", 1), got.stderr
    assert got.content == DATA[100:1100]


def test_an_empty_object_is_moved(tmp_path):
    got = get(tmp_path, moved(), stored=b"")
    assert (got.code, got.json["transport"], got.json["bytes"]) == (0, "rdma", 0), got.stderr
    assert got.content == b""


# What sends the client to HTTP: the script, its reason, and how often a token was sent.
FALLBACKS = {
    "declined with 501": (answer(DECLINED), "declined"),
    "501 without the reply header": (answer(error(501, "S3RdmaNotSupported")), "declined"),
    "declined with 200, XML and no object": (
        answer(error(200, "NotImplemented", [("x-amz-rdma-reply", "501")])), "declined"),
    "the transfer failed": (answer(error(503, "RDMATransferError")), "failed"),
    "NooBaa's failure": (answer(error(500, "S3RdmaIoError")), "failed"),
    "elbencho's failure": (answer(reply(500, [("x-amz-rdma-reply", "500")])), "failed"),
    "a 200 whose reply header says 500": (
        answer(reply(200, [("x-amz-rdma-reply", "500")])), "failed"),
    "another 500": (answer(error(500, "InternalError")), "server-error"),
    "slow down": (answer(error(503, "SlowDown")), "server-error"),
    "malformed token": (answer(error(400, "InvalidArgument")), "refused"),
    "400 with a reply header": (answer(reply(400, [("x-amz-rdma-reply", "400")])), "refused"),
    "a resource limit": (answer(error(429, "RdmaResourceLimit")), "refused"),
    "silence": (scripted.silence, "silent"),
    "torn before the transfer": (torn_before, "lost"),
    "torn after the transfer": (torn_after_moving, "lost"),
    "half a reply": (half_a_reply, "lost"),
    "a body with a 200 decline, torn": (half_a_body, "lost"),
    "more bytes than the window": (moved(count=1 << 62), "bad-reply"),
    "more than 64 bits": (moved(count=1 << 64), "bad-reply"),
    "a negative count": (moved(count=-1), "bad-reply"),
    "no count": (moved(count=False), "bad-reply"),
    "200xyz": (moved(said="200xyz"), "bad-reply"),
    "an empty reply header": (moved(said=" "), "bad-reply"),
    "-2": (moved(said="-2"), "bad-reply"),
    "999": (moved(said="999"), "bad-reply"),
    "two reply headers": (moved(headers=[("x-amz-rdma-reply", "501")]), "bad-reply"),
    "a range that nobody asked for": (moved(said="206"), "bad-reply"),
    "moved, and a body too": (
        answer(reply(200, [("x-amz-rdma-reply", "200"), ("x-amz-rdma-bytes-transferred", "5")],
                     OTHER)), "bad-reply"),
    "no HTTP": (answer(b"\x16\x03\x01 this is no reply\r\n\r\n"), "bad-reply"),
    "a 200 with nothing": (answer(reply(200)), "ignored"),
    "an error's XML inside a 200": (answer(error(200, "InternalError")), "ignored"),
    "304 lines of headers": (
        answer(reply(200, [(f"x-{i}", "x") for i in range(304)])), "bad-reply"),
    "wrong bytes": (wrong_bytes, "checksum"),
}


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


BODIES = {
    "declined, the object in the body": (with_object(("x-amz-rdma-reply", "501")), "declined"),
    "token not understood": (with_object(), "ignored"),
}


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
    got = get(tmp_path, with_object(("x-amz-rdma-reply", "501"), status=206), "--range", "5-14")
    assert (got.code, got.content, got.requests) == (0, DATA[5:15], 1), got.stderr


def test_the_whole_object_in_place_of_a_range_is_not_taken_for_it(tmp_path):
    def whole(server, request, conn):
        return reply(200, [server.etag()], server.stored)
    got = get(tmp_path, whole, "--range", "5-14", broken=whole)
    assert got.code == 1 and got.json["error"] == "BAD_REPLY", got.stderr
    assert got.content is None


FINAL = {
    "no such key": (404, "NoSuchKey", 4, "NO_SUCH_KEY"),
    "no such bucket": (404, "NoSuchBucket", 4, "NO_SUCH_BUCKET"),
    "access denied": (403, "AccessDenied", 5, "ACCESS_DENIED"),
    "wrong secret": (403, "SignatureDoesNotMatch", 5, "SIGNATURE"),
    "unknown user": (403, "InvalidAccessKeyId", 5, "INVALID_ACCESS_KEY"),
    "wrong clock": (403, "RequestTimeTooSkewed", 5, "TIME_SKEWED"),
    "a range past the end": (416, "InvalidRange", 1, "INVALID_RANGE"),
    "precondition": (412, "PreconditionFailed", 1, "PRECONDITION"),
    "a code of another server": (403, "SomethingOfTheirs", 5, "ACCESS_DENIED"),
}


@pytest.mark.parametrize("status, code, exit_code, name", FINAL.values(), ids=FINAL)
def test_final_errors_reach_the_caller_with_one_request(tmp_path, status, code, exit_code, name):
    got = get(tmp_path, answer(error(status, code, message="told by the server")))
    assert (got.code, got.requests, got.json["error"]) == (exit_code, 1, name), got.stderr
    assert code in got.stderr and "told by the server" in got.stderr
    assert got.content is None


def test_elbencho_s_404_with_a_reply_header_is_final_too(tmp_path):
    got = get(tmp_path, answer(reply(404, [("x-amz-rdma-reply", "404")])))
    assert (got.code, got.requests) == (4, 1), got.stderr


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

    def cut(server, request, conn):
        if request.range():
            return server.moved(request)
        request.window.write(big[:request.window.size])
        return reply(200, [server.etag(), ("x-amz-rdma-reply", "200"),
                           ("x-amz-rdma-bytes-transferred", request.window.size)])
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

PUT_MOVED = {
    "ours, NooBaa, elbencho": moved(),
    "versitygw, without the count": moved(count=False),
    "AIStor, without the reply header": moved(said=False, count=False),
    "204": moved(status=204, said="204"),
}


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


def ignored(server, request, conn):
    """A server that knows neither the token nor the checksum stores what came: nothing."""
    server.stored = b""
    return reply(200, [("ETag", f'"{scripted.EMPTY_MD5}"')])


def stored_other(server, request, conn):
    server.stored = OTHER
    return reply(200, [server.etag(), server.checksum(), ("x-amz-rdma-reply", "200")])


PUT_FALLBACKS = {
    "declined": (answer(DECLINED), "declined"),
    "declined with 200": (answer(reply(200, [("x-amz-rdma-reply", "501")])), "declined"),
    "stored nothing": (ignored, "ignored"),
    "checked the checksum of nothing": (answer(error(400, "BadDigest")), "refused"),
    "no ETag, no reply": (answer(reply(200)), "ignored"),
    "an error's XML inside a 200": (answer(error(200, "InternalError")), "bad-reply"),
    "took fewer bytes": (moved(count=5), "bad-reply"),
    "stored another checksum": (stored_other, "bad-reply"),
    "the transfer failed": (answer(error(503, "RDMATransferError")), "failed"),
    "UploadPart at versitygw": (answer(error(501, "NotImplemented")), "declined"),
    "silence": (scripted.silence, "silent"),
    "torn before": (torn_before, "lost"),
    "torn after": (torn_after_moving, "lost"),
    "garbage": (moved(said="200xyz"), "bad-reply"),
}


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


def test_a_full_disk_is_final(tmp_path):
    got = put(tmp_path, answer(error(507, "XMinioStorageFull")))
    assert (got.code, got.requests, got.json["error"]) == (1, 1, "STORE_FULL"), got.stderr


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
