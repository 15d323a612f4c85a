# SPDX-License-Identifier: Apache-2.0
"""Memory that the library keeps registered."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, Dict, Optional

from .library import Library, load


class Span:
    """[address, address + size), and which clients have it registered."""

    def __init__(self, library: Library, address: int, size: int) -> None:
        self.library, self.address, self.size = library, address, size
        self.clients: weakref.WeakKeyDictionary[Any, object] = weakref.WeakKeyDictionary()

    def add(self, client: Any) -> bool:
        """False: another thread was quicker."""
        mine = object()
        return self.clients.setdefault(client, mine) is mine

    def free(self) -> None:
        _spans.pop(self.address, None)
        for client in list(self.clients):
            if not client.deregister(self.address):
                return  # a stopped server may still write it: kept for as long as we live
        self.library.c.miniocpp_free_aligned(self.address)


_spans: Dict[int, Span] = {}


def span_of(address: int, length: int) -> Optional[Span]:
    """The aligned memory that [address, address + length) lies in."""
    for span in list(_spans.values()):
        if span.address <= address and address + length <= span.address + span.size:
            return span
    return None


def aligned_buffer(size: int) -> memoryview:
    """Zeroed, page-aligned, writable memory. It is registered with a client at its first transfer
    and stays so until nothing refers to it any more: for memory that many transfers use."""
    if size <= 0:
        raise ValueError(f"no buffer has {size} bytes")
    library = load()
    address = library.c.miniocpp_alloc_aligned(size)
    if not address:
        raise MemoryError(f"no {size} bytes of page-aligned memory")
    span = _spans[address] = Span(library, address, size)
    array = (ctypes.c_char * size).from_address(address)
    weakref.finalize(array, span.free).atexit = False
    return memoryview(array).cast("B")
