# SPDX-License-Identifier: Apache-2.0
"""S3 over a bare socket: every byte of a request is the caller's, every byte of a reply is looked at.

    conn = Connection(("127.0.0.1", 9000))
    s3 = S3(("127.0.0.1", 9000), "user", "secret")
    r = s3("PUT", "/bucket/key", body=b"abc", headers=[("x-amz-meta-a", "1")])
    assert r.status == 200 and r["etag"]

Targets and queries are written as they go over the wire; the signature is made over what they mean.
Only the standard library is used."""
import base64
import hashlib
import hmac
import re
import socket
import struct
import time
import urllib.parse
import xml.etree.ElementTree as ET
import zlib

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"
STREAM_SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
STREAM_SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
STREAM_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


# ---- checksums ----

def _table(poly):
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (poly if n & 1 else 0)
        table.append(n)
    return table


_CRC64, _CRC32C = _table(0x9A6C9329AC4BC9B5), _table(0x82F63B78)


def _crc(table, ones, data):
    crc = ones
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ ones


def crc64nvme(data):
    return _crc(_CRC64, 0xFFFFFFFFFFFFFFFF, data).to_bytes(8, "big")


def crc32c(data):
    return _crc(_CRC32C, 0xFFFFFFFF, data).to_bytes(4, "big")


def crc32(data):
    return zlib.crc32(data).to_bytes(4, "big")


CHECKSUMS = {
    "crc32": crc32,
    "crc32c": crc32c,
    "crc64nvme": crc64nvme,
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}


def b64(raw):
    return base64.b64encode(raw).decode()


def checksum(name, data):
    """As in x-amz-checksum-NAME."""
    return b64(CHECKSUMS[name](data))


def md5(data):
    return hashlib.md5(data).hexdigest()


# ---- SigV4 ----

def quote(text):
    """One path segment or query part; `text` may be bytes."""
    return urllib.parse.quote(text, safe="-_.~")


def path(bucket, key=None):
    """The target of an object: every byte that SigV4 would encode is encoded, slashes stay."""
    return "/" + bucket + ("" if key is None else "/" + urllib.parse.quote(key, safe="-_.~/"))


def canonical_path(target_path):
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(target_path), safe="-_.~/") or "/"


def canonical_query(query):
    pairs = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        pairs.append(tuple(quote(urllib.parse.unquote_to_bytes(x.replace("+", " ")))
                           for x in (name, value)))
    return "&".join(f"{n}={v}" for n, v in sorted(pairs))


def _hmac(key, text):
    return hmac.new(key, text.encode() if isinstance(text, str) else text, hashlib.sha256).digest()


def amz_date(when=None):
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() if when is None else when))


def _latin(value):
    return value if isinstance(value, str) else value.decode("latin-1")


class Signer:
    """Signs for one moment: the key, the scope and, for chunks, the signature before."""

    def __init__(self, access, secret, region="us-east-1", date=None, service="s3"):
        self.access, self.date = access, date or amz_date()
        self.scope = f"{self.date[:8]}/{region}/{service}/aws4_request"
        key = ("AWS4" + secret).encode()
        for part in (self.date[:8], region, service, "aws4_request"):
            key = _hmac(key, part)
        self.key, self.signature = key, None

    def _sign(self, kind, *lines):
        text = "\n".join((kind, self.date, self.scope) + lines)
        self.signature = _hmac(self.key, text).hex()
        return self.signature

    def request(self, method, target, headers, payload_hash, signed):
        """`headers`: (name, value) pairs as sent; `signed`: lower-case names."""
        target_path, _, query = target.partition("?")
        values = {}
        for name, value in headers:
            words = re.sub(" +", " ", _latin(value).strip(" \t"))
            values.setdefault(name.lower(), []).append(words)
        lines = "".join(f"{n}:{','.join(values.get(n, []))}\n" for n in signed)
        canonical = "\n".join((method, canonical_path(target_path), canonical_query(query), lines,
                               ";".join(signed), payload_hash))
        digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
        return self._sign("AWS4-HMAC-SHA256", digest)

    def chunk(self, data):
        return self._sign("AWS4-HMAC-SHA256-PAYLOAD", self.signature, EMPTY_SHA256,
                          hashlib.sha256(data).hexdigest())

    def trailer(self, lines):
        text = "".join(f"{n}:{v}\n" for n, v in lines)
        return self._sign("AWS4-HMAC-SHA256-TRAILER", self.signature,
                          hashlib.sha256(text.encode()).hexdigest())


def aws_chunks(pieces, signer=None, trailers=None):
    """The pieces of an aws-chunked body, one byte string for each chunk, the last with the end and
    the trailers. With a signer every chunk is signed; a missing trailer list means a mode without."""
    out = []
    for piece in list(pieces) + [b""]:
        head = f"{len(piece):x}"
        if signer:
            head += ";chunk-signature=" + signer.chunk(piece)
        out.append(head.encode() + b"\r\n" + piece + (b"\r\n" if piece else b""))
    for name, value in trailers or []:
        out[-1] += f"{name}:{value}\r\n".encode()
    if signer and trailers is not None:
        out[-1] += f"x-amz-trailer-signature:{signer.trailer(trailers)}\r\n".encode()
    out[-1] += b"\r\n"
    return out


# ---- replies ----

class BadReply(AssertionError):
    """The peer's bytes are not a reply that HTTP/1.1 allows."""


class Reply:
    def __init__(self, status, reason, headers, body=b"", closes=False):
        self.status, self.reason, self.headers, self.body = status, reason, headers, body
        self.closes = closes

    def __getitem__(self, name):
        """The header's value, None when absent; twice is an error."""
        found = [v for n, v in self.headers if n.lower() == name.lower()]
        if len(found) > 1:
            raise BadReply(f"{name} {len(found)} times: {found}")
        return found[0] if found else None

    def __contains__(self, name):
        return any(n.lower() == name.lower() for n, _ in self.headers)

    @property
    def names(self):
        return {n.lower() for n, _ in self.headers}

    @property
    def xml(self):
        """Root element with the namespace taken off every tag."""
        root = ET.fromstring(self.body)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root

    @property
    def code(self):
        """The S3 error code, None when the body is no error document."""
        if not self.body.lstrip().startswith(b"<"):
            return None
        root = self.xml
        return root.findtext("Code") if root.tag == "Error" else None

    def text(self, tag):
        return self.xml.findtext(f".//{tag}")

    def texts(self, tag):
        return [e.text or "" for e in self.xml.iter(tag)]

    @property
    def etag(self):
        value = self["etag"]
        return value and value.strip('"')

    def __repr__(self):
        return f"<{self.status} {self.reason} {self.headers} {self.body[:600]!r}>"


class Connection:
    """A socket and what has come in on it. Reads strictly: a reply must have the length it says."""

    def __init__(self, address, timeout=20, rcvbuf=None, source=None):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(timeout)
        if source:
            self.sock.bind((source, 0))
        self.sock.connect(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address, self.pending, self.options = address, b"", (timeout, rcvbuf, source)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Goes away with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def renew(self):
        """After a reply that closes: the same, connected again."""
        self.sock.close()
        self.__init__(self.address, *self.options)

    def send(self, data):
        self.sock.sendall(data)

    def send_slowly(self, data, step=1, pause=0.0):
        for i in range(0, len(data), step):
            self.sock.sendall(data[i:i + step])
            if pause:
                time.sleep(pause)

    def _more(self):
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError("the peer closed the connection")
        self.pending += data

    def _line(self):
        while b"\n" not in self.pending:
            if len(self.pending) > 1 << 16:
                raise BadReply("a line of more than 64 KiB")
            self._more()
        line, _, self.pending = self.pending.partition(b"\n")
        if not line.endswith(b"\r"):
            raise BadReply(f"a line without CR: {line!r}")
        return line[:-1].decode("latin-1")

    def _exactly(self, count):
        parts, have = [self.pending], len(self.pending)
        self.pending = b""
        while have < count:
            data = self.sock.recv(min(1 << 20, count - have + (1 << 16)))
            if not data:
                raise EOFError(f"closed after {have} of {count} bytes of the body")
            parts.append(data)
            have += len(data)
        whole = b"".join(parts)
        self.pending = whole[count:]
        return whole[:count]

    def read_head(self):
        line = self._line()
        match = re.fullmatch(r"HTTP/1\.([01]) ([1-5]\d\d) ([^\x00-\x1f]*)", line)
        if not match:
            raise BadReply(f"no status line: {line!r}")
        headers = []
        while line := self._line():
            match_header = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", line)
            if not match_header:
                raise BadReply(f"no header: {line!r}")
            headers.append(match_header.groups())
        return Reply(int(match[2]), match[3], headers)

    def read_reply(self, method="GET", interim=False):
        """The next final reply; with `interim` a 1xx comes back as itself."""
        reply = self.read_head()
        while reply.status < 200 and not interim:
            reply = self.read_head()
        if reply.status < 200:
            return reply
        length, coding = reply["content-length"], reply["transfer-encoding"]
        reply.closes = (reply["connection"] or "").lower() == "close"
        if length is not None and (coding is not None or not length.isdigit()):
            raise BadReply(f"Content-Length {length!r} with Transfer-Encoding {coding!r}")
        if method == "HEAD" or reply.status in (204, 304):
            return reply
        if coding is not None:
            reply.body = self._chunked()
        elif length is not None:
            reply.body = self._exactly(int(length))
        elif reply.closes:
            reply.body = self.read_to_end()
        else:
            raise BadReply("neither a length nor a close ends the body")
        return reply

    def _chunked(self):
        body = b""
        while size := int(self._line(), 16):
            body += self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise BadReply("a chunk without its end")
        while self._line():
            pass
        return body

    def read_to_end(self):
        data = self.pending
        self.pending = b""
        while True:
            try:
                piece = self.sock.recv(1 << 18)
            except ConnectionResetError:
                return data
            if not piece:
                return data
            data += piece

    def is_silent(self, seconds=0.3):
        """Nothing came, and the peer has not closed."""
        if self.pending:
            return False
        before = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1, socket.MSG_PEEK) is None
        except (TimeoutError, BlockingIOError):
            return True
        except ConnectionResetError:
            return False
        finally:
            self.sock.settimeout(before)

    def is_closed(self, seconds=5):
        """The peer closes within that time and sends nothing before."""
        if self.pending:
            return False
        before = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b""
        except ConnectionResetError:
            return True
        except (TimeoutError, BlockingIOError):
            return False
        finally:
            self.sock.settimeout(before)


class S3:
    """Signed requests. Each call opens a connection of its own unless one is given."""

    def __init__(self, address, access, secret, region="us-east-1", host=None, timeout=20):
        self.address, self.access, self.secret = address, access, secret
        self.region, self.timeout = region, timeout
        name = f"[{address[0]}]" if ":" in address[0] else address[0]
        self.host = host or f"{name}:{address[1]}"

    def connect(self, **options):
        return Connection(self.address, **{"timeout": self.timeout, **options})

    def signer(self, date=None):
        return Signer(self.access, self.secret, self.region, date)

    def head(self, method, target, headers=(), length=0, sha256=EMPTY_SHA256, signer=None,
             signed=None, also_signed=(), unsigned=(), date=None, host=None, anonymous=False):
        """The bytes of a request's head. Signed are Host and all x-amz-*, without the names in
        `unsigned` and with those in `also_signed`; or exactly `signed`. `length` None leaves
        Content-Length out. Headers of `unsigned` are put in after signing."""
        signer = signer or self.signer(date)
        fields = [("Host", host or self.host)]
        if not anonymous:
            have = {n.lower() for n, _ in headers}
            if "x-amz-date" not in have and "date" not in have:
                fields.append(("x-amz-date", signer.date))
            if "x-amz-content-sha256" not in have and sha256 is not None:
                fields.append(("x-amz-content-sha256", sha256))
        fields += list(headers)
        if length is not None:
            fields.append(("Content-Length", str(length)))
        if not anonymous:
            names = {n.lower() for n, _ in fields}
            if signed is None:
                signed = {n for n in names if n == "host" or n.startswith("x-amz-")}
                signed = (signed - {u.lower() for u in unsigned}) | {a.lower() for a in also_signed}
            signed = sorted(signed)
            given = [v for n, v in fields if n.lower() == "x-amz-content-sha256"]
            hashed = given[0] if given else UNSIGNED if sha256 is None else sha256
            signature = signer.request(method, target, fields, _latin(hashed), signed)
            fields.append(("Authorization", f"AWS4-HMAC-SHA256 Credential={signer.access}/"
                           f"{signer.scope}, SignedHeaders={';'.join(signed)}, "
                           f"Signature={signature}"))
        lines = [f"{method} {target} HTTP/1.1"] + [f"{n}: {_latin(v)}" for n, v in fields]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def __call__(self, method, target, body=b"", headers=(), conn=None, sha256=None, **options):
        """One request and its reply. `sha256` is the payload hash to sign: by default the body's."""
        if isinstance(headers, dict):
            headers = list(headers.items())
        hashed = hashlib.sha256(body).hexdigest() if sha256 is None else sha256
        options.setdefault("length", len(body))
        head = self.head(method, target, headers, sha256=hashed, **options)
        own = conn or self.connect()
        try:
            try:
                own.send(head + body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the end of the body: the answer may be there all the same
            return own.read_reply(method)
        except ConnectionResetError as e:
            raise EOFError("the peer reset the connection") from e
        finally:
            if own is not conn:
                own.close()

    def stream(self, target, pieces, mode, trailers=None, headers=(), decoded=None, mangle=None,
               conn=None, step=None, method="PUT"):
        """An aws-chunked upload. `mangle` may change the list of chunks (byte strings) before they
        go out, `decoded` what is said of their length; `step` sends that many bytes at a time. A
        header of value None is left out."""
        data = b"".join(pieces)
        signer = self.signer()
        fields = [("x-amz-decoded-content-length", str(len(data) if decoded is None else decoded))]
        if not any(n.lower() == "content-encoding" for n, _ in headers):
            fields.append(("Content-Encoding", "aws-chunked"))
        if trailers:
            fields.append(("x-amz-trailer", ",".join(n for n, _ in trailers)))
        seen = {n.lower() for n, _ in headers}
        fields = [f for f in fields if f[0].lower() not in seen]
        fields += [f for f in headers if f[1] is not None]
        is_signed = mode != STREAM_UNSIGNED_TRAILER
        with_trailer = mode != STREAM_SIGNED

        def build(for_signing):
            return aws_chunks(pieces, for_signing if is_signed else None,
                              (trailers or []) if with_trailer else None)

        # The length does not depend on the signatures, so it is known before the head is signed.
        probe = self.signer()
        probe.signature = "0" * 64
        chunks = build(probe)
        chunks = mangle(chunks) if mangle else chunks
        head = self.head(method, target, fields, length=sum(map(len, chunks)), sha256=mode,
                         signer=signer)
        chunks = build(signer)
        body = b"".join(mangle(chunks) if mangle else chunks)
        own = conn or self.connect()
        try:
            if step:
                own.send(head)
                own.send_slowly(body, step)
            else:
                own.send(head + body)
            return own.read_reply(method)
        except ConnectionResetError as e:
            raise EOFError("the peer reset the connection") from e
        finally:
            if own is not conn:
                own.close()

    def presign(self, method, target, expires=900, date=None, headers=(), extra=()):
        """A target with its signature in the query; `headers` beside Host are signed too."""
        signer = self.signer(date)
        fields = [("Host", self.host)] + list(headers)
        signed = sorted({n.lower() for n, _ in fields})
        target_path, _, query = target.partition("?")
        parts = [query] if query else []
        parts += [f"{n}={quote(v)}" for n, v in extra]
        parts += ["X-Amz-Algorithm=AWS4-HMAC-SHA256",
                  "X-Amz-Credential=" + quote(f"{signer.access}/{signer.scope}"),
                  f"X-Amz-Date={signer.date}", f"X-Amz-Expires={expires}",
                  "X-Amz-SignedHeaders=" + quote(";".join(signed))]
        target = f"{target_path}?{'&'.join(parts)}"
        return f"{target}&X-Amz-Signature=" + signer.request(method, target, fields, UNSIGNED,
                                                             signed)
