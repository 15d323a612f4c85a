# SPDX-License-Identifier: Apache-2.0
"""Writing: conditions, copies, metadata, and writers that race."""
import random
import threading
import time

import pytest

from daemon import SCALE
from s3raw import checksum, md5, path, quote


def answer(reply):
    return reply.status, reply.code


def copy(s3, target, source, headers=()):
    return s3("PUT", target, headers=[("x-amz-copy-source", source), *headers])


@pytest.fixture
def target(bucket):
    return f"/{bucket}/k"


def test_if_match_on_put(s3, target):
    assert answer(s3("PUT", target, b"1", [("If-Match", '"0"')])) == (404, "NoSuchKey")
    s3("PUT", target, b"1")
    assert answer(s3("PUT", target, b"2", [("If-Match", '"0"')])) == (412, "PreconditionFailed")
    assert s3("GET", target).body == b"1"
    assert s3("PUT", target, b"2", [("If-Match", f'"{md5(b"1")}"')]).status == 200
    assert s3("PUT", target, b"3", [("If-Match", md5(b"2"))]).status == 200
    assert s3("GET", target).body == b"3"


def test_if_none_match_on_put(s3, target):
    assert s3("PUT", target, b"1", [("If-None-Match", "*")]).status == 200
    assert answer(s3("PUT", target, b"2", [("If-None-Match", "*")])) == (412, "PreconditionFailed")
    reply = s3("PUT", target, b"2", [("If-None-Match", '"x"')])
    assert reply.status in (400, 501) and reply.code, reply
    assert s3("GET", target).body == b"1"


def test_one_of_many_creators_wins(s3, target):
    won = []

    def create(i):
        if s3("PUT", target, b"%d" % i, [("If-None-Match", "*")]).status == 200:
            won.append(i)

    threads = [threading.Thread(target=create, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(won) == 1 and s3("GET", target).body == b"%d" % won[0]


def test_a_counter_by_compare_and_swap_loses_no_step(s3, target):
    s3("PUT", target, b"0")
    steps = []

    def count():
        with s3.connect() as conn:
            for _ in range(8):
                now = s3("GET", target, conn=conn)
                value = int(now.body) + 1
                reply = s3("PUT", target, b"%d" % value, [("If-Match", now["etag"])], conn=conn)
                assert reply.status in (200, 409, 412), reply
                if reply.status == 200:
                    steps.append(value)
                if reply.closes:
                    conn.renew()

    threads = [threading.Thread(target=count) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert steps and sorted(steps) == list(range(1, len(steps) + 1))
    assert int(s3("GET", target).body) == len(steps)


@pytest.mark.parametrize("key", ["a!b", "a+b", "a%2Bb", "a b", "\u00e9", "a/b", "a?b", "a#b"])
def test_copy_sources_are_url_encoded(s3, bucket, target, key):
    s3("PUT", path(bucket, key), key.encode())
    for source in (path(bucket, key), path(bucket, key)[1:], quote(f"/{bucket}/{key}"),
                   quote(f"{bucket}/{key}")):
        reply = copy(s3, target, source)
        assert reply.status == 200 and reply.xml.tag == "CopyObjectResult", (source, reply)
        assert reply.text("ETag").strip('"') == md5(key.encode())
        assert s3("GET", target).body == key.encode()


def test_a_raw_source_is_taken_as_it_is(s3, bucket, target):
    s3("PUT", path(bucket, "a!b=c"), b"raw")
    assert copy(s3, target, f"/{bucket}/a!b=c").status == 200
    assert s3("GET", target).body == b"raw"


@pytest.mark.parametrize("source,answers", [
    ("/{b}/none", [(404, "NoSuchKey")]), ("/no-such-bucket-e2e/k", [(404, "NoSuchBucket")]),
    ("{b}", [(400, "InvalidArgument")]), ("", [(400, "InvalidArgument")]),
    ("/", [(400, "InvalidArgument")]), ("/{b}/", [(400, "InvalidArgument")]),
    ("/{b}/source%3FversionId=../../x", [(404, "NoSuchKey"), (400, "InvalidArgument"),
                                         (404, "NoSuchVersion")]),
    ("/{b}/source?versionId=../../x", [(404, "NoSuchVersion"), (400, "InvalidArgument"),
                                       (501, "NotImplemented")]),
    ("{b}/..%2Fx", [(404, "NoSuchKey"), (400, "InvalidArgument")]),
    ("/{b}/%zz", [(400, "InvalidArgument"), (400, "InvalidURI")]),
    ("/../../etc/passwd", [(400, "InvalidArgument"), (404, "NoSuchBucket"), (400, "InvalidBucketName")]),
    ("/{b}/a%00b", [(400, "InvalidArgument"), (400, "InvalidURI")])])
def test_sources_that_are_none(s3, bucket, target, source, answers):
    s3("PUT", f"/{bucket}/source", b"x")
    assert answer(copy(s3, target, source.format(b=bucket))) in answers
    assert s3("GET", target).status == 404


def test_a_copy_onto_itself_must_change_something(s3, target):
    s3("PUT", target, b"x", [("x-amz-meta-a", "1"), ("Content-Type", "a/b")])
    assert answer(copy(s3, target, target)) == (400, "InvalidRequest")
    assert copy(s3, target, target, [("x-amz-metadata-directive", "REPLACE"), ("x-amz-meta-b", "2"),
                                     ("Content-Type", "c/d")]).status == 200
    head = s3("HEAD", target)
    assert head["x-amz-meta-b"] == "2" and "x-amz-meta-a" not in head
    assert head["content-type"] == "c/d" and s3("GET", target).body == b"x"
    bad = copy(s3, target, target, [("x-amz-metadata-directive", "MERGE")])
    assert answer(bad) == (400, "InvalidArgument")


def test_conditions_on_the_source(s3, bucket, target):
    source = f"/{bucket}/source"
    s3("PUT", source, b"x")
    tag, name = f'"{md5(b"x")}"', "x-amz-copy-source-if-"
    old, new = "Thu, 01 Jan 2015 00:00:00 GMT", "Thu, 01 Jan 2037 00:00:00 GMT"
    for header, value, status in (("match", tag, 200), ("match", '"0"', 412),
                                  ("none-match", tag, 412), ("none-match", '"0"', 200),
                                  ("modified-since", old, 200), ("unmodified-since", old, 412),
                                  ("unmodified-since", new, 200)):
        reply = copy(s3, target, source, [(name + header, value)])
        assert reply.status == status, (header, value, reply)


@pytest.mark.parametrize("name", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
def test_a_copy_gets_the_checksum_that_is_asked_for(s3, bucket, target, name):
    assert s3("PUT", f"/{bucket}/source", b"some bytes").status == 200
    copied = s3("PUT", target, headers=[("x-amz-copy-source", f"/{bucket}/source"),
                                        ("x-amz-checksum-algorithm", name.upper())])
    wanted = checksum(name, b"some bytes")
    assert copied.status == 200 and copied.text(f"Checksum{name.upper()}") == wanted, copied
    head = s3("HEAD", target, headers=[("x-amz-checksum-mode", "ENABLED")])
    assert head[f"x-amz-checksum-{name}"] == wanted, head
    assert s3("PUT", target, headers=[("x-amz-copy-source", f"/{bucket}/source"),
                                      ("x-amz-checksum-algorithm", "MD4")]).status == 400


def test_a_large_copy_is_whole(s3, bucket, target):
    body = bytes(range(256)) * 40000
    s3("PUT", f"/{bucket}/source", body, [("x-amz-meta-a", "1")])
    assert copy(s3, target, f"/{bucket}/source").text("ETag").strip('"') == md5(body)
    got = s3("GET", target)
    assert got.body == body and got["x-amz-meta-a"] == "1"


def test_metadata_has_2048_bytes(s3, target):
    assert s3("PUT", target, b"", [("x-amz-meta-a", "v" * 2047)]).status == 200
    assert answer(s3("PUT", target, b"", [("x-amz-meta-a", "v" * 2048)])) == \
        (400, "MetadataTooLarge")
    assert s3("HEAD", target)["x-amz-meta-a"] == "v" * 2047


def test_overwriting_gives_the_new_object_whole(s3, target):
    for size in (10, 300000, 0, 17000, 5):
        body = b"%d" % size * (size // max(1, len(str(size))))
        headers = [(f"x-amz-meta-m{size}", "1")]
        assert s3("PUT", target, body, headers).etag == md5(body)
        got = s3("GET", target)
        assert got.body == body and got.etag == md5(body)
        assert [n for n in got.names if n.startswith("x-amz-meta")] == [f"x-amz-meta-m{size}"]


def test_siblings_come_and_go_without_a_server_error(s3, bucket):
    end, bad = time.monotonic() + max(2, 30 * SCALE), []

    def churn(i):
        target, there = f"/{bucket}/d/{i}", False
        with s3.connect() as conn:
            while time.monotonic() < end:
                if random.random() < 0.5:
                    status, there = s3("PUT", target, b"%d" % i, conn=conn).status, True
                else:
                    status, there = s3("DELETE", target, conn=conn).status, False
                if status >= 300:
                    bad.append(status)
            got = s3("GET", target, conn=conn)
            if got.status != (200 if there else 404):
                bad.append((i, there, got))

    threads = [threading.Thread(target=churn, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_readers_of_an_object_that_changes_see_one_version(s3, target):
    versions = {md5(b): b for b in (b"a" * 256, b"b" * 300, b"c" * 200000, b"d" * 210001)}
    bodies, end, bad = list(versions.values()), time.monotonic() + max(3, 30 * SCALE), []
    s3("PUT", target, bodies[0])

    def write(i):
        with s3.connect() as conn:
            while time.monotonic() < end:
                if s3("PUT", target, random.choice(bodies), conn=conn).status != 200:
                    bad.append("put")

    def read():
        with s3.connect() as conn:
            while time.monotonic() < end and not bad:
                got = s3("GET", target, conn=conn)
                if versions.get(got.etag) != got.body:
                    bad.append((got.status, got.etag, len(got.body)))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    threads += [threading.Thread(target=read) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad
