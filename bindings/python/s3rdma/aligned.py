# SPDX-License-Identifier: Apache-2.0
"""Memory that the library keeps registered."""
import ctypes
import weakref

from .library import load


def aligned_buffer(size: int) -> memoryview:
    """Zeroed, page-aligned, writable memory. It is registered with a client at its first transfer
    and stays so until nothing refers to it any more: for memory that many transfers use."""
    if size <= 0:
        raise ValueError(f"no buffer has {size} bytes")
    c = load().c
    address = c.miniocpp_alloc_aligned(size)
    if not address:
        raise MemoryError(f"no {size} bytes of page-aligned memory")
    array = (ctypes.c_char * size).from_address(address)
    weakref.finalize(array, c.miniocpp_free_aligned, address).atexit = False
    return memoryview(array).cast("B")
