# SPDX-License-Identifier: Apache-2.0
"""Reading: ranges, parts, conditions, and what a name that looks like a folder means."""
import os
import time

import pytest

from s3raw import UNSIGNED, md5

MIB = 1 << 20
BODY = bytes(range(256)) * 40


def answer(reply):
    return reply.status, reply.code


@pytest.fixture
def target(s3, bucket):
    assert s3("PUT", f"/{bucket}/k", BODY).status == 200
    return f"/{bucket}/k"


@pytest.mark.parametrize("value,first,last", [
    ("bytes=0-0", 0, 0), ("bytes=5-14", 5, 14), ("bytes=0-", 0, 10239), ("bytes=10239-", 10239, 10239),
    ("bytes=-1", 10239, 10239), ("bytes=-99999", 0, 10239), ("bytes=10-99999999999", 10, 10239),
    ("bytes=0-18446744073709551615", 0, 10239)])
def test_a_range_is_206_and_exact(s3, target, value, first, last):
    for method in ("GET", "HEAD"):
        reply = s3(method, target, headers=[("Range", value)])
        assert reply.status == 206, reply
        assert reply["content-range"] == f"bytes {first}-{last}/10240"
        assert reply["content-length"] == str(last - first + 1)
        assert reply.etag == md5(BODY)
        if method == "GET":
            assert reply.body == BODY[first:last + 1]


@pytest.mark.parametrize("value", ["bytes=10240-", "bytes=10240-20000", "bytes=-0",
                                   "bytes=18446744073709551615-"])
def test_a_range_outside_is_416(s3, target, value):
    reply = s3("GET", target, headers=[("Range", value)])
    assert answer(reply) == (416, "InvalidRange"), reply
    assert reply["content-range"] in (None, "bytes */10240")
    head = s3("HEAD", target, headers=[("Range", value)])
    assert head.status == 416 and head.body == b""


@pytest.mark.parametrize("value", ["bytes=5-4", "bytes=a-b", "bytes=", "bytes", "items=0-1", "",
                                   "bytes=0--1", "bytes=--1", "bytes=1-2-3", "bytes=0x1-2",
                                   "bytes=0-1,5-6", "bytes=99999999999999999999-"])
def test_a_range_that_is_none_gives_the_whole_or_an_error_never_a_wrong_piece(s3, target, value):
    reply = s3("GET", target, headers=[("Range", value)])
    if reply.status == 200:
        assert reply.body == BODY
    else:
        assert reply.status in (400, 416) and reply.code, reply


@pytest.mark.parametrize("value,status", [("bytes=0-0", 416), ("bytes=0-", 416), ("bytes=-1", 416),
                                          (None, 200)])
def test_ranges_of_an_empty_object(s3, bucket, value, status):
    s3("PUT", f"/{bucket}/empty")
    reply = s3("GET", f"/{bucket}/empty", headers=[("Range", value)] if value else [])
    assert reply.status == status, reply
    assert reply.code == ("InvalidRange" if status == 416 else None)


@pytest.fixture(scope="module")
def parts(server):
    """An object of three parts: its target, their bytes, its ETag."""
    s3 = server.s3()
    s3("PUT", "/three-parts")
    target, pieces = "/three-parts/k", [os.urandom(5 * MIB), os.urandom(5 * MIB + 3), b"tail"]
    upload = s3("POST", f"{target}?uploads").text("UploadId")
    xml = ""
    for n, piece in enumerate(pieces, 1):
        part = s3("PUT", f"{target}?partNumber={n}&uploadId={upload}", piece, sha256=UNSIGNED)
        xml += f"<Part><PartNumber>{n}</PartNumber><ETag>{part.etag}</ETag></Part>"
    done = s3("POST", f"{target}?uploadId={upload}",
              f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode())
    assert done.status == 200 and done.text("ETag"), done
    return target, pieces, done.text("ETag").strip('"')


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_part_is_read_by_its_number(s3, parts, number):
    target, pieces, etag = parts
    for method in ("GET", "HEAD"):
        reply = s3(method, f"{target}?partNumber={number}")
        first = sum(map(len, pieces[:number - 1]))
        size = len(pieces[number - 1])
        assert reply.status == 206 and reply.etag == etag, reply
        assert reply["x-amz-mp-parts-count"] == "3"
        assert reply["content-length"] == str(size)
        assert reply["content-range"] == \
            f"bytes {first}-{first + size - 1}/{sum(map(len, pieces))}"
        assert method == "HEAD" or reply.body == pieces[number - 1]


@pytest.mark.parametrize("number,status", [("4", 416), ("0", 400), ("-1", 400), ("abc", 400),
                                           ("10001", 400), ("", 400), ("1.5", 400)])
def test_part_numbers_that_are_not_there_are_refused(s3, parts, number, status):
    reply = s3("GET", f"{parts[0]}?partNumber={number}")
    assert reply.status == status and reply.code, reply


def test_a_part_number_with_a_range_is_refused(s3, parts):
    reply = s3("GET", f"{parts[0]}?partNumber=1", headers=[("Range", "bytes=0-1")])
    assert reply.status == 400 and reply.code, reply


def test_an_object_in_one_piece_has_one_part(s3, target):
    reply = s3("GET", f"{target}?partNumber=1")
    assert reply.status == 206 and reply.body == BODY
    assert reply["content-range"] == "bytes 0-10239/10240"
    assert s3("GET", f"{target}?partNumber=2").status == 416


def test_a_part_without_a_byte_is_no_partial_content(s3, bucket):
    """A 206 must have a Content-Range, and of nothing there is none."""
    target = f"/{bucket}/k"
    s3("PUT", target)
    assert s3("GET", f"{target}?partNumber=2").status == 416
    empty = s3("GET", f"{target}?partNumber=1")
    upload = s3("POST", f"{target}?uploads").text("UploadId")
    tags = [s3("PUT", f"{target}?partNumber={n}&uploadId={upload}", piece, sha256=UNSIGNED).etag
            for n, piece in ((1, b"5" * 5 * MIB), (2, b""))]
    xml = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>"
                  for n, tag in enumerate(tags, 1))
    assert s3("POST", f"{target}?uploadId={upload}",
              f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode()).status == 200
    last = s3("GET", f"{target}?partNumber=2", headers=[("x-amz-checksum-mode", "ENABLED")])
    for reply in (empty, last):
        assert (reply.status, reply["content-length"], reply.body) == (200, "0", b""), reply
        assert "content-range" not in reply
    # What is known of the whole is not said of a part.
    assert last["x-amz-mp-parts-count"] == "2" and "x-amz-checksum-crc64nvme" not in last


def test_ranges_cross_parts(s3, parts):
    target, pieces, _ = parts
    whole = b"".join(pieces)
    for first, last in ((0, len(whole) - 1), (5 * MIB - 1, 5 * MIB), (5 * MIB, 5 * MIB),
                        (10 * MIB, len(whole) - 2), (MIB + 7, 9 * MIB + 11)):
        reply = s3("GET", target, headers=[("Range", f"bytes={first}-{last}")])
        assert reply.status == 206 and reply.body == whole[first:last + 1], (first, last)


GOOD, BAD = "GOOD", '"00000000000000000000000000000000"'


def date(offset):
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + offset))


@pytest.mark.parametrize("conditions,status", [
    ({"If-Match": GOOD}, 200), ({"If-Match": BAD}, 412), ({"If-Match": "*"}, 200),
    ({"If-Match": f"{BAD}, {GOOD}"}, 200), ({"If-Match": "BARE"}, 200),
    ({"If-Match": f"W/{GOOD}"}, (200, 412)),
    ({"If-None-Match": GOOD}, 304), ({"If-None-Match": BAD}, 200), ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": f"{BAD}, {GOOD}"}, 304), ({"If-None-Match": f"W/{GOOD}"}, 304),
    ({"If-Modified-Since": date(-3600)}, 200), ({"If-Modified-Since": "NOW"}, 304),
    ({"If-Unmodified-Since": date(3600)}, 200), ({"If-Unmodified-Since": date(-3600)}, 412),
    ({"If-Modified-Since": "yesterday"}, 200), ({"If-Unmodified-Since": "tomorrow"}, 200),
    ({"If-Match": GOOD, "If-Unmodified-Since": date(-3600)}, 200),
    ({"If-None-Match": BAD, "If-Modified-Since": "NOW"}, 200),
    ({"If-None-Match": GOOD, "If-Modified-Since": date(-3600)}, 304),
    ({"If-Match": BAD, "If-None-Match": GOOD}, 412), ({"If-Match": GOOD, "If-None-Match": GOOD}, 304)])
def test_conditions(s3, target, conditions, status):
    tag = f'"{md5(BODY)}"'
    now = s3("HEAD", target)["last-modified"]
    headers = [(n, v.replace("GOOD", tag).replace("BARE", md5(BODY)).replace("NOW", now))
               for n, v in conditions.items()]
    for method in ("GET", "HEAD"):
        with s3.connect() as conn:
            reply = s3(method, target, headers=headers, conn=conn)
            assert reply.status in (status if isinstance(status, tuple) else (status,)), reply
            if reply.status == 304:
                assert reply.etag == md5(BODY) and reply.body == b""
                assert reply["content-length"] in (None, str(len(BODY)))
            elif reply.status == 412 and method == "GET":
                assert reply.code == "PreconditionFailed"
            assert s3("GET", target, conn=conn).body == BODY


def test_not_modified_tells_a_cache_what_it_must_know(s3, bucket):
    kept = [("Cache-Control", "max-age=5"), ("Expires", "Thu, 01 Jan 2032 00:00:00 GMT")]
    etag = s3("PUT", f"/{bucket}/k", BODY, [*kept, ("Content-Type", "a/b")])["etag"]
    for method in ("GET", "HEAD"):
        reply = s3(method, f"/{bucket}/k", headers=[("If-None-Match", etag)])
        assert reply.status == 304 and reply["etag"] == etag and reply["last-modified"]
        assert [(n, reply[n]) for n, _ in kept] == kept and "content-type" not in reply


def test_conditions_come_before_the_range(s3, target):
    far = ("Range", "bytes=99999-")
    assert s3("GET", target, headers=[far, ("If-Match", BAD)]).status == 412
    assert s3("GET", target, headers=[far, ("If-None-Match", f'"{md5(BODY)}"')]).status == 304
    assert s3("GET", target, headers=[far]).status == 416


def test_if_range_gives_the_range_only_of_the_object_it_names(s3, target):
    piece = ("Range", "bytes=0-9")
    same = s3("GET", target, headers=[piece, ("If-Range", f'"{md5(BODY)}"')])
    assert same.status == 206 and same.body == BODY[:10]
    other = s3("GET", target, headers=[piece, ("If-Range", BAD)])
    assert other.status == 200 and other.body == BODY


def test_a_folder_is_no_object_until_it_is_put(s3, bucket):
    s3("PUT", f"/{bucket}/dir/x", b"x")
    for method in ("GET", "HEAD"):
        for name in ("dir", "dir/"):
            assert s3(method, f"/{bucket}/{name}").status == 404
    assert s3("DELETE", f"/{bucket}/dir/").status == 204
    assert s3("DELETE", f"/{bucket}/dir").status == 204
    assert s3("GET", f"/{bucket}/dir/x").body == b"x"
    assert s3("PUT", f"/{bucket}/dir/").status == 200
    assert s3("GET", f"/{bucket}/dir").status == 404
    assert s3("HEAD", f"/{bucket}/dir/")["content-length"] == "0"
    s3("DELETE", f"/{bucket}/dir/x")
    assert s3("GET", f"/{bucket}/dir/").status == 200
    assert s3("GET", f"/{bucket}/dir/x").status == 404
    assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == ["dir/"]


def test_head_says_what_get_says(s3, target):
    get, head = s3("GET", target), s3("HEAD", target)
    skip = {"date", "x-amz-request-id", "x-amz-id-2"}
    assert {(n.lower(), v) for n, v in get.headers if n.lower() not in skip} == \
        {(n.lower(), v) for n, v in head.headers if n.lower() not in skip}


def test_get_of_a_missing_bucket_or_key(s3, bucket):
    assert answer(s3("GET", f"/{bucket}/none")) == (404, "NoSuchKey")
    assert answer(s3("GET", "/no-such-bucket-e2e/none")) == (404, "NoSuchBucket")
    assert s3("HEAD", f"/{bucket}/none").status == 404
    assert s3("HEAD", "/no-such-bucket-e2e").status == 404
