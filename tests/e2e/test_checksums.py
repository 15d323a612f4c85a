# SPDX-License-Identifier: Apache-2.0
"""Bytes are what their sender said: chunked uploads, trailers, digests; a mismatch stores nothing."""
import os

import pytest

from s3raw import (CHECKSUMS, STREAM_SIGNED, STREAM_SIGNED_TRAILER, STREAM_UNSIGNED_TRAILER,
                   UNSIGNED, b64, checksum, md5)

MODES = [STREAM_SIGNED, STREAM_SIGNED_TRAILER, STREAM_UNSIGNED_TRAILER]
PIECES = [b"a" * 65536, b"b" * 8192, b"c"]
WHOLE = b"".join(PIECES)


def answer(reply):
    return reply.status, reply.code


def trailer(mode, data=WHOLE, name="crc32"):
    return None if mode == STREAM_SIGNED else [(f"x-amz-checksum-{name}", checksum(name, data))]


def wrong(value):
    """The same length, one bit off."""
    import base64
    raw = bytearray(base64.b64decode(value))
    raw[-1] ^= 1
    return b64(bytes(raw))


@pytest.fixture
def target(bucket):
    return f"/{bucket}/k"


@pytest.fixture
def old(s3, target):
    """The object that a refused PUT must leave as it is."""
    assert s3("PUT", target, b"old").status == 200
    return lambda: s3("GET", target).body == b"old"


@pytest.mark.parametrize("mode", MODES)
def test_framing_is_not_stored(s3, target, mode):
    reply = s3.stream(target, PIECES, mode, trailer(mode))
    assert reply.status == 200 and reply.etag == md5(WHOLE), reply
    got = s3("GET", target)
    assert got.body == WHOLE and "content-encoding" not in got


@pytest.mark.parametrize("mode", MODES)
def test_framing_of_parts_is_not_stored(s3, target, mode):
    upload = s3("POST", f"{target}?uploads").text("UploadId")
    part = s3.stream(f"{target}?partNumber=1&uploadId={upload}", PIECES, mode, trailer(mode))
    assert part.status == 200 and part.etag == md5(WHOLE), part
    xml = (f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part.etag}</ETag>"
           "</Part></CompleteMultipartUpload>")
    assert s3("POST", f"{target}?uploadId={upload}", xml.encode()).status == 200
    assert s3("GET", target).body == WHOLE


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", [1, 7, 4096])
def test_any_split_of_the_stream_is_the_same(s3, target, mode, step):
    data = [b"x" * 700, b"y" * 64] if step == 1 else PIECES
    reply = s3.stream(target, data, mode, trailer(mode, b"".join(data)), step=step)
    assert reply.status == 200, reply
    assert s3("GET", target).body == b"".join(data)


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_stream_is_an_empty_object(s3, target, mode):
    assert s3.stream(target, [], mode, trailer(mode, b"")).status == 200
    assert s3("HEAD", target)["content-length"] == "0"


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_without_content_encoding_is_one_all_the_same(s3, target, mode):
    reply = s3.stream(target, PIECES, mode, trailer(mode), headers=[("Content-Encoding", None)])
    assert reply.status == 200, reply
    assert s3("GET", target).body == WHOLE


@pytest.mark.parametrize("sent,kept", [("aws-chunked", None), ("gzip, aws-chunked", "gzip"),
                                       ("aws-chunked,gzip", "gzip"), ("gzip,aws-chunked", "gzip")])
def test_aws_chunked_is_no_content_encoding_of_the_object(s3, target, sent, kept):
    reply = s3.stream(target, [b"x"], STREAM_UNSIGNED_TRAILER, trailer("u", b"x"),
                      headers=[("Content-Encoding", sent)])
    assert reply.status == 200, reply
    assert s3("HEAD", target)["content-encoding"] == kept


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("decoded", [0, 1, len(WHOLE) - 1, len(WHOLE) + 1, 1 << 50])
def test_a_decoded_length_that_is_not_the_sum_is_refused(s3, target, old, mode, decoded):
    reply = s3.stream(target, PIECES, mode, trailer(mode), decoded=decoded)
    assert reply.status == 400 and reply.code in ("IncompleteBody", "InvalidRequest",
                                                  "EntityTooLarge", "InvalidArgument"), reply
    assert old()


@pytest.mark.parametrize("decoded", ["-1", "abc", "", "1.5", "99999999999999999999999"])
def test_a_decoded_length_that_is_no_number_is_refused(s3, target, old, decoded):
    reply = s3.stream(target, PIECES, STREAM_SIGNED, decoded=decoded)
    assert reply.status in (400, 411) and reply.code, reply
    assert old()


@pytest.mark.parametrize("mode", [STREAM_SIGNED_TRAILER, STREAM_UNSIGNED_TRAILER])
@pytest.mark.parametrize("case", ["missing", "another", "surplus", "not declared", "not base64",
                                  "wrong length"])
def test_trailers_must_be_those_announced(s3, target, old, mode, case):
    good = trailer(mode)
    name, value = good[0]
    sent = {"missing": [], "another": [("x-amz-checksum-sha1", checksum("sha1", WHOLE))],
            "surplus": good + [("x-amz-checksum-sha1", checksum("sha1", WHOLE))],
            "not declared": good, "not base64": [(name, "!!!!!!==")],
            "wrong length": [(name, "AAAA")]}[case]
    announced = [] if case == "not declared" else [("x-amz-trailer", name)]
    reply = s3.stream(target, PIECES, mode, sent, headers=announced or [("x-amz-trailer", None)])
    assert reply.status == 400 and reply.code in ("MalformedTrailerError", "BadDigest",
                                                  "InvalidRequest", "InvalidArgument"), reply
    assert old()


@pytest.mark.parametrize("mode", [STREAM_SIGNED_TRAILER, STREAM_UNSIGNED_TRAILER])
@pytest.mark.parametrize("name", sorted(CHECKSUMS))
def test_checksums_in_trailers_are_verified_and_kept(s3, target, mode, name):
    header, value = trailer(mode, name=name)[0]
    bad = s3.stream(target, PIECES, mode, [(header, wrong(value))])
    assert answer(bad) == (400, "BadDigest"), bad
    assert s3("GET", target).status == 404
    assert s3.stream(target, PIECES, mode, [(header, value)])[header] in (None, value)
    got = s3("GET", target, headers=[("x-amz-checksum-mode", "ENABLED")])
    assert got.body == WHOLE and got[header] == value, got.headers
    assert header not in s3("GET", target)


@pytest.mark.parametrize("name", sorted(CHECKSUMS))
def test_checksums_in_headers_are_verified_and_kept(s3, target, name):
    header, value = f"x-amz-checksum-{name}", checksum(name, b"hello")
    bad = s3("PUT", target, b"hello", [(header, wrong(value))])
    assert answer(bad) == (400, "BadDigest"), bad
    assert s3("GET", target).status == 404
    good = s3("PUT", target, b"hello", [(header, value)])
    assert good.status == 200 and good[header] == value, good
    head = s3("HEAD", target, headers=[("x-amz-checksum-mode", "ENABLED")])
    assert head[header] == value and head["x-amz-checksum-type"] == "FULL_OBJECT"
    assert header not in s3("HEAD", target)


@pytest.mark.parametrize("header,value", [
    ("x-amz-checksum-crc32", "abc"), ("x-amz-checksum-crc32", ""), ("x-amz-checksum-crc99", "AAAAAA=="),
    ("x-amz-checksum-crc64nvme", "rosUhgp5mIh="), ("x-amz-sdk-checksum-algorithm", "CRC99"),
    ("x-amz-checksum-sha256", "AAAA")])
def test_odd_checksum_headers_are_refused(s3, target, old, header, value):
    reply = s3("PUT", target, b"123456789", [(header, value)])
    assert reply.status == 400 and reply.code, reply
    assert old()


def test_two_checksums_at_once_are_refused(s3, target, old):
    reply = s3("PUT", target, b"x", [("x-amz-checksum-crc32", checksum("crc32", b"x")),
                                     ("x-amz-checksum-sha1", checksum("sha1", b"x"))])
    assert reply.status == 400, reply
    assert old()


def test_without_any_checksum_the_server_keeps_its_own(s3, target):
    s3("PUT", target, b"123456789")
    got = s3("GET", target, headers=[("x-amz-checksum-mode", "ENABLED")])
    assert got["x-amz-checksum-crc64nvme"] == "rosUhgp5mIg="


@pytest.mark.parametrize("case", ["size -1", "size too large", "no line end", "long size line",
                                  "no hex", "no signature", "last signature", "first signature",
                                  "a byte of the data", "nothing after the last", "no last chunk",
                                  "surplus"])
def test_broken_chunks_are_refused(s3, target, old, case):
    def mangle(chunks):
        first, last = chunks[0], chunks[-1]
        size, rest = first.split(b";", 1)
        if case == "size -1":
            chunks[0] = b"-1;" + rest
        elif case == "size too large":
            chunks[0] = b"fffffffffffffffff;" + rest
        elif case == "no line end":
            chunks[0] = first.replace(b"\r\n", b"  ", 1)
        elif case == "long size line":
            chunks[0] = size + b";x=" + b"y" * 10240 + b";" + rest
        elif case == "no hex":
            chunks[0] = b"zz;" + rest
        elif case == "no signature":
            chunks[0] = size + b"\r\n" + first.split(b"\r\n", 1)[1]
        elif case == "last signature":
            at = last.index(b"=") + 1
            chunks[-1] = last[:at] + (b"0" if last[at:at + 1] != b"0" else b"1") + last[at + 1:]
        elif case == "first signature":
            at = first.index(b"=") + 1
            chunks[0] = first[:at] + (b"0" if first[at:at + 1] != b"0" else b"1") + first[at + 1:]
        elif case == "a byte of the data":
            chunks[1] = chunks[1][:-3] + b"Z\r\n"
        elif case == "nothing after the last":
            chunks[-1] = last[:-2]
        elif case == "no last chunk":
            chunks.pop()
        else:
            chunks.append(b"more")
        return chunks

    with s3.connect() as conn:
        try:
            reply = s3.stream(target, PIECES, STREAM_SIGNED, mangle=mangle, conn=conn)
        except EOFError:
            reply = None
    if reply is not None:
        assert reply.status in (400, 403) and reply.code, reply
        if "signature" in case or case == "a byte of the data":
            assert answer(reply) in ((403, "SignatureDoesNotMatch"), (400, "InvalidRequest"),
                                     (400, "IncompleteBody")), reply
    else:
        assert case in ("nothing after the last", "surplus"), "closed without an answer"
    assert old()


@pytest.mark.parametrize("value,code", [("", "InvalidDigest"), ("abc", "InvalidDigest"),
                                        ("A" * 24, "InvalidDigest"),
                                        (b64(bytes(16)), "BadDigest"),
                                        (b64(bytes(15)), "InvalidDigest")])
def test_content_md5_is_judged(s3, target, old, value, code):
    reply = s3("PUT", target, b"abc", [("Content-MD5", value)])
    assert answer(reply) == (400, code), reply
    assert old()


def test_a_right_content_md5_is_fine(s3, target):
    assert s3("PUT", target, b"abc", [("Content-MD5", b64(bytes.fromhex(md5(b"abc"))))]).status == 200


def test_a_presigned_checksum_of_nothing_refuses_something(s3, target):
    url = s3.presign("PUT", target, extra=[("x-amz-checksum-crc32", "AAAAAA=="),
                                           ("x-amz-sdk-checksum-algorithm", "CRC32")])
    reply = s3("PUT", url, b"abc", anonymous=True)
    assert answer(reply) == (400, "BadDigest"), reply
    assert s3("GET", target).status == 404
    assert s3("PUT", url, b"", anonymous=True).status == 200


DELETE = b"<Delete><Object><Key>k</Key></Object></Delete>"


def test_batch_delete_needs_no_md5_but_checks_what_is_given(s3, bucket, target, old):
    for headers in ([("x-amz-checksum-crc32", wrong(checksum("crc32", DELETE)))],
                    [("Content-MD5", b64(bytes(16)))]):
        assert answer(s3("POST", f"/{bucket}?delete", DELETE, headers)) == (400, "BadDigest")
        assert old()
    for headers in ([("x-amz-checksum-crc32", checksum("crc32", DELETE))],
                    [("Content-MD5", b64(bytes.fromhex(md5(DELETE))))], []):
        s3("PUT", target, b"again")
        reply = s3("POST", f"/{bucket}?delete", DELETE, headers)
        assert reply.status == 200 and reply.texts("Key") == ["k"], reply
        assert s3("GET", target).status == 404


def test_a_large_stream_is_byte_exact(s3, target):
    pieces = [os.urandom(1 << 20) for _ in range(12)] + [b"tail"]
    data = b"".join(pieces)
    for mode in MODES:
        reply = s3.stream(target, pieces, mode, trailer(mode, data))
        assert reply.status == 200, reply
        assert s3("GET", target).body == data


def test_unsigned_payload_with_a_checksum_header(s3, target):
    reply = s3("PUT", target, b"abc", [("x-amz-checksum-crc32c", checksum("crc32c", b"abd"))],
               sha256=UNSIGNED)
    assert answer(reply) == (400, "BadDigest")
