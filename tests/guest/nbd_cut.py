# SPDX-License-Identifier: Apache-2.0
"""A disk that can lose power: an NBD server over a Unix socket, for one QEMU at a time.

What the guest wrote and has not flushed lives in the *seen* image only; a flush (or a write with
FUA) copies it to the *durable* one. `cut()` stops the disk in the middle of everything and lets a
random part of what was not flushed reach the durable image, torn between sectors:

    guest --write--> seen --flush--> durable        reads come from seen
                       \\--cut, by chance, sector by sector--> durable

The host's page cache outlives a killed QEMU, so killing QEMU alone loses nothing; this does.
Protocol: the NBD project's proto.md (fixed newstyle, simple replies)."""
import os
import random
import socket
import struct
import threading
import time

SECTOR = 512
REQUEST_MAGIC, REPLY_MAGIC = 0x25609513, 0x67446698
READ, WRITE, DISC, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA = 1
HAS_FLAGS, SEND_FLUSH, SEND_FUA = 1, 4, 8
OPT_EXPORT_NAME, OPT_ABORT, OPT_INFO, OPT_GO = 1, 2, 6, 7
REP_ACK, REP_INFO, REP_ERR_UNSUP = 1, 3, 0x80000001
OPT_REPLY_MAGIC = 0x3E889045565A9
EINVAL = 22


class CutDisk:
    """`image` holds the durable bytes; the seen ones are in `image`.seen, made anew at each start."""

    def __init__(self, image, socket_path, rng=None):
        self.image, self.path = image, socket_path
        self.rng = rng or random.Random()
        self.size = os.path.getsize(image)
        self.durable = os.open(image, os.O_RDWR)
        self.seen = os.open(image + ".seen", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(self.seen, self.size)
        self._copy_holes_aside()
        self.lock = threading.Lock()  # below it: all images, `unflushed`, `is_on`
        self.unflushed = []           # (offset, length), oldest first
        self.is_on = True
        self.may_hang_up = threading.Event()
        self.counts = {"writes": 0, "flushes": 0, "lost_sectors": 0, "kept_sectors": 0}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(socket_path)
        self.listener.listen(1)
        self.conn = None
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _copy_holes_aside(self):
        """The durable image's bytes into the seen one; what is a hole stays one."""
        at = 0
        while at < self.size:
            try:
                begin = os.lseek(self.durable, at, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(self.durable, begin, os.SEEK_HOLE)
            self._copy(self.durable, self.seen, begin, end - begin)
            at = end

    @staticmethod
    def _copy(source, target, offset, length):
        while length:
            piece = os.pread(source, min(length, 1 << 20), offset)
            os.pwrite(target, piece, offset)
            offset += len(piece)
            length -= len(piece)

    def cut(self, kill):
        """The power goes: the disk falls silent, `kill()` ends the machine, and only then the
        connection does. A machine that lived on to see an error would answer its clients with it.
        Returns what was lost, as counts."""
        self._fall_silent()
        kill()
        for offset, length in self.unflushed:
            self._lose(offset, length)
        self.unflushed = []
        self.close()
        return self.counts

    def _fall_silent(self, patience_s=1.0):
        """At a moment that has something to lose, if one comes soon."""
        end = time.monotonic() + patience_s
        while self.is_on:
            with self.lock:
                if self.has_something_to_lose() or time.monotonic() > end:
                    self.is_on = False
            time.sleep(0.0002)

    def has_something_to_lose(self):
        """With the lock held."""
        return bool(self.unflushed)

    def _lose(self, offset, length):
        """One write that was not flushed: all of it arrives, or none, or some of its sectors."""
        arrives = self.rng.choice((0.0, 1.0, 0.5))
        for at in range(offset, offset + length, SECTOR):
            if self.rng.random() < arrives:
                self._copy(self.seen, self.durable, at, SECTOR)
                self.counts["kept_sectors"] += 1
            else:
                self.counts["lost_sectors"] += 1

    def close(self):
        """Off in order when QEMU has gone by itself; then nothing is lost that was flushed."""
        with self.lock:
            self.is_on = False
        self.may_hang_up.set()
        for sock in (self.conn, self.listener):
            try:
                if sock:
                    sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.thread.join()
        self.listener.close()
        if self.durable is not None:
            os.close(self.durable)
            os.close(self.seen)
            self.durable = None
            os.unlink(self.image + ".seen")
            os.unlink(self.path)

    def _serve(self):
        while self.is_on:
            try:
                self.conn, _ = self.listener.accept()
                with self.conn:
                    if self._handshake():
                        while self._one_request():
                            pass
            except OSError:
                pass

    def _take(self, count):
        data = bytearray(count)
        view, have = memoryview(data), 0
        while have < count:
            got = self.conn.recv_into(view[have:])
            if not got:
                raise ConnectionResetError
            have += got
        return data

    def _handshake(self):
        self.conn.sendall(struct.pack(">QQH", 0x4E42444D41474943, 0x49484156454F5054, 3))
        client_flags, = struct.unpack(">I", self._take(4))
        flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA
        while True:
            _, option, length = struct.unpack(">QII", self._take(16))
            self._take(length)
            if option == OPT_EXPORT_NAME:
                self.conn.sendall(struct.pack(">QH", self.size, flags) +
                                  (b"" if client_flags & 2 else bytes(124)))
                return True
            if option in (OPT_INFO, OPT_GO):
                self._reply(option, REP_INFO, struct.pack(">HQH", 0, self.size, flags))
                self._reply(option, REP_ACK)
                if option == OPT_GO:
                    return True
            elif option == OPT_ABORT:
                self._reply(option, REP_ACK)
                return False
            else:
                self._reply(option, REP_ERR_UNSUP)

    def _reply(self, option, kind, data=b""):
        self.conn.sendall(struct.pack(">QIII", OPT_REPLY_MAGIC, option, kind, len(data)) + data)

    def _one_request(self):
        magic, flags, kind, handle, offset, length = struct.unpack(">IHHQQI", self._take(28))
        if magic != REQUEST_MAGIC or kind == DISC:
            return False
        data = self._take(length) if kind == WRITE else b""
        with self.lock:
            is_on = self.is_on
            if is_on:
                error, answer = self._do(kind, flags, offset, length, data)
        if not is_on:
            self.may_hang_up.wait()
            return False
        self.conn.sendall(struct.pack(">IIQ", REPLY_MAGIC, error, handle) + answer)
        return True

    def _do(self, kind, flags, offset, length, data):
        if offset + length > self.size or offset % SECTOR or length % SECTOR:
            return EINVAL, b""
        if kind == READ:
            return 0, os.pread(self.seen, length, offset)
        if kind == WRITE:
            self.counts["writes"] += 1
            os.pwrite(self.seen, data, offset)
            if flags & FUA:
                os.pwrite(self.durable, data, offset)
            else:
                self.unflushed.append((offset, length))
            return 0, b""
        if kind == FLUSH:
            self.counts["flushes"] += 1
            for at, count in self.unflushed:
                self._copy(self.seen, self.durable, at, count)
            self.unflushed = []
            return 0, b""
        return EINVAL, b""
