# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and a server that holds requests from a chosen one on.

    with Relay(server.address) as relay:
        relay.hold(rb"PUT /b/k\\?partNumber", after=2)   # two pass, the third is held
        ... a client of relay.url ...
        relay.held.wait(60)
        relay.open()                                     # what was held is dropped; all pass again

A test so knows how far a client has come, however busy the machine is."""
import re
import socket
import threading


class Relay:
    def __init__(self, address):
        self.address = address
        self.pattern, self.left = None, 0
        # a pattern in what the server says, and what replaces it: bytes or a function of the match
        self.strip, self.put = None, b""
        self.held = threading.Event()
        self._open = threading.Event()
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def hold(self, pattern, after=0):
        self.held.clear()
        self._open.clear()
        self.pattern, self.left = re.compile(pattern), after

    def open(self):
        self.pattern = None
        self._open.set()

    def _must_hold(self, head):
        with self._lock:
            if not self.pattern or not self.pattern.match(head):
                return False
            self.left -= 1
            return self.left < 0

    def _accept(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            with client, socket.create_connection(self.address) as server:
                threading.Thread(target=self._answers, args=(server, client), daemon=True).start()
                with client.makefile("rb") as lines:
                    while self._request(lines, server):
                        pass
                server.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _request(self, lines, server):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = lines.readline()
            if not line:
                return False
            head += line
        if self._must_hold(head):
            self.held.set()
            self._open.wait()
            return False
        server.sendall(head)
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        left = int(length[1]) if length else 0
        while left:
            piece = lines.read1(min(left, 1 << 20))
            if not piece:
                return False
            server.sendall(piece)
            left -= len(piece)
        return True

    def _answers(self, server, client):
        try:
            while data := server.recv(1 << 20):
                client.sendall(re.sub(self.strip, self.put, data) if self.strip else data)
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
