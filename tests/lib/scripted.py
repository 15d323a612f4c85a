# SPDX-License-Identifier: Apache-2.0
"""An S3 server of one object that answers requests with a token as a script says.

Requests without a token get what a plain S3 server would answer. Every request is kept, so a test
can count what was on the wire. The windows it is given are reached by the server's half of
libs3rdma, over `cma` and `ofi:tcp`."""
import re
import socket
import threading
import xml.sax.saxutils

import rdma
import s3raw

EMPTY_MD5 = "d41d8cd98f00b204e9800998ecf8427e"


class Window:
    """What a token names, reached as a server's mover does: not any more once it is withdrawn."""

    def __init__(self, token):
        fields = token.split(":")
        self.token, self.size = token, int(fields[1], 16)
        self.mover = rdma.mover({"cma1": "cma", "ofi1": "ofi:tcp"}[fields[2]])

    def write(self, data):
        self.mover.write(self.token, data)

    def read(self):
        return self.mover.read(self.token, self.size)

    def is_open(self):
        """Does what must not work any more, in either direction."""
        for use in (self.read, lambda: self.write(b"\xee" * self.size)):
            try:
                use()
                return True
            except rdma.Error:
                pass
        return False


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.token = headers.get("x-amz-rdma-token")

    @property
    def window(self):
        return Window(self.token)

    def range(self):
        """(first, last) or None."""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return (int(match[1]), int(match[2])) if match else None


def reply(status, headers=(), body=b"", length=None):
    """The bytes of a reply; `length` another Content-Length than the body's, -1 for none."""
    lines = [f"HTTP/1.1 {status} Scripted"] + [f"{n}: {v}" for n, v in headers]
    if length != -1:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def error(status, code, headers=(), message="scripted"):
    text = (f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>'
            f"{xml.sax.saxutils.escape(message)}</Message></Error>")
    return reply(status, [("Content-Type", "application/xml"), *headers], text.encode())


class Server:
    """`script` is called as script(server, request, conn) for each request with a token and returns
    the bytes of the reply, or None after which the connection is closed."""

    def __init__(self, stored=b"", script=None):
        self.stored, self.script = stored, script
        self.requests, self.failures = [], []
        self.is_plain_broken = None  # a function for requests without a token, as script
        self.is_prying = False  # tries the windows of a token once the same is asked for without it
        self.open_windows = []  # those that it found open then
        self.keeps_open = True
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone would not
        self._socket.close()
        assert not self.failures, self.failures

    def _accept(self):
        while True:
            try:
                conn, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        try:
            with conn, conn.makefile("rb") as lines:
                while self._serve_one(conn, lines):
                    pass
        except (ConnectionError, BrokenPipeError):
            pass
        except Exception as e:  # a mistake of a script must not look like a torn connection
            self.failures.append(repr(e))

    def _serve_one(self, conn, lines):
        first = lines.readline().decode("latin-1").split()
        if len(first) != 3:
            return False
        headers = {}
        while True:
            line = lines.readline().decode("latin-1").rstrip("\r\n")
            if not line:
                break
            name, _, value = line.partition(":")
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value.strip()
        body = lines.read(int(headers.get("content-length", "0")))
        request = Request(first[0], first[1], headers, body)
        with self._lock:
            self.requests.append(request)
        if self.is_prying and not request.token:
            self._pry(request)
        if request.token and self.script:
            answer = self.script(self, request, conn)
        elif self.is_plain_broken:
            answer = self.is_plain_broken(self, request, conn)
        else:
            answer = self.plain(request)
        if answer is None:
            return False
        conn.sendall(answer)
        return self.keeps_open

    def _pry(self, request):
        asked = (request.method.replace("HEAD", "GET"), request.target)
        for earlier in list(self.requests):
            if earlier.token and (earlier.method, earlier.target) == asked and \
                    earlier.window.is_open():
                self.open_windows.append(earlier.token)

    # what a server without RDMA answers

    def etag(self):
        return ("ETag", f'"{s3raw.hashlib.md5(self.stored).hexdigest()}"')

    def checksum(self, data=None):
        data = self.stored if data is None else data
        return ("x-amz-checksum-crc64nvme", s3raw.checksum("crc64nvme", data))

    def plain(self, request):
        if request.method == "PUT":
            if request.headers["x-amz-checksum-crc64nvme"] != self.checksum(request.body)[1]:
                return error(400, "BadDigest")
            self.stored = request.body
            return reply(200, [self.etag(), self.checksum()])
        body, status, more = self.stored, 200, []
        if request.range():
            first, last = request.range()
            body, status = self.stored[first:last + 1], 206
            more = [("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(self.stored)}")]
        if request.headers.get("x-amz-checksum-mode") == "ENABLED" and status == 200:
            more.append(self.checksum())
        if request.method == "HEAD":
            return reply(status, [self.etag(), *more], length=len(body))
        return reply(status, [self.etag(), *more], body)

    # what one with RDMA answers

    def moved(self, request, status=None, said=None, count=None, headers=()):
        """Moves the object and says so; `status`, `said`, `count` differ from the truth on demand;
        a `said` or `count` of False leaves the header out."""
        more = [self.etag(), *headers]
        if request.method == "PUT":
            data, natural = request.window.read(), 200
            if request.headers["x-amz-checksum-crc64nvme"] != self.checksum(data)[1]:
                return error(400, "BadDigest")
            self.stored = data
            more[0] = self.etag()
            more.append(self.checksum())
        else:
            data, natural = self.stored, 200
            if request.range():
                first, last = request.range()
                data, natural = data[first:last + 1], 206
                more.append(("Content-Range",
                             f"bytes {first}-{first + len(data) - 1}/{len(self.stored)}"))
            if len(data) > request.window.size:
                return error(400, "InvalidRequest")
            request.window.write(data)
            if natural == 200 and request.headers.get("x-amz-checksum-mode") == "ENABLED":
                more.append(self.checksum())
        if said is not False:
            more.append(("x-amz-rdma-reply", said or natural))
        if count is not False:
            more.append(("x-amz-rdma-bytes-transferred", len(data) if count is None else count))
        return reply(status or natural, more)


def silence(server, request, conn):
    """No reply, for as long as the client waits for one."""
    conn.recv(1)
