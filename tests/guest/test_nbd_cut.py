# SPDX-License-Identifier: Apache-2.0
"""The disk that can lose power, spoken to without a guest."""
import random
import socket
import struct

import nbd_cut
import pytest

SIZE = 1 << 20


class Initiator:
    """The other end of the protocol, as much of it as is needed here."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        assert self.take(18)[:8] == b"NBDMAGIC"
        name = b"disk"
        self.sock.sendall(struct.pack(">IQII", 3, 0x49484156454F5054, nbd_cut.OPT_GO,
                                      len(name) + 6) + struct.pack(">I", len(name)) + name +
                          struct.pack(">H", 0))
        kinds = []
        while nbd_cut.REP_ACK not in kinds:
            _, _, kind, length = struct.unpack(">QIII", self.take(20))
            info = self.take(length)
            kinds.append(kind)
            if kind == nbd_cut.REP_INFO:
                self.size, = struct.unpack(">Q", info[2:10])

    def take(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise ConnectionResetError
            data += more
        return data

    def ask(self, kind, offset=0, length=0, data=b"", flags=0):
        self.sock.sendall(struct.pack(">IHHQQI", nbd_cut.REQUEST_MAGIC, flags, kind, 7, offset,
                                      len(data) or length) + data)
        magic, error, handle = struct.unpack(">IIQ", self.take(16))
        assert (magic, handle) == (nbd_cut.REPLY_MAGIC, 7)
        return error, self.take(length) if kind == nbd_cut.READ and not error else b""


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(bytes(SIZE))
    return path


def start(image, seed=1):
    disk = nbd_cut.CutDisk(str(image), str(image) + ".sock", random.Random(seed))
    return disk, Initiator(str(image) + ".sock")


def test_flushed_write_outlives_the_cut(image):
    disk, peer = start(image)
    assert peer.size == SIZE
    peer.ask(nbd_cut.WRITE, 4096, data=b"a" * 8192)
    peer.ask(nbd_cut.FLUSH)
    disk.cut(peer.sock.close)
    assert image.read_bytes() == bytes(4096) + b"a" * 8192 + bytes(SIZE - 12288)


def test_forced_write_outlives_the_cut(image):
    disk, peer = start(image)
    peer.ask(nbd_cut.WRITE, 0, data=b"f" * 512, flags=nbd_cut.FUA)
    disk.cut(peer.sock.close)
    assert image.read_bytes()[:512] == b"f" * 512


def test_unflushed_write_is_read_back_but_may_be_lost_whole_kept_or_torn(image):
    ends = set()
    for seed in range(40):
        disk, peer = start(image, seed)
        peer.ask(nbd_cut.WRITE, 0, data=b"o" * 4096)
        peer.ask(nbd_cut.FLUSH)
        peer.ask(nbd_cut.WRITE, 0, data=b"n" * 4096)
        assert peer.ask(nbd_cut.READ, 0, 4096) == (0, b"n" * 4096)
        disk.cut(peer.sock.close)
        after = image.read_bytes()[:4096]
        sectors = [after[i:i + 512] for i in range(0, 4096, 512)]
        assert all(s in (b"o" * 512, b"n" * 512) for s in sectors)
        new = sectors.count(b"n" * 512)
        ends.add("lost" if new == 0 else "kept" if new == 8 else "torn")
    assert ends == {"lost", "kept", "torn"}


def test_disk_is_silent_after_the_cut_until_the_machine_is_off(image):
    disk, peer = start(image)
    peer.sock.settimeout(0.2)

    def before_the_end():
        with pytest.raises(TimeoutError):
            peer.ask(nbd_cut.WRITE, 0, data=b"x" * 512)

    disk.cut(before_the_end)
    with pytest.raises(OSError):
        peer.ask(nbd_cut.WRITE, 0, data=b"x" * 512)
    assert image.read_bytes() == bytes(SIZE)


def test_access_beyond_the_end_is_refused(image):
    disk, peer = start(image)
    assert peer.ask(nbd_cut.WRITE, SIZE - 512, data=b"x" * 1024)[0] == nbd_cut.EINVAL
    assert peer.ask(nbd_cut.READ, SIZE, 512)[0] == nbd_cut.EINVAL
    disk.close()
