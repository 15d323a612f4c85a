# SPDX-License-Identifier: Apache-2.0
"""The memory of a transfer: where it is, how long, and that it stays while the call runs."""
from __future__ import annotations

import ctypes
import numbers
import operator
from typing import Any, Optional

_ADDRESS_END = 1 << (8 * ctypes.sizeof(ctypes.c_void_p))


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer. ctypes itself gives no address of read-only memory."""
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None


_nothing = ctypes.create_string_buffer(1)  # where memory of no bytes is


def is_memory(data: Any) -> bool:
    """An address, or an object with memory of its own; what can be read() is a stream."""
    if isinstance(data, numbers.Integral):
        return not isinstance(data, bool)
    if callable(getattr(data, "read", None)):
        return False
    return _has_buffer(data)


def _has_buffer(data: Any) -> bool:
    try:
        memoryview(data).release()
    except TypeError:
        return False
    except (ValueError, BufferError):
        return True  # there is one, but not to be had: Memory says why
    return True


def _length(length: Any) -> Optional[int]:
    if length is None:
        return None
    if isinstance(length, bool):
        raise TypeError("length must be a number of bytes, not bool")
    try:
        number = operator.index(length)
    except TypeError:
        raise TypeError(
            f"length must be a number of bytes, not {type(length).__name__}") from None
    if number < 0:
        raise ValueError(f"length must not be negative: {number}")
    return number


class Memory:
    """[address, address + length). `view` is the same as bytes, or None for a bare address.

    Until release(), the object behind it can neither be resized nor freed."""

    address: int
    length: int
    view: Optional[memoryview]

    def __init__(self, data: Any, length: Any = None, is_target: bool = False) -> None:
        wanted = _length(length)
        self.view = None
        self._is_kept = self._is_lent = False
        if isinstance(data, numbers.Integral):
            self._take_address(data, wanted)
        else:
            self._take_buffer(data, wanted, is_target)
        if is_target and wanted == 0 and (self.view is None or self._whole.nbytes):
            self.release()
            raise ValueError("length 0 leaves no room for an object")

    def _take_address(self, data: Any, wanted: Optional[int]) -> None:
        if isinstance(data, bool):
            raise TypeError("an address is an int, not bool")
        if wanted is None:
            raise ValueError("an address needs a length")
        self.address, self.length = int(data), wanted
        if self.address <= 0 or self.address + self.length > _ADDRESS_END:
            raise ValueError(f"no memory of {wanted} bytes is at address {self.address:#x}")

    def _take_buffer(self, data: Any, wanted: Optional[int], is_target: bool) -> None:
        try:
            view = memoryview(data)
        except TypeError:
            raise TypeError(f"{type(data).__name__} has no memory to move bytes from or into: pass "
                            "bytes, bytearray, memoryview, an array, or an address") from None
        try:
            _check(view, data, is_target)
            length = view.nbytes if wanted is None else wanted
            if length > view.nbytes:
                raise ValueError(f"length {length} exceeds the {view.nbytes} bytes of the buffer")
            raw = _PyBuffer()
            _get_buffer(view, ctypes.byref(raw), 0)
            self.address, self.length = raw.buf or ctypes.addressof(_nothing), length
            # `view` holds the memory from here on; the raw one only told the address.
            _release_buffer(ctypes.byref(raw))
            self._whole = view
            if view.nbytes:
                self.view = view.cast("B")[:length]
            else:
                self.view = memoryview(bytearray())
        except BaseException:
            view.release()
            raise

    def keep(self) -> None:
        """Somebody may still write it: from now on release() does nothing."""
        self._is_kept = True

    def lend(self) -> None:
        """Another thread uses it: until give_back(), release() does nothing, and an exception that
        passes here frees nothing before that thread has ended."""
        self._is_lent = True

    def give_back(self) -> None:
        self._is_lent = False

    def release(self) -> None:
        if self.view is not None and not self._is_kept and not self._is_lent:
            self.view.release()
            self._whole.release()
            self.view = None

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _check(view: memoryview, data: Any, is_target: bool) -> None:
    name = type(data).__name__
    if is_target and view.readonly:
        raise TypeError(f"this {name} is read-only: an object cannot be read into it")
    if not view.c_contiguous:
        raise ValueError(f"this {name} is not contiguous: copy it first, as with bytes() or "
                         "numpy.ascontiguousarray()")
    if "O" in view.format:
        raise TypeError(f"this {name} holds Python objects, not bytes")
