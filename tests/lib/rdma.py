# SPDX-License-Identifier: Apache-2.0
"""Memory of this process that servers reach by RDMA: libs3rdma's client half, by ctypes.

    owner = Owner("cma")
    region = owner.region(1 << 20)
    with region.window(1 << 20) as w:
        reply = s3("GET", "/b/k", headers=[("x-amz-rdma-token", w.token)])
    assert region[:5] == b"hello"

Regions are filled with 0xAA when made, and have an unreadable page on each side."""
import atexit
import ctypes
import functools
import mmap
import os

import daemon

CANARY = 0xAA
PAGE = mmap.PAGESIZE


def library_path():
    """The plain build's: a library with a sanitizer in it cannot be loaded into Python."""
    build = daemon.BUILD.removesuffix("-" + daemon.VARIANT)
    return os.environ.get("S3RDMA_CLIENT_LIBRARY") or os.path.join(build, "libs3rdma.so.0")


class _Status(ctypes.Structure):
    _fields_ = [("size", ctypes.c_ssize_t), ("ibv_status", ctypes.c_int32)]


@functools.cache
def library():
    lib = ctypes.CDLL(library_path())
    p, n, s = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in (
            ("s3rdma_client_init", p, (s, s, n)),
            ("s3rdma_client_free", None, (p,)),
            ("s3rdma_client_ready", ctypes.c_int, (p,)),
            ("s3rdma_client_register", ctypes.c_int, (p, p, n)),
            ("s3rdma_client_deregister", ctypes.c_int, (p, p)),
            ("s3rdma_client_get_token", ctypes.c_int, (p, p, n, n, ctypes.POINTER(p))),
            ("s3rdma_client_free_token", None, (p,)),
            ("s3rdma_client_report_token_failure", ctypes.c_int, (p, s)),
            ("s3rdma_server_init", p, (s, ctypes.c_uint)),
            ("s3rdma_server_free", None, (p,)),
            ("s3rdma_register_buffer", p, (p, p, n)),
            ("s3rdma_deregister_buffer", None, (p, p)),
            ("s3rdma_get", _Status, (p, p, s, ctypes.c_uint64, n, ctypes.c_uint16)),
            ("s3rdma_put", _Status, (p, p, s, ctypes.c_uint64, n, ctypes.c_uint16)),
            ("s3rdma_last_error", n, (s, n))):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


@functools.cache
def libc():
    lib = ctypes.CDLL(None, use_errno=True)
    lib.mmap.restype = ctypes.c_void_p
    lib.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                         ctypes.c_int, ctypes.c_long)
    lib.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    lib.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return lib


class Error(Exception):
    pass


def last_error():
    text = ctypes.create_string_buffer(512)
    library().s3rdma_last_error(text, len(text))
    return text.value.decode(errors="replace")


def device_for_client(device):
    """A server's `ofi:tcp` dials the client: give it an address of this host to dial."""
    return device + "@127.0.0.1" if device.startswith("ofi:") and "@" not in device else device


class Owner:
    def __init__(self, device):
        why = ctypes.create_string_buffer(512)
        name = device_for_client(device).encode()
        self.handle = library().s3rdma_client_init(name, why, len(why))
        if not self.handle:
            raise Error(f"{device}: {why.value.decode(errors='replace')}")

    def region(self, size, fill=None):
        return Region(self, size, fill)

    def close(self):
        library().s3rdma_client_free(self.handle)
        self.handle = None


class Region:
    def __init__(self, owner, size, fill=None):
        self.owner, self.size = owner, size
        inner = max(1, -(-size // PAGE)) * PAGE
        self.mapped = inner + 2 * PAGE
        base = libc().mmap(None, self.mapped, mmap.PROT_READ | mmap.PROT_WRITE,
                           mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"mmap of {self.mapped} bytes")
        self.base = base
        libc().mprotect(base, PAGE, 0)
        libc().mprotect(base + PAGE + inner, PAGE, 0)
        # The end of the region is the end of its last page: one byte too many is a fault.
        self.address = base + PAGE + inner - size
        self.memory = (ctypes.c_char * size).from_address(self.address)
        if fill is None:
            self.wipe()
        else:
            self[:] = fill
        if library().s3rdma_client_register(owner.handle, self.address, size):
            raise Error(f"register {size} bytes: {last_error()}")

    def wipe(self):
        ctypes.memset(self.address, CANARY, self.size)

    def __getitem__(self, what):
        return ctypes.string_at(self.address, self.size)[what]

    def read(self, offset, length):
        assert 0 <= offset and offset + length <= self.size
        return ctypes.string_at(self.address + offset, length)

    def __setitem__(self, what, data):
        start, stop, step = what.indices(self.size)
        assert step == 1 and stop - start == len(data), (start, stop, len(data))
        ctypes.memmove(self.address + start, bytes(data), len(data))

    def is_untouched(self, start=0, stop=None):
        stop = self.size if stop is None else stop
        return self.read(start, stop - start) == bytes([CANARY]) * (stop - start)

    def window(self, size=None, offset=0):
        return Window(self, self.size - offset if size is None else size, offset)

    def close(self):
        if library().s3rdma_client_deregister(self.owner.handle, self.address):
            raise Error(f"deregister: {last_error()}")
        self.memory = None
        libc().munmap(self.base, self.mapped)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Window:
    def __init__(self, region, size, offset=0):
        pointer = ctypes.c_void_p()
        if library().s3rdma_client_get_token(region.owner.handle, region.address, size, offset,
                                             ctypes.byref(pointer)):
            raise Error(f"token for {size} bytes at {offset}: {last_error()}")
        self.pointer, self.region, self.size, self.offset = pointer, region, size, offset
        self.token = ctypes.string_at(pointer.value).decode()

    def report_failure(self):
        return library().s3rdma_client_report_token_failure(self.region.owner.handle,
                                                            self.token.encode())

    def close(self):
        if self.pointer:
            library().s3rdma_client_free_token(self.pointer)
            self.pointer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def fields(token):
    """The parts of a cma1 or ofi1 token, to change one and join them again."""
    return token.split(":")


def headers(token, *more):
    return [("x-amz-rdma-token", token), *more]


class Mover:
    """A server's half: what a token names, from its start. An Error where it is out of reach."""

    def __init__(self, device):
        self.handle = library().s3rdma_server_init(device.encode(), 0)
        if not self.handle:
            raise Error(f"{device}: {last_error()}")
        atexit.register(library().s3rdma_server_free, self.handle)

    def _move(self, call, token, memory, size):
        buffer = library().s3rdma_register_buffer(self.handle, ctypes.addressof(memory), size)
        if not buffer:
            raise Error(f"register {size} bytes: {last_error()}")
        done = call(self.handle, buffer, token.encode(), 0, size, 0)
        why = last_error()
        library().s3rdma_deregister_buffer(self.handle, buffer)
        if done.size != size:
            raise Error(f"{done.size} of {size} bytes were moved: {why}")

    def write(self, token, data):
        if data:
            memory = ctypes.create_string_buffer(data, len(data))
            self._move(library().s3rdma_get, token, memory, len(data))

    def read(self, token, size):
        memory = ctypes.create_string_buffer(max(1, size))
        if size:
            self._move(library().s3rdma_put, token, memory, size)
        return memory.raw[:size]


@functools.cache
def mover(device):
    """The process's own."""
    return Mover(device)
