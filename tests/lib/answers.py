# SPDX-License-Identifier: Apache-2.0
"""The answers to a request with a token that servers are known to give, and worse: tables of
scripts for scripted.Server, with what the client makes of each. Whoever drives the client goes
through them: tests/e2e/test_client_replies.py (the command line), test_replies.py (the library)."""
import socket
import struct

import scripted
from scripted import EMPTY_MD5, error, reply

DATA = bytes(range(256)) * 400 + b"end"
OTHER = b"\xaa" * len(DATA)


def tear(conn):
    """The peer sees a reset."""
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def moved(**wrong):
    return lambda server, request, conn: server.moved(request, **wrong)


def answer(raw):
    return lambda server, request, conn: raw


def object_reply(server, request, *headers):
    """What was asked for in the body."""
    body, status, more = server.stored, 200, [server.etag(), *headers]
    if request.range():
        first, last = request.range()
        body, status = body[first:last + 1], 206
        more.append(("Content-Range",
                     f"bytes {first}-{first + len(body) - 1}/{len(server.stored)}"))
    elif request.headers.get("x-amz-checksum-mode") == "ENABLED":
        more.append(server.checksum())
    return reply(status, more, body)


def with_object(*headers):
    """The object in the body, along with a decline or with nothing said."""
    return lambda server, request, conn: object_reply(server, request, *headers)


def in_chunks(server, request, conn):
    """The same, of a server that does not know the length when it begins."""
    raw = object_reply(server, request, ("x-amz-rdma-reply", "501"))
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = [x for x in head.split(b"\r\n") if not x.startswith(b"Content-Length")]
    lines.append(b"Transfer-Encoding: chunked\r\n\r\n")
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[:1000], body[1000:]) if c)
    return b"\r\n".join(lines) + chunks + b"0\r\n\r\n"


def torn_after_moving(server, request, conn):
    server.moved(request)
    tear(conn)


def torn_before(server, request, conn):
    tear(conn)


def half_a_reply(server, request, conn):
    conn.sendall(server.moved(request)[:40])
    tear(conn)


def half_a_body(server, request, conn):
    conn.sendall(object_reply(server, request, ("x-amz-rdma-reply", "501"))[:-1000])
    tear(conn)


def wrong_bytes(server, request, conn):
    answered = server.moved(request)
    request.window.write(b"\xee" * 77)
    return answered


def chunked_end(server, request, conn):
    """elbencho's: an empty body in chunks."""
    head = server.moved(request).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"0\r\n\r\n"


def short_name(server, request, conn):
    return server.moved(request).replace(b"x-amz-rdma-bytes-transferred", b"x-amz-rdma-bytes")


DECLINED = error(501, "NotImplemented", [("x-amz-rdma-reply", "501"),
                                         ("x-amz-rdma-protocol-status", "unsupported")])

# ---- GET ----

# Moved: one request, by RDMA.
MOVED = {
    "AIStor and ours": moved(),
    "NooBaa's agent header": moved(headers=[("x-amz-rdma-agent", "x")]),
    "a peer's token in the reply": moved(said="200:" + "0" * 88),
    "ok": moved(said="ok"),
    "elbencho's empty body in chunks": chunked_end,
    "the short name of the count": short_name,
}

# The ways to say that a range was moved.
RANGES = {
    "206 and 206": moved(),
    "206 and 200": moved(said="200"),
    "200 and 206": moved(status=200),
    "without the count": moved(count=False),
}

# What leads to one request by HTTP: the script and the reason.
FALLBACKS = {
    "declined with 501": (answer(DECLINED), "declined"),
    "501 without the reply header": (answer(error(501, "S3RdmaNotSupported")), "declined"),
    "declined with 200, XML and no object": (
        answer(error(200, "NotImplemented", [("x-amz-rdma-reply", "501")])), "declined"),
    "declined with 400": (answer(error(400, "InvalidArgument", [("x-amz-rdma-reply", "501")])),
                          "declined"),
    "declined with 503": (answer(error(503, "SlowDown", [("x-amz-rdma-reply", "501")])),
                          "declined"),
    "ours failed": (answer(error(503, "RDMATransferError")), "failed"),
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
    "bytes that are no text": (moved(said="\x80\xff"), "bad-reply"),
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
# The command line asks for the object's length first; memory is what it is.
BOUNDS = {"bounds that do not fit": (answer(error(400, "InvalidRequest")), "refused")}
# Of a range they are a success, or cannot be told from one.
NOT_OF_RANGES = ("no count", "a range that nobody asked for", "wrong bytes")

# The object in the body of the first reply: no second request, and it was not by RDMA.
BODIES = {
    "declined, the object in the body": (with_object(("x-amz-rdma-reply", "501")), "declined"),
    "declined, the object in chunks": (in_chunks, "declined"),
    "token not understood": (with_object(), "ignored"),
}

# Final: status, the server's code, the exit code of s3rdma, the error's name.
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
    "a full disk": (507, "XMinioStorageFull", 1, "STORE_FULL"),
}

# The same in elbencho's way, without a document: the reply header has the status.
FINAL_STATUS = {404: (4, "NO_SUCH_KEY"), 416: (1, "INVALID_RANGE"), 403: (5, "ACCESS_DENIED"),
                412: (1, "PRECONDITION")}


def cut(server, request, conn):
    """As much as fits into the window, as if that were all."""
    if request.range():
        return server.moved(request)
    request.window.write(server.stored[:request.window.size])
    return reply(200, [server.etag(), ("x-amz-rdma-reply", "200"),
                       ("x-amz-rdma-bytes-transferred", request.window.size)])


def cut_with_checksum(server, request, conn):
    return cut(server, request, conn).replace(b"ETag", b"%s: %s\r\nETag" % tuple(
        x.encode() for x in server.checksum()), 1)


# An object that is larger than the memory.
TOO_LARGE = {
    "ours": moved(),
    "versitygw": answer(error(500, "InternalError")),
    "NooBaa, elbencho": cut,
    "cut, with the whole's checksum": cut_with_checksum,
    "ceph": with_object(("x-amz-rdma-reply", "501")),
    "declined": answer(DECLINED),
}

# ---- PUT ----

PUT_MOVED = {
    "ours, NooBaa, elbencho": moved(),
    "versitygw, without the count": moved(count=False),
    "AIStor, without the reply header": moved(said=False, count=False),
    "204": moved(status=204, said="204"),
}


def ignored(server, request, conn):
    """A server that knows neither the token nor the checksum stores what came: nothing."""
    server.stored = b""
    return reply(200, [("ETag", f'"{EMPTY_MD5}"')])


def stored_other(server, request, conn):
    server.stored = OTHER
    return reply(200, [server.etag(), server.checksum(), ("x-amz-rdma-reply", "200")])


PUT_FALLBACKS = {
    "declined": (answer(DECLINED), "declined"),
    "declined with 200": (answer(reply(200, [("x-amz-rdma-reply", "501")])), "declined"),
    "stored nothing": (ignored, "ignored"),
    "checked the checksum of nothing": (answer(error(400, "BadDigest")), "refused"),
    "malformed token": (answer(error(400, "InvalidArgument")), "refused"),
    "no ETag, no reply": (answer(reply(200)), "ignored"),
    "an error's XML inside a 200": (answer(error(200, "InternalError")), "bad-reply"),
    "took fewer bytes": (moved(count=5), "bad-reply"),
    "took more bytes than the window": (moved(count=1 << 62), "bad-reply"),
    "stored another checksum": (stored_other, "bad-reply"),
    "the transfer failed": (answer(error(503, "RDMATransferError")), "failed"),
    "elbencho's failure": (answer(reply(500, [("x-amz-rdma-reply", "500")])), "failed"),
    "UploadPart at versitygw": (answer(error(501, "NotImplemented")), "declined"),
    "silence": (scripted.silence, "silent"),
    "torn before": (torn_before, "lost"),
    "torn after": (torn_after_moving, "lost"),
    "half a reply": (half_a_reply, "lost"),
    "garbage": (moved(said="200xyz"), "bad-reply"),
    "no HTTP": (answer(b"\x16\x03\x01 this is no reply\r\n\r\n"), "bad-reply"),
}
