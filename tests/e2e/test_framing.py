# SPDX-License-Identifier: Apache-2.0
"""What HTTP leaves room for: every ambiguity is a 400 and a close, every answer in step."""
import hashlib
import os
import threading
import time

import pytest

from daemon import SLOWER, eventually, scaled
from s3raw import UNSIGNED, md5

MIB = 1 << 20


@pytest.fixture
def key(s3, bucket):
    """An object of 300 bytes."""
    target = f"/{bucket}/key"
    assert s3("PUT", target, b"0123456789" * 30).status == 200
    return target


def refused_and_closed(conn, statuses=(400,), by_library=False):
    """What the HTTP library refuses by itself has no request id, and may be closed unanswered."""
    try:
        reply = conn.read_reply()
    except EOFError:
        assert by_library, "closed without an answer"
        return
    assert reply.status in statuses, reply
    if by_library and reply["x-amz-request-id"] is None:
        conn.read_to_end()
        return
    assert reply["x-amz-request-id"] and reply.code, reply
    assert reply["content-type"] == "application/xml"
    assert conn.is_closed(), "the connection stayed open"


def still_serves(s3, key):
    assert s3("GET", key).body == b"0123456789" * 30


def swap(head, old, new):
    assert old in head
    return head.replace(old, new, 1)


SMUGGLED = b"GET /minio/health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("first,second", [(3, 50), (50, 3), (0, 3), (3, 0)])
def test_two_different_lengths_are_refused(s3, bucket, first, second):
    head = s3.head("PUT", f"/{bucket}/k", sha256=UNSIGNED, length=None)
    head = swap(head, b"\r\n\r\n",
                f"\r\nContent-Length: {first}\r\nContent-Length: {second}\r\n\r\n".encode())
    with s3.connect() as conn:
        conn.send(head + b"abc" + SMUGGLED)
        refused_and_closed(conn)
    assert s3("GET", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("extra", [
    b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Content-Length: 3\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding: xchunked",
    b"Content-Length: 3\r\nTransfer-Encoding : chunked"])
def test_transfer_encoding_beside_anything_else_is_refused(s3, bucket, extra):
    head = s3.head("PUT", f"/{bucket}/k", sha256=UNSIGNED, length=None)
    with s3.connect() as conn:
        conn.send(swap(head, b"\r\n\r\n", b"\r\n" + extra + b"\r\n\r\n") + b"3\r\nabc\r\n0\r\n\r\n"
                  + SMUGGLED)
        refused_and_closed(conn, (400, 501))
    assert s3("GET", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("length", [b"-1", b"+3", b"3 3", b"0x3", b"3,3", b"", b"abc",
                                    b"99999999999999999999999"])
def test_a_length_that_is_no_number_is_refused(s3, bucket, length):
    head = s3.head("PUT", f"/{bucket}/k", sha256=UNSIGNED, length=None)
    with s3.connect() as conn:
        conn.send(swap(head, b"\r\n\r\n", b"\r\nContent-Length: " + length + b"\r\n\r\n") + b"abc")
        refused_and_closed(conn, (400, 411, 413), by_library=True)
    assert s3("GET", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("where", ["one line", "all lines", "the end"])
def test_bare_line_feeds_are_refused(s3, key, where):
    head = s3.head("GET", key)
    if where == "all lines":
        head = head.replace(b"\r\n", b"\n")
    elif where == "one line":
        head = swap(head, b"\r\nx-amz-date", b"\nx-amz-date")
    else:
        head = head[:-4] + b"\r\n\n"
    with s3.connect() as conn:
        conn.send(head)
        refused_and_closed(conn)
    still_serves(s3, key)


@pytest.mark.parametrize("fold", [b"\r\n x-amz-meta-a: 1", b"\r\n\tfolded"])
def test_folded_headers_are_refused(s3, key, fold):
    head = s3.head("GET", key)
    with s3.connect() as conn:
        conn.send(swap(head, b"\r\nx-amz-content", fold + b"\r\nx-amz-content"))
        refused_and_closed(conn, by_library=True)
    still_serves(s3, key)


@pytest.mark.parametrize("part,with_nul", [
    (b"x-a: bar\r\n", b"x-a: bar\0\0: hidden\r\n"), (b"x-a: bar\r\n", b"x-a: bar\0hidden\r\n"),
    (b"x-a: bar\r\n", b"x-a: bar\0\0\r\n"), (b"x-a: bar", b"x-a\0\0: bar"),
    (b" HTTP/1.1\r\n", b"\0hidden HTTP/1.1\r\n"), (b" HTTP/1.1\r\n", b" HTTP/1.1\0\0hidden\r\n"),
    (b"GET ", b"GET\0\0 "), (b"GET ", b"GET  "), (b"\r\n\r\n", b"\0\0\r\n\r\n")])
def test_a_nul_hides_nothing_and_blanks_do_not_pile_up(s3, key, part, with_nul):
    head = s3.head("GET", key, [("x-a", "bar")])
    with s3.connect() as conn:
        conn.send(swap(head, part, with_nul))
        refused_and_closed(conn, by_library=True)
    still_serves(s3, key)


def test_a_large_head_in_small_pieces_is_read_whole(s3, key):
    head = s3.head("GET", key, [(f"x-a{i}", "b" * 300) for i in range(45)])
    with s3.connect() as conn:
        conn.send_slowly(head, 701, 0.005)
        assert conn.read_reply().status == 200


@pytest.mark.parametrize("target", [b"/%s/a b", b"/%s/a HTTP/1.1", b"/%s/a\tb"])
def test_a_raw_blank_in_the_target_is_refused(s3, bucket, target):
    target = target.replace(b"%s", bucket.encode())
    with s3.connect() as conn:
        conn.send(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        refused_and_closed(conn, by_library=True)


JUNK = [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, b"GET\r\n\r\n", b"\r\n" * 50,
        b"GET / HTTP/9.9\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\n: empty name\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nx: \x00\r\n\r\n", b"G", b"GET / HTTP/1.1\r\nHost: a\r\n", b""]


@pytest.fixture(scope="module")
def impatient(module_servers):
    """A server that waits two seconds for what does not come."""
    server = module_servers.start(options=["--head-timeout-s", "2", "--idle-timeout-s", "2"])
    assert server.s3()("PUT", "/impatient").status == 200
    return server


def test_junk_neither_hangs_nor_harms(impatient):
    s3 = impatient.s3()
    conns = [s3.connect(timeout=60 * SLOWER) for _ in JUNK]
    for conn, junk in zip(conns, JUNK):
        conn.send(junk)
    for conn, junk in zip(conns, JUNK):
        data = conn.read_to_end()
        assert not data or data.startswith(b"HTTP/1.") and b" 200 " not in data.split(b"\r\n")[0], \
            (junk, data)
        conn.close()
    assert s3("GET", "/").status == 200


def test_heads_that_never_end_are_swept(impatient):
    s3 = impatient.s3()
    head = s3.head("GET", "/")
    with s3.connect(timeout=60 * SLOWER) as conn:
        end = time.monotonic() + 60 * SLOWER
        with pytest.raises(OSError):
            while time.monotonic() < end:
                conn.send(head[:1])
                head = head[1:] or b"x"
                time.sleep(0.2)
        assert not conn.read_to_end()
    assert s3("GET", "/").status == 200


def test_a_request_without_host_is_refused(s3, key):
    with s3.connect() as conn:
        conn.send(f"GET {key} HTTP/1.1\r\n\r\n".encode())
        assert conn.read_reply().status == 400
    still_serves(s3, key)


@pytest.mark.parametrize("method", ["BREW", "TRACE", "CONNECT", "PATCH"])
def test_other_methods_are_refused_with_a_code(s3, key, method):
    with s3.connect() as conn:
        reply = s3(method, key, conn=conn)
        assert reply.status in (400, 405, 501), reply
        assert reply.code in ("MethodNotAllowed", "NotImplemented", "InvalidRequest"), reply
    still_serves(s3, key)


# ---- where a body ends ----

def test_a_body_that_comes_late_is_not_an_empty_object(s3, bucket):
    body = os.urandom(200000)
    for first in (0, 1, 199999):
        head = s3.head("PUT", f"/{bucket}/k", length=len(body),
                       sha256=hashlib.sha256(body).hexdigest())
        with s3.connect() as conn:
            conn.send(head)
            time.sleep(0.05)
            conn.send(body[:first])
            assert conn.is_silent(0.15), "answered before the body was there"
            conn.send(body[first:])
            reply = conn.read_reply()
        assert reply.status == 200 and reply.etag == md5(body), reply
        assert s3("GET", f"/{bucket}/k").body == body


def test_many_bodies_in_pieces_at_once_are_stored_whole(server, s3, bucket):
    bodies = [os.urandom(50000 + i * 7919) for i in range(24)]
    wrong = []

    def upload(i):
        head = s3.head("PUT", f"/{bucket}/k{i}", length=len(bodies[i]), sha256=UNSIGNED)
        with s3.connect() as conn:
            conn.send(head)
            conn.send_slowly(bodies[i], step=30011, pause=0.005)
            reply = conn.read_reply()
            if reply.etag != md5(bodies[i]):
                wrong.append((i, reply))

    threads = [threading.Thread(target=upload, args=(i,)) for i in range(len(bodies))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    for i, body in enumerate(bodies):
        assert s3("GET", f"/{bucket}/k{i}").body == body


def test_a_body_cut_short_stores_nothing(impatient):
    s3, key = impatient.s3(), "/impatient/cut"
    assert s3("PUT", key, b"old").status == 200
    for sent in (0, 1, 99999):
        head = s3.head("PUT", key, length=100000, sha256=UNSIGNED)
        with s3.connect() as conn:
            conn.send(head + b"x" * sent)
            conn.sock.shutdown(1)
            rest = conn.read_to_end()
            assert not rest.startswith(b"HTTP/1.1 2"), rest
    assert s3("GET", key).body == b"old"


@pytest.mark.parametrize("decoded,status,code", [(None, 411, "MissingContentLength"), (7, 200, None),
                                                 (6, 400, "IncompleteBody"), (8, 400, "IncompleteBody")])
def test_chunked_bodies_need_their_length_said(s3, bucket, decoded, status, code):
    headers = [("Transfer-Encoding", "chunked")]
    headers += [("x-amz-decoded-content-length", str(decoded))] if decoded else []
    head = s3.head("PUT", f"/{bucket}/k", headers, length=None, sha256=UNSIGNED)
    with s3.connect() as conn:
        conn.send(head + b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n")
        reply = conn.read_reply()
    assert (reply.status, reply.code) == (status, code), reply
    got = s3("GET", f"/{bucket}/k")
    assert got.body == b"abcdefg" if status == 200 else got.status == 404


def test_a_put_without_any_length_stores_no_more_than_nothing(s3, bucket):
    with s3.connect() as conn:
        reply = s3("PUT", f"/{bucket}/k", conn=conn, length=None)
    assert reply.status == 200 or (reply.status, reply.code) == (411, "MissingContentLength")
    assert s3("GET", f"/{bucket}/k").body in (b"",) or s3("GET", f"/{bucket}/k").status == 404


def test_a_body_on_get_does_not_become_the_next_request(s3, key):
    with s3.connect() as conn:
        reply = s3("GET", key, SMUGGLED, conn=conn)
        if reply.status == 200 and not reply.closes:
            assert s3("GET", key, conn=conn).body == b"0123456789" * 30
        else:
            assert conn.is_closed()


# ---- Expect ----

def test_a_bad_signature_is_told_without_waiting_for_the_body(server, s3, bucket):
    wrong = server.s3(secret="wrong")
    for headers, length in (([("Expect", "100-continue")], 1000),
                            ([("Expect", "100-continue"), ("Transfer-Encoding", "chunked")], None)):
        head = wrong.head("PUT", f"/{bucket}/k", headers, length=length, sha256=UNSIGNED)
        with s3.connect() as conn:
            conn.send(head)
            reply = conn.read_reply(interim=True)
            assert reply.status in (403, 411), reply


def test_a_good_request_gets_100_then_its_answer(s3, bucket):
    body = b"y" * 100000
    head = s3.head("PUT", f"/{bucket}/k", [("Expect", "100-continue")], length=len(body),
                   sha256=UNSIGNED)
    with s3.connect() as conn:
        conn.send(head)
        assert conn.read_reply(interim=True).status == 100
        conn.send(body)
        assert conn.read_reply().etag == md5(body)
        assert s3("GET", f"/{bucket}/k", conn=conn).body == body


@pytest.mark.parametrize("case,headers,answer", [
    ("no bucket", [], (404, "NoSuchBucket")),
    ("bad md5", [("Content-MD5", "abc")], (400, "InvalidDigest")),
    ("too large", [], (400, "EntityTooLarge")),
    ("exists", [("If-None-Match", "*")], (412, "PreconditionFailed"))])
def test_what_is_known_before_the_body_is_told_before_the_body(s3, bucket, key, case, headers,
                                                               answer):
    target = "/nosuchbucket-e2e/k" if case == "no bucket" else key
    length = 6 << 40 if case == "too large" else 1000
    head = s3.head("PUT", target, [("Expect", "100-continue"), *headers], length=length,
                   sha256=UNSIGNED)
    with s3.connect() as conn:
        conn.send(head)
        reply = conn.read_reply(interim=True)
        assert (reply.status, reply.code) == answer, reply


def test_a_refusal_reaches_a_client_that_sends_its_body_all_the_same(server, s3, bucket):
    wrong = server.s3(secret="wrong")
    head = wrong.head("PUT", f"/{bucket}/k", length=64 * MIB, sha256=UNSIGNED)
    for _ in range(3):
        with s3.connect() as conn:
            conn.send(head)

            def push():
                try:
                    for _ in range(64):
                        conn.send(b"z" * MIB)
                except OSError:
                    pass

            thread = threading.Thread(target=push)
            thread.start()
            reply = conn.read_reply()
            assert reply.status == 403, reply
            assert reply.code == "SignatureDoesNotMatch"
            conn.close()
            thread.join()


# ---- connections that are kept ----

def test_head_has_no_body_and_stays_in_step(s3, bucket, key):
    with s3.connect() as conn:
        for target in (f"/{bucket}/missing", "/nosuchbucket-e2e", key, f"/{bucket}",
                       f"/{bucket}/missing", key):
            reply = s3("HEAD", target, conn=conn)
            assert reply.status in (200, 404) and reply["x-amz-request-id"]
            if target != f"/{bucket}":
                assert reply["content-length"] == s3("GET", target, conn=conn)["content-length"]
            got = s3("GET", key, conn=conn)
            assert got.status == 200 and got.body == b"0123456789" * 30


def test_pipelined_requests_are_answered_in_order(s3, bucket, key):
    wanted, requests = [], []
    for i in range(40):
        if i % 4 == 0:
            requests.append(s3.head("GET", f"/{bucket}/missing{i}"))
            wanted.append(("GET", 404, None))
        elif i % 4 == 1:
            requests.append(s3.head("PUT", f"/{bucket}/p{i}", length=5, sha256=UNSIGNED) + b"p%04d" % i)
            wanted.append(("PUT", 200, md5(b"p%04d" % i)))
        elif i % 4 == 2:
            requests.append(s3.head("HEAD", key))
            wanted.append(("HEAD", 200, md5(b"0123456789" * 30)))
        else:
            requests.append(s3.head("GET", f"/{bucket}/p{i - 2}"))
            wanted.append(("GET", 200, md5(b"p%04d" % (i - 2))))
    with s3.connect() as conn:
        conn.send(b"".join(requests))
        ids = set()
        for method, status, etag in wanted:
            reply = conn.read_reply(method)
            assert (reply.status, reply.etag) == (status, etag), reply
            ids.add(reply["x-amz-request-id"])
        assert len(ids) == len(wanted), "two replies share a request id"


def test_nothing_of_one_reply_is_in_the_next(s3, bucket, key):
    assert s3("PUT", f"/{bucket}/meta", b"m", [("x-amz-meta-only", "1"), ("Content-Type", "a/b"),
                                               ("Cache-Control", "no-store")]).status == 200
    with s3.connect() as conn:
        for i in range(150):
            reply = s3("GET", f"/{bucket}/meta", conn=conn)
            assert reply["x-amz-meta-only"] == "1" and reply["content-type"] == "a/b"
            reply = s3("GET", key, conn=conn)
            assert "x-amz-meta-only" not in reply and "cache-control" not in reply
            assert "content-range" not in reply and reply["content-type"] != "a/b"
            reply = s3("GET", f"/{bucket}/missing{i}", conn=conn)
            assert reply.status == 404 and "etag" not in reply and "last-modified" not in reply


def test_close_is_honoured(s3, key):
    with s3.connect() as conn:
        reply = s3("GET", key, conn=conn, headers=[("Connection", "close")])
        assert reply.closes and conn.is_closed()


# ---- sizes ----

def test_headers_have_limits_and_stay_inside_them(s3, bucket, key):
    assert s3("GET", key, headers=[("x-custom", "v" * 7000)]).status == 200
    many = [(f"x-custom-{i}", "v") for i in range(60)]
    assert s3("GET", key, headers=many).status == 200


@pytest.mark.parametrize("case", ["200 headers", "20 KiB of headers", "one of 20 KiB",
                                  "target of 20 KiB", "500 signed names", "1 MiB of headers"])
def test_headers_over_the_limits_are_refused(s3, bucket, key, case):
    target, headers, signed = key, [], None
    if case == "200 headers":
        headers = [(f"x-custom-{i}", "v") for i in range(200)]
    elif case == "20 KiB of headers":
        headers = [(f"x-custom-{i}", "v" * 300) for i in range(70)]
    elif case == "one of 20 KiB":
        headers = [("x-custom", "v" * 20000)]
    elif case == "target of 20 KiB":
        target = f"/{bucket}/{'k' * 20000}"
    elif case == "1 MiB of headers":
        headers = [(f"x-custom-{i}", "v" * 10000) for i in range(100)]
    else:
        signed = ["host", "x-amz-content-sha256", "x-amz-date"] + [f"x-{i}" for i in range(500)]
    with s3.connect() as conn:
        try:
            conn.send(s3.head("GET", target, headers, signed=signed))
            reply = conn.read_reply()
        except (ConnectionError, EOFError):
            assert case == "1 MiB of headers"
            return
        assert reply.status in (400, 403, 414, 431), reply
        if case in ("200 headers", "20 KiB of headers"):
            assert reply.code == "RequestHeaderSectionTooLarge", reply
    still_serves(s3, key)


def test_two_kib_of_metadata_come_back(s3, bucket):
    assert s3("PUT", f"/{bucket}/k", b"", [("x-amz-meta-a", "v" * 2047)]).status == 200
    assert s3("HEAD", f"/{bucket}/k")["x-amz-meta-a"] == "v" * 2047


@pytest.mark.parametrize("stored", [[(f"x-amz-meta-{i}", "v") for i in range(95)],
                                    [("Content-Disposition", "d" * 15000)]], ids=["rows", "bytes"])
def test_whatever_could_be_stored_with_an_object_comes_back(s3, bucket, stored):
    """A reply has the object's headers and many more, a request may be full of the object's."""
    target, asked = f"/{bucket}/k", [("x-amz-checksum-mode", "ENABLED"), ("Range", "bytes=1-3")]
    assert s3("PUT", target, b"hello", stored).status == 200
    assert s3("PUT", target + "-copy", headers=[("x-amz-copy-source", target)]).status == 200
    overrides = "&".join(f"response-{n}=x" for n in ("content-language", "cache-control", "expires"))
    for query in ("", "?" + overrides):
        for where in (target, target + "-copy"):
            for reply in (s3("HEAD", where + query), s3("GET", where + query),
                          s3("GET", where + query, headers=asked)):
                assert reply.status in (200, 206), reply.status
                assert [(n, reply[n]) for n, _ in stored] == stored


# ---- old clients, and proxies that speak as they did ----

def test_http_1_0_gets_a_length_and_a_close_and_may_keep_the_connection(s3, bucket, key):
    large = os.urandom(3 * MIB)
    s3("PUT", f"/{bucket}/large", large, sha256=UNSIGNED)
    for target, wanted in ((key, b"0123456789" * 30), (f"/{bucket}/large", large),
                           (f"/{bucket}/none", None), (f"/{bucket}?list-type=2", None)):
        head = swap(s3.head("GET", target), b"HTTP/1.1", b"HTTP/1.0")
        with s3.connect() as conn:
            conn.send(head)
            reply = conn.read_reply()
            assert reply["content-length"] and "transfer-encoding" not in reply
            assert wanted is None or reply.body == wanted
            assert conn.is_closed()
    kept = swap(swap(s3.head("GET", key), b"HTTP/1.1", b"HTTP/1.0"), b"\r\n",
                b"\r\nConnection: keep-alive\r\n")
    with s3.connect() as conn:
        for _ in range(2):
            conn.send(kept)
            assert conn.read_reply().body == b"0123456789" * 30
    put = swap(s3.head("PUT", f"/{bucket}/old", length=3, sha256=UNSIGNED), b"HTTP/1.1", b"HTTP/1.0")
    with s3.connect() as conn:
        conn.send(put + b"abc")
        assert conn.read_reply().etag == md5(b"abc")


# ---- peers that go away or dawdle ----

def test_resets_in_the_middle_of_a_get_leave_nothing_behind(server, s3, bucket):
    body = os.urandom(64 * MIB)
    assert s3("PUT", f"/{bucket}/big", body, sha256=UNSIGNED).status == 200
    s3("GET", f"/{bucket}/big")
    before = server.descriptors()
    for _ in range(scaled(500)):
        conn = s3.connect(rcvbuf=4096)
        conn.send(s3.head("GET", f"/{bucket}/big"))
        conn.sock.recv(1)
        conn.reset()
    assert eventually(lambda: server.descriptors() <= before + 1), (before, server.descriptors())
    got = s3("GET", f"/{bucket}/big")
    assert md5(got.body) == md5(body)


def test_resets_in_the_middle_of_a_put_store_nothing(server, s3, key):
    before = server.descriptors()
    for i in range(scaled(200)):
        conn = s3.connect()
        conn.send(s3.head("PUT", key, length=20 * MIB, sha256=UNSIGNED) + b"x" * (i * 50000 % MIB))
        conn.reset()
    assert eventually(lambda: server.descriptors() <= before + 1), (before, server.descriptors())
    still_serves(s3, key)


@pytest.mark.slow
def test_a_steady_slow_body_is_not_cut(s3, bucket):
    seconds = max(5, scaled(60))
    head = s3.head("PUT", f"/{bucket}/slow", length=seconds, sha256=UNSIGNED)
    with s3.connect() as conn:
        conn.send(head)
        for _ in range(seconds):
            conn.send(b"s")
            time.sleep(1)
        assert conn.read_reply().status == 200
    assert s3("GET", f"/{bucket}/slow").body == b"s" * seconds


def test_slow_clients_do_not_delay_others(s3, bucket, key):
    uploads = [s3.connect() for _ in range(100)]
    try:
        for conn in uploads:
            conn.send(s3.head("PUT", f"/{bucket}/slow", length=1000, sha256=UNSIGNED) + b"s")
        for _ in range(50):
            still_serves(s3, key)
        assert all(conn.is_silent(0.001) for conn in uploads), "they did not last"
    finally:
        for conn in uploads:
            conn.close()


def test_replies_have_an_id_a_date_and_a_length(s3, bucket, key):
    for method, target in (("GET", key), ("GET", f"/{bucket}/none"), ("GET", f"/{bucket}"),
                           ("DELETE", f"/{bucket}/none"), ("GET", "/"), ("PUT", f"/{bucket}/x")):
        reply = s3(method, target)
        assert reply["x-amz-request-id"] and reply["date"], (method, target, reply)
        assert reply.status == 204 or reply["content-length"] is not None
