# SPDX-License-Identifier: Apache-2.0
"""GetObject, PutObject and UploadPart with a token: each answer, its headers, its effect, the order.

Every test runs over each wire; the bytes really move, out of and into this process's memory."""
import hashlib
import os
import re
import socket
import subprocess
import sys
import time

import boto3
import pytest
from botocore.config import Config

from conftest import bucket_name
from daemon import SECRET, TOP, USER, eventually
from s3raw import STREAM_SIGNED, UNSIGNED, amz_date, b64, checksum, crc64nvme, md5

MIB = 1 << 20
REPLY, BYTES, STATUS = "x-amz-rdma-reply", "x-amz-rdma-bytes-transferred", "x-amz-rdma-protocol-status"
DC = "00007f5a1c400000:00400000:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e28"
RC = "014523010000000000000000000000ffffc000020a0000000000000000000000000000000000000000010000"
SHIM = "rc:00112233445566778899aabbccddeeff:00007f3b9c000000:00100000:00018a7f"
CMA = "7f2a40000000:100000:cma1:1a2b:5f00d:3:9e3779b97f4a7c15"
OFI = "0:100000:ofi1:tcp:02001f907f0000010000000000000000:1"


@pytest.fixture(scope="module")
def server(rdma_server):
    return rdma_server


@pytest.fixture
def target(bucket):
    return f"/{bucket}/k"


@pytest.fixture
def region(owner):
    with owner.region(MIB) as made:
        yield made


def ask(s3, method, target, token, headers=(), **more):
    return s3(method, target, headers=[("x-amz-rdma-token", token), *headers], **more)


def plain_error(reply, status, code=None):
    """An S3 error as without a token."""
    assert reply.status == status, reply
    assert REPLY not in reply and BYTES not in reply, reply
    assert code is None or reply.code == code, reply
    return reply


def declined(reply):
    assert (reply.status, reply.code) == (501, "NotImplemented"), reply
    assert reply[REPLY] == "501" and reply[STATUS] == "unsupported", reply
    assert BYTES not in reply
    return reply


def moved(reply, count, status=200):
    assert reply.status == status, reply
    assert reply[REPLY] == str(status) and reply[BYTES] == str(count), reply
    assert reply["content-length"] == "0" and reply.body == b"", reply
    assert reply["etag"] and reply["x-amz-request-id"]
    return reply


def upload_id(s3, target, headers=()):
    return s3("POST", f"{target}?uploads", headers=headers).text("UploadId")


def complete(s3, target, upload, etags):
    xml = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag></Part>"
                  for n, e in etags.items())
    return s3("POST", f"{target}?uploadId={upload}",
              f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode())


# ---- what moves ----

@pytest.mark.parametrize("size", [0, 1, 4095, 16 << 10, (16 << 10) + 1, MIB - 1, MIB])
def test_get_moves_the_object_and_nothing_else(s3, target, region, size):
    body = os.urandom(size)
    etag = s3("PUT", target, body)["etag"]
    with region.window() as w:
        reply = moved(ask(s3, "GET", target, w.token), size)
    assert reply["etag"] == etag and reply["last-modified"]
    assert region[:size] == body and region.is_untouched(size)


@pytest.mark.parametrize("size", [8 * MIB, 8 * MIB + 1, 33 * MIB + 12345])
def test_large_objects_move_whole_both_ways(s3, target, owner, size):
    body = os.urandom(size)
    with owner.region(size, body) as source, source.window() as w:
        moved(ask(s3, "PUT", target, w.token), size)
    assert s3("GET", target).body == body
    with owner.region(size + 4096) as into, into.window() as w:
        moved(ask(s3, "GET", target, w.token), size)
        assert into[:size] == body and into.is_untouched(size)


@pytest.mark.parametrize("first,last", [(0, 0), (5, 14), (0, 99999), (99999, 99999), (50000, 200000)])
def test_a_range_lands_at_the_start_of_the_window(s3, target, region, first, last):
    body = os.urandom(100000)
    s3("PUT", target, body)
    with region.window() as w:
        reply = ask(s3, "GET", target, w.token, [("Range", f"bytes={first}-{last}")])
    last = min(last, 99999)
    moved(reply, last - first + 1, 206)
    assert reply["content-range"] == f"bytes {first}-{last}/100000"
    assert region[:last - first + 1] == body[first:last + 1]
    assert region.is_untouched(last - first + 1)


def test_a_window_may_be_a_part_of_a_region(s3, target, region):
    s3("PUT", target, b"0123456789")
    with region.window(10, 5000) as w:
        moved(ask(s3, "GET", target, w.token, [("Range", "bytes=-4")]), 4, 206)
    assert region[5000:5004] == b"6789"
    assert region.is_untouched(0, 5000) and region.is_untouched(5004)
    region[7000:7003] = b"abc"
    with region.window(3, 7000) as w:
        moved(ask(s3, "PUT", target, w.token), 3)
    assert s3("GET", target).body == b"abc"


def test_a_part_is_got_by_its_number(s3, target, region):
    upload, pieces = upload_id(s3, target), [b"a" * (5 * MIB), b"second"]
    etags = {n: s3("PUT", f"{target}?partNumber={n}&uploadId={upload}", p, sha256=UNSIGNED)["etag"]
             for n, p in enumerate(pieces, 1)}
    done = complete(s3, target, upload, etags)
    with region.window() as w:
        reply = moved(ask(s3, "GET", f"{target}?partNumber=2", w.token), 6, 206)
    assert reply["content-range"] == f"bytes {5 * MIB}-{5 * MIB + 5}/{5 * MIB + 6}"
    assert reply["etag"] == done.text("ETag") and reply["x-amz-mp-parts-count"] == "2"
    assert region[:6] == b"second"


@pytest.mark.parametrize("size", [0, 1, 4095, (16 << 10) + 1, MIB])
def test_put_pulls_exactly_the_window(s3, target, region, size):
    body = os.urandom(size)
    region[:size] = body
    with region.window(size) as w:
        reply = moved(ask(s3, "PUT", target, w.token, [("x-amz-meta-a", "1"),
                                                       ("Content-Type", "a/b")]), size)
    assert re.fullmatch(r'"[0-9a-f]{32}-1"', reply["etag"]), reply
    assert reply["x-amz-checksum-crc64nvme"] == b64(crc64nvme(body))
    got = s3("GET", target)
    assert got.body == body and got["etag"] == reply["etag"]
    assert got["x-amz-meta-a"] == "1" and got["content-type"] == "a/b"
    assert region[:size] == body


def test_parts_over_both_wires_make_one_object(s3, target, owner):
    upload = upload_id(s3, target, [("x-amz-checksum-algorithm", "CRC64NVME"),
                                    ("x-amz-checksum-type", "FULL_OBJECT")])
    pieces, etags = [os.urandom(5 * MIB), os.urandom(5 * MIB + 1), os.urandom(77)], {}
    for number, piece in enumerate(pieces, 1):
        where = f"{target}?partNumber={number}&uploadId={upload}"
        if number == 2:
            etags[number] = s3("PUT", where, piece, sha256=UNSIGNED)["etag"]
            continue
        with owner.region(len(piece), piece) as source, source.window() as w:
            reply = moved(ask(s3, "PUT", where, w.token), len(piece))
        assert re.fullmatch(r'"[0-9a-f]{32}"', reply["etag"]), reply
        assert reply["x-amz-checksum-crc64nvme"] == b64(crc64nvme(piece))
        etags[number] = reply["etag"]
    done = complete(s3, target, upload, etags)
    digest = hashlib.md5(b"".join(bytes.fromhex(e.strip('"')) for e in etags.values())).hexdigest()
    assert done.text("ETag").strip('"') == f"{digest}-3", done
    whole = b"".join(pieces)
    assert done.text("ChecksumCRC64NVME") == b64(crc64nvme(whole))
    assert s3("GET", target).body == whole


def test_the_checksum_comes_when_asked(s3, target, region):
    s3("PUT", target, b"123456789")
    with region.window() as w:
        reply = moved(ask(s3, "GET", target, w.token, [("x-amz-checksum-mode", "ENABLED")]), 9)
        assert reply["x-amz-checksum-crc64nvme"] == "rosUhgp5mIg="
        assert "x-amz-checksum-crc64nvme" not in ask(s3, "GET", target, w.token)


@pytest.mark.parametrize("name", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
def test_a_checksum_given_with_a_put_is_verified(s3, target, region, name):
    s3("PUT", target, b"old")
    region[:5] = b"hello"
    with region.window(5) as w:
        bad = ask(s3, "PUT", target, w.token, [(f"x-amz-checksum-{name}", checksum(name, b"hallo"))])
    plain_error(bad, 400, "BadDigest")
    assert s3("GET", target).body == b"old"
    with region.window(5) as w:
        good = ask(s3, "PUT", target, w.token, [(f"x-amz-checksum-{name}", checksum(name, b"hello"))])
    moved(good, 5)
    got = s3("GET", target, headers=[("x-amz-checksum-mode", "ENABLED")])
    assert got.body == b"hello" and got[f"x-amz-checksum-{name}"] == checksum(name, b"hello")


def test_a_content_md5_given_with_a_put_is_verified(s3, target, region):
    region[:5] = b"hello"
    with region.window(5) as w:
        bad = ask(s3, "PUT", target, w.token, [("Content-MD5", b64(bytes.fromhex(md5(b"hallo"))))])
        plain_error(bad, 400, "BadDigest")
    assert s3("GET", target).status == 404


def test_a_connection_stays_in_step_over_many_transfers(s3, target, bucket, region):
    with s3.connect() as conn:
        for i in range(30):
            body = os.urandom(i * 97)
            region[:len(body)] = body
            with region.window(len(body)) as w:
                moved(ask(s3, "PUT", target, w.token, conn=conn), len(body))
            region.wipe()
            with region.window() as w:
                moved(ask(s3, "GET", target, w.token, conn=conn), len(body))
            assert region[:len(body)] == body
            with region.window() as w:
                plain_error(ask(s3, "GET", f"/{bucket}/none", w.token, conn=conn), 404)
            assert s3("GET", target, conn=conn).body == body


def test_the_payload_hash_of_a_put_may_be_of_nothing_or_unsigned(s3, target, region):
    region[:3] = b"abc"
    for sha256 in (UNSIGNED, None):
        with region.window(3) as w:
            moved(ask(s3, "PUT", target, w.token, sha256=sha256), 3)


def test_an_sdk_that_knows_no_token_moves_by_rdma_when_its_own_checksums_are_off(server, s3, target,
                                                                                 region):
    """It compares a checksum with the HTTP body, which is empty: so it must neither ask for one nor
    send the empty body's."""
    client = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=USER,
                          aws_secret_access_key=SECRET, region_name="us-east-1", config=Config(
                              request_checksum_calculation="when_required",
                              response_checksum_validation="when_required"))
    _, bucket, key = target.split("/")
    s3("PUT", target, b"hello", [("x-amz-checksum-crc32", checksum("crc32", b"hello"))])
    tokens = {}
    client.meta.events.register("before-sign.s3", lambda request, **_: request.headers.add_header(
        "x-amz-rdma-token", tokens["now"]))
    with region.window() as w:
        tokens["now"] = w.token
        got = client.get_object(Bucket=bucket, Key=key)
        assert got["Body"].read() == b"" and region[:5] == b"hello" and region.is_untouched(5)
        assert got["ResponseMetadata"]["HTTPHeaders"][BYTES] == "5"
    region[:5] = b"howdy"
    with region.window(5) as w:
        tokens["now"] = w.token
        client.put_object(Bucket=bucket, Key=key)
    assert s3("GET", target).body == b"howdy"


# ---- sizes that do not fit ----

def test_an_object_larger_than_the_window_is_refused_with_both_sizes(s3, target, region):
    s3("PUT", target, b"x" * 5000)
    with region.window(4096) as w:
        reply = plain_error(ask(s3, "GET", target, w.token), 400, "InvalidRequest")
        assert "5000" in reply.text("Message") and "4096" in reply.text("Message")
        reply = ask(s3, "GET", target, w.token, [("Range", "bytes=0-4096")])
        plain_error(reply, 400, "InvalidRequest")
        assert region.is_untouched()
        moved(ask(s3, "GET", target, w.token, [("Range", "bytes=100-4195")]), 4096, 206)
    assert region[:4096] == b"x" * 4096 and region.is_untouched(4096)


def test_a_window_of_nothing(s3, target, region):
    s3("PUT", target, b"")
    with region.window(0) as w:
        moved(ask(s3, "GET", target, w.token), 0)
        s3("PUT", target, b"x")
        plain_error(ask(s3, "GET", target, w.token), 400, "InvalidRequest")
        moved(ask(s3, "PUT", target, w.token), 0)
    assert s3("GET", target).body == b"" and region.is_untouched()


@pytest.mark.parametrize("said", ["3", "5", "0", "-1", "abc", "99999999999999999999"])
def test_a_length_that_contradicts_the_token_is_refused(s3, target, region, said):
    s3("PUT", target, b"old")
    region[:4] = b"abcd"
    with region.window(4) as w:
        reply = ask(s3, "PUT", target, w.token, [("x-amz-decoded-content-length", said)])
    plain_error(reply, 400)
    assert reply.code in ("InvalidRequest", "InvalidArgument"), reply
    assert s3("GET", target).body == b"old"


def test_a_length_that_agrees_with_the_token_is_fine(s3, target, region):
    region[:4] = b"abcd"
    with region.window(4) as w:
        moved(ask(s3, "PUT", target, w.token, [("x-amz-decoded-content-length", "4")]), 4)
    assert s3("GET", target).body == b"abcd"


def test_a_put_with_a_body_beside_its_token_is_refused(s3, target, region):
    s3("PUT", target, b"old")
    region[:4] = b"abcd"
    with region.window(4) as w:
        plain_error(ask(s3, "PUT", target, w.token, body=b"abcd"), 400, "InvalidRequest")
        with s3.connect() as conn:
            conn.send(s3.head("PUT", target, [("x-amz-rdma-token", w.token),
                                              ("Transfer-Encoding", "chunked")], length=None,
                              sha256=UNSIGNED) + b"4\r\nabcd\r\n0\r\n\r\n")
            plain_error(conn.read_reply(), 400)
        reply = s3.stream(target, [b"abcd"], STREAM_SIGNED, headers=[("x-amz-rdma-token", w.token)])
        plain_error(reply, 400)
    assert s3("GET", target).body == b"old"


# ---- who may ----

def test_a_token_that_is_not_signed_is_refused(server, s3, target, region):
    s3("PUT", target, b"old")
    region[:3] = b"new"
    before = server.rdma_counts()
    with region.window(3) as w:
        for method in ("GET", "PUT"):
            plain_error(ask(s3, method, target, w.token, unsigned=["x-amz-rdma-token"]), 403)
    assert region[:3] == b"new" and region.is_untouched(3)
    assert s3("GET", target).body == b"old" and server.rdma_counts() == before


def test_two_tokens_are_refused(s3, target, region):
    s3("PUT", target, b"old")
    with region.window(3) as w:
        for method in ("GET", "PUT"):
            reply = ask(s3, method, target, w.token, [("x-amz-rdma-token", w.token)])
            plain_error(reply, 400)
            assert reply.code in ("InvalidRequest", "InvalidArgument")
    assert region.is_untouched() and s3("GET", target).body == b"old"


def test_presigned_requests_are_declined(s3, target, region):
    s3("PUT", target, b"old")
    with region.window(3) as w:
        token = ("x-amz-rdma-token", w.token)
        for method in ("GET", "PUT"):
            url = s3.presign(method, target, headers=[token])
            declined(s3(method, url, headers=[token], anonymous=True))
            url = s3.presign(method, target)
            reply = s3(method, url, headers=[token], anonymous=True)
            assert reply.status in (403, 501), reply
    assert region.is_untouched() and s3("GET", target).body == b"old"


def test_anonymous_requests_move_nothing(s3, target, region):
    s3("PUT", target, b"old")
    with region.window(3) as w:
        for method in ("GET", "PUT"):
            plain_error(ask(s3, method, target, w.token, anonymous=True), 403, "AccessDenied")
    assert region.is_untouched() and s3("GET", target).body == b"old"


# ---- tokens that are none, or another's ----

MALFORMED = ["", "x", ":", "::::::", DC[:-1], DC + "0", DC.replace(":1:", ":2:"), RC[:-1], RC + "00",
             DC + ":00007f5a1c401000", "0x" + DC[2:], "0:10:ofi:x:0200:1", "0:10:ofi1:tcp:020:1",
             "0:10:ofi1:tcp:02zz:1", "0:10:ofi1:tcp::1", "0:10:ofi1:tcp:0200", "0:10:ofi1:tcp:0200:1:2",
             ":10:ofi1:tcp:0200:1", "0:10:ofi1::0200:1", "0:10:ofi1:tcp:0200:",
             "11111111111111111:10:ofi1:tcp:0200:1", "0:10:ofi1:tcp:" + "a" * 386 + ":1",
             CMA.replace("cma1", "cma"), CMA + ":1", CMA.rpartition(":")[0], CMA.replace("1a2b", "zz"),
             CMA.replace("5f00d", ""), CMA.replace("7f2a40000000", "17f2a400000000000"),
             "ffffffffffffffff:100000:cma1:1:1:1:1", "rc:0011", "rc:", "a" * 5000]


@pytest.mark.parametrize("token", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_tokens_are_refused_and_named(server, s3, target, token):
    s3("PUT", target, b"old")
    before = server.rdma_counts()
    for method in ("GET", "PUT"):
        reply = plain_error(ask(s3, method, target, token), 400, "InvalidArgument")
        assert "token" in reply.text("Message"), reply
    assert s3("GET", target).body == b"old" and server.rdma_counts() == before


def test_schemes_that_are_not_served_are_declined(server, s3, device, target):
    s3("PUT", target, b"old")
    before = server.rdma_counts()
    for token in (DC, DC + ":00007f5a1c401000:0000000000001000", RC, RC + ":00007f3b9c000000:"
                  "0000000000100000", SHIM, OFI.replace("ofi1", "ofi2"), "0:10:ofi10:xnet.1:0200:1",
                  OFI.replace("tcp", "uet.1"), OFI.replace("tcp", "efa"), CMA.replace("cma1", "cma2"),
                  OFI if device == "cma" else CMA):
        for method in ("GET", "PUT"):
            declined(ask(s3, method, target, token))
    assert s3("GET", target).body == b"old" and server.rdma_counts() == before


def test_dc_tokens_may_have_a_suffix_that_narrows_and_no_other(s3, target):
    s3("PUT", target, b"x" * 5000)
    inside = DC + ":00007f5a1c401000:0000000000001000"
    declined(ask(s3, "GET", target, inside))
    for suffix in (":00007f5a1c3fffff:0000000000001000", ":00007f5a1c401000:0000000000400000",
                   ":ffffffffffffffff:0000000000001000", ":00007f5a1c401000:ffffffffffffffff"):
        plain_error(ask(s3, "GET", target, DC + suffix), 400, "InvalidArgument")


def change(token, field, to):
    parts = token.split(":")
    parts[field] = to(parts[field]) if callable(to) else to
    return ":".join(parts)


def plus(amount):
    return lambda digits: f"{int(digits, 16) + amount:x}"


# What is changed: the field, how, and whether both schemes have it.
TAMPERED = [("key", -1, plus(1)), ("key of zeros", -1, "0"), ("larger size", 1, plus(MIB)),
            ("much larger size", 1, "7fffffffffffffff"), ("size that wraps", 1, "ffffffffffffffff"),
            ("shifted by one", 0, plus(1)), ("shifted by a page", 0, plus(4096)),
            ("shifted far", 0, "fffffffffffff000")]
TAMPERED_CMA = [("shifted down", 0, plus(-4096)), ("another slot", 5, plus(1)),
                ("a slot far away", 5, "ffffffffffffffff"), ("another start", 4, plus(1)),
                ("the parent's pid", 3, lambda _: f"{os.getppid():x}"), ("no pid", 3, "0"),
                ("the first pid", 3, "1"), ("a pid of 64 bits", 3, "ffffffffffffffff")]
TAMPERED_OFI = [("another port", 4, lambda name: name[:4] + "0009" + name[8:]),
                ("another address of this host", 4, lambda name: name[:8] + "7f000002" + name[16:]),
                ("an address elsewhere", 4, lambda name: name[:8] + "c6336401" + name[16:]),
                ("another wire", 3, "tcp;ofi_rxm")]


def test_a_changed_token_fails_and_touches_nothing(server, s3, device, owner, bucket):
    body = os.urandom(3 * MIB)
    s3("PUT", f"/{bucket}/k", body, sha256=UNSIGNED)
    own = (TAMPERED_CMA + [("the server's pid", 3, f"{server.pid:x}")] if device == "cma"
           else TAMPERED_OFI)
    for case, field, to in TAMPERED + own:
        with owner.region(5 * MIB) as region:
            # A window in the middle: a shift stays inside the region, so that only rules stop it.
            # The object is larger than the window: a larger size would leave it, a part would not.
            with region.window(2 * MIB, MIB) as w:
                token = change(w.token, field, to)
                for method, part in (("GET", [("Range", f"bytes=0-{2 * MIB - 1}")]),
                                     ("GET", [("Range", "bytes=0-0")]), ("GET", []), ("PUT", [])):
                    reply = ask(s3, method, f"/{bucket}/k", token, part)
                    assert reply.status in (400, 501, 503), (case, reply)
                    assert (REPLY in reply) == (reply.status == 501), (case, reply)
                assert region.is_untouched(), case
                assert s3("GET", f"/{bucket}/k").etag == md5(body), case
        # The next honest one of this process works.
        with owner.region(3 * MIB) as region, region.window() as w:
            moved(ask(s3, "GET", f"/{bucket}/k", w.token), 3 * MIB)
            assert region[:] == body


def test_after_a_withdrawal_nothing_lands_and_nothing_is_pulled(server, s3, target, region):
    s3("PUT", target, b"o" * 100000)
    for end in ("freed", "reported"):
        w = region.window()
        token = w.token
        if end == "reported":
            w.report_failure()
        else:
            w.close()
        before = server.rdma_counts()
        for method in ("GET", "PUT"):
            plain_error(ask(s3, method, target, token), 503, "RDMATransferError")
        assert region.is_untouched() and server.rdma_counts() == before
        w.close()
    assert s3("GET", target).body == b"o" * 100000


def test_a_window_without_a_region_is_gone(s3, target, owner):
    s3("PUT", target, b"x" * 1000)
    region = owner.region(4096)
    w = region.window()
    token = w.token
    region.close()
    plain_error(ask(s3, "GET", target, token), 503, "RDMATransferError")
    w.close()


MINT = """
import sys
sys.path.insert(0, sys.argv[1])
import rdma
owner = rdma.Owner(sys.argv[2])
window = owner.region(1 << 20).window()
print(window.token, flush=True)
sys.stdin.read()
"""


def test_a_token_of_a_dead_process_fails(server, s3, device, target, region):
    s3("PUT", target, b"x" * 1000)
    child = subprocess.Popen([sys.executable, "-c", MINT, os.path.join(TOP, "tests", "lib"), device],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    token = child.stdout.readline().strip()
    moved(ask(s3, "GET", target, token), 1000)
    child.kill()
    child.communicate()
    for method in ("GET", "PUT"):
        reply = ask(s3, method, target, token)
        assert reply.status in (501, 503), reply
    with region.window() as w:
        moved(ask(s3, "GET", target, w.token), 1000)
    assert s3("GET", target).body == b"x" * 1000


# ---- as without a token ----

def test_s3_errors_come_as_themselves(server, s3, bucket, target, region):
    etag = s3("PUT", target, b"x" * 100)["etag"]
    before = server.rdma_counts()
    with region.window() as w:
        token = ("x-amz-rdma-token", w.token)
        for method, where, headers, status, code in (
                ("GET", f"/{bucket}/none", [], 404, "NoSuchKey"),
                ("GET", "/no-such-bucket-e2e/k", [], 404, "NoSuchBucket"),
                ("PUT", "/no-such-bucket-e2e/k", [], 404, "NoSuchBucket"),
                ("GET", target, [("If-Match", '"0"')], 412, "PreconditionFailed"),
                ("GET", target, [("If-None-Match", etag)], 304, None),
                ("GET", target, [("Range", "bytes=100-")], 416, "InvalidRange"),
                ("GET", f"{target}?partNumber=2", [], 416, None),
                ("PUT", target, [("If-None-Match", "*")], 412, "PreconditionFailed"),
                ("PUT", target, [("If-Match", '"0"')], 412, "PreconditionFailed"),
                ("PUT", f"{target}?partNumber=1&uploadId=none", [], 404, "NoSuchUpload"),
                ("PUT", f"{target}?partNumber=0&uploadId=none", [], 400, "InvalidArgument"),
                ("PUT", f"/{bucket}/{'k' * 1025}", [], 400, "KeyTooLongError")):
            plain_error(s3(method, where, headers=[token, *headers]), status, code)
        wrong = server.s3(secret="wrong")
        for method in ("GET", "PUT"):
            plain_error(wrong(method, target, headers=[token]), 403, "SignatureDoesNotMatch")
            late = s3(method, target, headers=[token], date=amz_date(time.time() - 3600))
            plain_error(late, 403, "RequestTimeTooSkewed")
    assert region.is_untouched() and server.rdma_counts() == before
    assert s3("GET", target).body == b"x" * 100


def test_other_calls_ignore_a_token(server, s3, bucket, target, region):
    before = server.rdma_counts()
    s3("PUT", target, b"abc")
    with region.window() as w:
        for token in (w.token, "nonsense", DC):
            extra = [("x-amz-rdma-token", token)]
            for method, where, body, status in (
                    ("HEAD", target, b"", 200), ("GET", f"/{bucket}?list-type=2", b"", 200),
                    ("GET", f"/{bucket}", b"", 200), ("GET", "/", b"", 200),
                    ("HEAD", f"/{bucket}", b"", 200), ("GET", f"/{bucket}?location", b"", 200),
                    ("GET", f"/{bucket}?uploads", b"", 200),
                    ("POST", f"{target}?uploads", b"", 200),
                    ("POST", f"/{bucket}?delete",
                     b"<Delete><Object><Key>none</Key></Object></Delete>", 200),
                    ("DELETE", f"/{bucket}/none", b"", 204)):
                reply = s3(method, where, body, extra)
                assert reply.status == status and REPLY not in reply, (method, where, reply)
            copied = s3("PUT", f"/{bucket}/copy",
                        headers=[*extra, ("x-amz-copy-source", target)])
            assert copied.status == 200 and REPLY not in copied
        name = bucket_name()
        assert s3("PUT", f"/{name}", headers=[("x-amz-rdma-token", w.token)]).status == 200
        assert s3("DELETE", f"/{name}", headers=[("x-amz-rdma-token", w.token)]).status == 204
    assert region.is_untouched() and server.rdma_counts() == before
    assert s3("GET", f"/{bucket}/copy").body == b"abc"


# ---- the order of answers ----

def test_the_first_fault_in_the_order_is_the_answer(server, s3, device, bucket, target, region):
    s3("PUT", target, b"x" * 5000)
    none, far = f"/{bucket}/none", ("Range", "bytes=5000-")
    foreign = OFI if device == "cma" else CMA
    failed = ("If-Match", '"0"')
    with region.window(100) as w:
        small = w.token
        wrong = server.s3(secret="wrong")
        # The signature, before everything that is said of tokens.
        plain_error(ask(wrong, "GET", none, "junk"), 403, "SignatureDoesNotMatch")
        # An unsigned token, before what is there.
        plain_error(ask(s3, "GET", none, small, unsigned=["x-amz-rdma-token"]), 403)
        # Bucket and key, before the precondition, the range, the token's syntax.
        plain_error(ask(s3, "GET", none, "junk", [failed, far]), 404, "NoSuchKey")
        # The precondition, before the range.
        plain_error(ask(s3, "GET", target, "junk", [failed, far]), 412)
        # The range, before the token's syntax.
        plain_error(ask(s3, "GET", target, "junk", [far]), 416)
        # The token's syntax, before whether it is served.
        plain_error(ask(s3, "GET", target, "junk"), 400, "InvalidArgument")
        # Whether it is served, before whether the object fits.
        declined(ask(s3, "GET", target, change(foreign, 1, "1")))
        # Whether it fits, before whether there is time.
        plain_error(ask(s3, "GET", target, small, [("x-s3r-deadline-ms", "1")]), 400,
                    "InvalidRequest")
        # Uploads: the upload, before the token.
        plain_error(ask(s3, "PUT", f"{target}?partNumber=1&uploadId=none", "junk"), 404,
                    "NoSuchUpload")
        plain_error(ask(s3, "PUT", target, "junk", [("If-None-Match", "*")]), 412)
        plain_error(ask(s3, "PUT", "/no-such-bucket-e2e/k", foreign), 404, "NoSuchBucket")
    assert region.is_untouched()


def test_without_rdma_every_good_token_is_declined(module_servers, device, owner):
    server = next((s for s in module_servers.mine if s.device == "off"), None) or \
        module_servers.start("off")
    s3 = server.s3()
    name = bucket_name()
    s3("PUT", f"/{name}")
    target = f"/{name}/k"
    with owner.region(4096) as region, region.window() as w:
        plain_error(ask(s3, "GET", target, w.token), 404, "NoSuchKey")
        declined(ask(s3, "PUT", target, w.token))
        assert s3("GET", target).status == 404
        s3("PUT", target, b"old")
        for token in (w.token, DC, RC, SHIM, CMA, OFI):
            for method in ("GET", "PUT"):
                declined(ask(s3, method, target, token))
        upload = upload_id(s3, target)
        declined(ask(s3, "PUT", f"{target}?partNumber=1&uploadId={upload}", w.token))
        assert s3("GET", f"{target}?uploadId={upload}").texts("PartNumber") == []
        plain_error(ask(s3, "GET", target, "junk"), 400, "InvalidArgument")
        assert ask(s3, "HEAD", target, w.token).status == 200
        assert region.is_untouched()
    assert s3("GET", target).body == b"old"
    assert server.rdma_counts() == (0, 0, 0, 0)


# ---- time ----

@pytest.mark.parametrize("value", ["abc", "-1", "", "1.5", "99999999999999999999", "0x10"])
def test_a_patience_that_is_no_number_is_refused(s3, target, region, value):
    s3("PUT", target, b"old")
    with region.window(3) as w:
        for method in ("GET", "PUT"):
            reply = ask(s3, method, target, w.token, [("x-s3r-deadline-ms", value)])
            plain_error(reply, 400)
            assert reply.code in ("InvalidArgument", "InvalidRequest"), reply
            assert "x-s3r-deadline-ms" in reply.text("Message")
    assert region.is_untouched() and s3("GET", target).body == b"old"


def test_a_patience_must_be_signed(s3, target, region):
    s3("PUT", target, b"old")
    with region.window(3) as w:
        reply = ask(s3, "GET", target, w.token, [("x-s3r-deadline-ms", "5000")],
                    also_signed=["x-s3r-deadline-ms"])
        moved(reply, 3)


def test_what_cannot_end_in_time_is_declined_at_once(s3, target, owner):
    s3("PUT", target, os.urandom(64 * MIB), sha256=UNSIGNED)
    with owner.region(64 * MIB) as region:
        # Lets the server see how fast this wire is.
        with region.window() as w:
            moved(ask(s3, "GET", target, w.token), 64 * MIB)
        region.wipe()
        with region.window() as w:
            declined(ask(s3, "GET", target, w.token, [("x-s3r-deadline-ms", "1")],
                         also_signed=["x-s3r-deadline-ms"]))
        assert region.is_untouched()
        with region.window() as w:
            moved(ask(s3, "GET", target, w.token, [("x-s3r-deadline-ms", "60000")],
                      also_signed=["x-s3r-deadline-ms"]), 64 * MIB)


# ---- counters ----

def test_counters_move_by_exactly_what_was_acknowledged(server, s3, bucket, target, region):
    before = server.rdma_counts()
    s3("PUT", target, b"h" * 1000)
    with region.window() as w:
        moved(ask(s3, "GET", target, w.token), 1000)
        moved(ask(s3, "GET", target, w.token, [("Range", "bytes=0-9")]), 10, 206)
        plain_error(ask(s3, "GET", f"/{bucket}/none", w.token), 404)
        declined(ask(s3, "GET", target, DC))
        s3("GET", target)
    with region.window(777) as w:
        moved(ask(s3, "PUT", target, w.token), 777)
        upload = upload_id(s3, target)
        moved(ask(s3, "PUT", f"{target}?partNumber=1&uploadId={upload}", w.token), 777)
        plain_error(ask(s3, "PUT", target, w.token, [("If-None-Match", "*")]), 412)
    with region.window(0) as w:
        moved(ask(s3, "PUT", target, w.token), 0)
        moved(ask(s3, "GET", target, w.token), 0)
    after = server.rdma_counts()
    assert tuple(a - b for a, b in zip(after, before)) == (3, 1010, 3, 1554)


def test_ten_of_each_are_counted_as_ten_of_each(server, s3, target, region):
    s3("PUT", target, b"abc")
    before = server.rdma_counts()
    with region.window() as w:
        for _ in range(10):
            moved(ask(s3, "GET", target, w.token), 3)
            assert s3("GET", target).body == b"abc"
    after = server.rdma_counts()
    assert tuple(a - b for a, b in zip(after, before)) == (10, 30, 0, 0)


def test_declines_are_counted_by_reason(server, s3, target):
    s3("PUT", target, b"abc")

    def declines():
        return {k: v for k, v in server.metrics().items()
                if k.startswith("s3rdma_") and "decline" in k and "reason=" in k}

    before = declines()
    assert before, "no metric counts declines by reason"
    declined(ask(s3, "GET", target, DC))
    moved_by = {k: v - before.get(k, 0) for k, v in declines().items() if v != before.get(k, 0)}
    assert list(moved_by.values()) == [1], moved_by


def test_the_log_says_rdma_or_http_and_never_the_token(server, s3, target, region):
    s3("PUT", target, b"abc")
    with region.window() as w:
        reply = moved(ask(s3, "GET", target, w.token), 3)
        bad = ask(s3, "GET", target, w.token + ":1")
        secret = w.token.rpartition(":")[2]
    plain = s3("GET", target)
    eventually(lambda: plain["x-amz-request-id"] in server.log())
    log = server.log()
    line = {r: next(x for x in log.splitlines() if r["x-amz-request-id"] in x)
            for r in (reply, plain, bad)}
    assert "=rdma" in line[reply] and "=http" in line[plain]
    assert secret not in log


# ---- where a token may lead ----

@pytest.mark.only_device("ofi:tcp")
def test_a_token_never_makes_the_server_reach_a_third_party(s3, target, region):
    s3("PUT", target, b"abc")
    with region.window() as w:
        for address in ("c0000201", "08080808", "0a000001"):
            name = w.token.split(":")[4]
            token = change(w.token, 4, name[:8] + address + name[16:])
            for method in ("GET", "PUT"):
                declined(ask(s3, method, target, token))  # who is dialled in vain is a 503
        v6 = "0a00" + "1f90" + "00000000" + "20010db8" + "0" * 23 + "1" + "00000000"
        declined(ask(s3, "GET", target, change(w.token, 4, v6)))
        declined(ask(s3, "GET", target, change(w.token, 4, b"fi_shm://42".hex() + "00")))
    assert region.is_untouched() and s3("GET", target).body == b"abc"


@pytest.mark.only_device("ofi:tcp")
def test_an_operator_may_allow_more_peers(servers, device, owner):
    server = servers.start(device, options=["--rdma-peers", "192.0.2.0/24"])
    s3 = server.s3()
    s3("PUT", "/peers")
    s3("PUT", "/peers/k", b"abc")
    with owner.region(4096) as region, region.window() as w:
        moved(ask(s3, "GET", "/peers/k", w.token), 3)
        name = w.token.split(":")[4]
        allowed = change(w.token, 4, name[:8] + "c0000201" + name[16:])
        # It is dialled and does not answer: a transfer that failed, or one that misses its time.
        reply = ask(s3, "GET", "/peers/k", allowed, [("x-s3r-deadline-ms", "700")],
                    also_signed=["x-s3r-deadline-ms"])
        plain_error(reply, 503, "RDMATransferError")
        declined(ask(s3, "GET", "/peers/k", change(w.token, 4, name[:8] + "c6336401" + name[16:])))


def host_address():
    """An address of this host that is not loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return s.getsockname()[0]


@pytest.mark.only_device("cma")
def test_a_peer_that_is_not_loopback_gets_no_cma(servers, device, owner):
    address = host_address()
    if address is None or address.startswith("127."):
        pytest.skip("this host has no address but loopback")
    server = servers.start(device, listen="0.0.0.0:0")
    server.address = (address, server.address[1])
    s3 = server.s3()
    s3("PUT", "/peers")
    s3("PUT", "/peers/k", b"abc")
    with owner.region(4096) as region, region.window() as w:
        declined(ask(s3, "GET", "/peers/k", w.token))
        assert region.is_untouched()
        server.address = ("127.0.0.1", server.address[1])
        moved(ask(server.s3(), "GET", "/peers/k", w.token), 3)


def test_a_server_on_ipv6_knows_an_ipv4_peer(servers, device, owner):
    try:
        server = servers.start(device, listen="[::]:0")
    except AssertionError:
        with socket.socket(socket.AF_INET6) as s:
            if s.connect_ex(("::1", 9)) in (97, 99, 101):
                servers.mine.clear()
                pytest.skip("no IPv6 here")
        raise
    server.address = ("127.0.0.1", server.address[1])
    s3 = server.s3()
    s3("PUT", "/mapped")
    s3("PUT", "/mapped/k", b"abc")
    with owner.region(4096) as region, region.window() as w:
        moved(ask(s3, "GET", "/mapped/k", w.token), 3)
        assert region[:3] == b"abc"


def test_both_wires_at_once_are_told_apart_by_the_token(servers, device, owner):
    server = servers.start("cma,ofi:tcp")
    s3 = server.s3()
    s3("PUT", "/both")
    body = os.urandom(300000)
    s3("PUT", "/both/k", body)
    with owner.region(300000) as region, region.window() as w:
        moved(ask(s3, "GET", "/both/k", w.token), 300000)
        assert region[:] == body

