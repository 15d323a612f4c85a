# SPDX-License-Identifier: Apache-2.0
"""Objects through callbacks (miniocpp/c_api.h), by a C program: more bytes than it may hold, and
what is left when something goes wrong in the middle."""
import json
import math
import os
import re

import pytest

import daemon
import scripted
from conftest import compile_c, moved, run
from scripted import reply

MIB = 1 << 20
PIECE = 16 * MIB


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(tmp_path_factory, "stream")


@pytest.fixture
def stream(program, environment, bucket):
    def start(mode, size, **more):
        out = run([program, bucket, mode, str(size)], {**environment, **more}, seconds=1800)
        return json.loads(out) if out else None
    return start


def pieces(size):
    return max(1, math.ceil(size / PIECE))


def test_more_bytes_than_it_may_pin_go_up_and_come_back(stream, rdma_server, s3, bucket):
    size = daemon.scaled(5 << 30) // MIB * MIB + 5
    with moved(rdma_server, puts=pieces(size), put_bytes=size, gets=pieces(size), get_bytes=size):
        said = stream("sized", size)
    assert said["wrong"] == 0
    assert said["gauge_after"] == 0
    assert PIECE <= said["gauge_max"] <= 256 * MIB, said
    assert said["grown"] <= 300 * MIB, said
    assert said["etag"].endswith(f"-{pieces(size)}"), said
    head = s3("HEAD", f"/{bucket}/k", headers=[("x-amz-checksum-mode", "ENABLED")])
    assert head["x-amz-checksum-crc64nvme"] == said["checksum"]


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
@pytest.mark.parametrize("mode", ["sized", "unsized"])
def test_sizes_around_a_piece(stream, rdma_server, mode, size):
    gets = math.ceil(size / PIECE)
    with moved(rdma_server, puts=pieces(size), put_bytes=size, gets=gets, get_bytes=size):
        said = stream(mode, size)
    assert (said["wrong"], said["gauge_after"]) == (0, 0)


def nothing_is_left(s3, bucket):
    assert s3("HEAD", f"/{bucket}/k").status == 404
    uploads = s3("GET", f"/{bucket}?uploads=").body
    assert b"<UploadId>" not in uploads, uploads


@pytest.mark.parametrize("mode", ["put-gives-up", "put-ends-early"])
@pytest.mark.parametrize("size", [1000, 9 * PIECE])
def test_an_upload_that_is_given_up_leaves_nothing(stream, s3, bucket, mode, size):
    said = stream(mode, size)
    assert said["code"] == -1 and "function" in said["error"], said
    assert said["gauge_after"] == 0
    nothing_is_left(s3, bucket)


def test_an_upload_to_no_bucket_is_the_servers_error(program, environment):
    said = json.loads(run([program, "no-such-bucket", "put-fails", str(3 * PIECE)], environment))
    assert said["code"] == -1 and said["error"].startswith("NoSuchBucket"), said
    assert said["gauge_after"] == 0


def test_a_download_that_is_given_up_leaves_nothing_registered(stream):
    stream("put", 5 * PIECE)
    said = stream("get-gives-up", 5 * PIECE)
    assert said["code"] == -1 and "function" in said["error"], said
    assert (said["gauge_after"], said["wrong"]) == (0, 0)


def test_a_missing_object_is_the_servers_error(stream):
    said = stream("get-fails", 0)
    assert said["code"] == -1 and "404" in said["error"] or "NoSuchKey" in said["error"], said


def test_an_object_replaced_in_the_middle_is_an_error_and_never_a_mix(stream):
    stream("put", 40 * PIECE)
    said = stream("get-while-it-is-replaced", 0, MINIOCPP_STREAM_INFLIGHT_PARTS="1")
    assert said["code"] == -1 and "replaced" in said["error"], said
    assert (said["gauge_after"], said["wrong"]) == (0, 0)
    assert 20 * MIB <= said["off"] <= 3 * PIECE, said


@pytest.mark.parametrize("value", ["0", "101", "-1", "4 ", "four", ""])
def test_a_bad_number_of_parts_in_flight_is_an_error_that_names_it(stream, value):
    for mode in ("put-fails", "get-fails"):
        said = stream(mode, 1, MINIOCPP_STREAM_INFLIGHT_PARTS=value)
        assert said["code"] == -3, said
        assert f"MINIOCPP_STREAM_INFLIGHT_PARTS={value}:" in said["error"], said


@pytest.mark.parametrize("value", ["1", "16", "100"])
def test_parts_in_flight_are_what_is_pinned(stream, value):
    said = stream("sized", 24 * PIECE, MINIOCPP_STREAM_INFLIGHT_PARTS=value)
    assert said["wrong"] == 0
    assert said["gauge_max"] <= int(value) * PIECE, said


@pytest.fixture
def split(tmp_path_factory, environment, bucket):
    program = compile_c(tmp_path_factory, "split")
    return lambda mode, size: json.loads(run([program, bucket, mode, str(size)], environment,
                                             seconds=1800))


def test_memory_larger_than_a_piece_is_split_and_put_together(split, rdma_server):
    size = 23 * MIB + 3
    with moved(rdma_server, puts=5, put_bytes=size, gets=10, get_bytes=2 * size - 7):
        said = split("pieces", size)
    assert said["etag"].endswith("-5"), said
    assert str(size) in said["too_small"] and str(size - 1) in said["too_small"], said


if daemon.SCALE >= 1:  # it needs 4 GiB of memory and as much on the disk
    def test_memory_larger_than_a_window_is_split_and_put_together(split, rdma_server):
        size = (4 << 30) + 5
        with moved(rdma_server, puts=17, put_bytes=size, gets=17, get_bytes=size):
            assert split("large", size)["etag"].endswith("-17")


def test_a_stream_that_is_cancelled_leaves_nothing(split, s3, bucket):
    split("cancel", 12 * PIECE)
    nothing_is_left(s3, bucket)


def test_without_a_device_it_goes_by_http(program, environment, bucket, rdma_server):
    environment["S3RDMA_DEVICE"] = "no_such_adapter"
    with moved(rdma_server):
        said = json.loads(run([program, bucket, "sized", str(3 * PIECE)], environment))
    assert (said["wrong"], said["gauge_max"]) == (0, 0)
    assert re.fullmatch(r"[0-9a-f]{32}-3", said["etag"])


# ---- as many pieces as an upload may have ----

@pytest.fixture(scope="module")
def longest(tmp_path_factory):
    return compile_c(tmp_path_factory, "longest")


@pytest.mark.parametrize("more, error", [(0, "OK"), (1, "ENTITY_TOO_LARGE")])
def test_a_stream_may_have_ten_thousand_pieces_and_no_byte_more(longest, environment, more, error):
    """Of a server that says of each piece that it has moved; nothing looks at 50 GB here."""
    def script(server, request, conn):
        return reply(200, [("ETag", f'"{"0" * 32}"'), ("x-amz-rdma-reply", "200"),
                           ("x-amz-rdma-bytes-transferred", str(5 * MIB))])

    def plain(server, request, conn):
        if request.method == "POST":
            return reply(200, body=b"<Result><UploadId>u1</UploadId><ETag>e</ETag></Result>")
        return reply(204)

    with scripted.Server(b"", script) as server:
        server.is_plain_broken = plain
        said = json.loads(run([longest, "bucket", str(50000 * MIB + more)],
                              {**environment, "AWS_ENDPOINT_URL": server.url,
                               "S3RDMA_DEVICE": "cma"}))
        parts = [r.target for r in server.requests if "partNumber" in r.target]
        last = server.requests[-1]
    assert said["error"] == error, said
    if error == "OK":
        assert len(parts) == len(set(parts)) == 10000
        assert last.method == "POST" and last.body.count(b"<PartNumber>") == 10000
    else:
        assert last.method == "DELETE" and "longer pieces" in said["message"], said
