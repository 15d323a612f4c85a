# SPDX-License-Identifier: Apache-2.0
"""The shared library, by ctypes: MINIOCPP_LIB, else libminiocpp.so where the loader finds it.

Ours has two interfaces: that of minio-cpp (miniocpp_*) and its own (s3r_*), which also says what
carried the bytes. Another library of that name has the first one alone, and is used with that."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Optional, Sequence, Tuple

from .errors import RDMANotAvailable

_P, _S, _N = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_I = ctypes.c_int
CANCEL = ctypes.CFUNCTYPE(_I, _P)  # asked now and then; not 0: stop

_MINIOCPP = {
    "miniocpp_client_new": (_P, (_S, _S, _S, _S, _S, _I)),
    "miniocpp_client_free": (None, (_P,)),
    "miniocpp_put_object": (ctypes.c_ssize_t, (_P, _S, _S, _P, _N, _P, _P, _P, _P)),
    "miniocpp_get_object": (ctypes.c_ssize_t, (_P, _S, _S, _P, _N, _P, _P)),
    "miniocpp_alloc_aligned": (_P, (_N,)),
    "miniocpp_free_aligned": (None, (_P,)),
    "miniocpp_rdma_available": (_I, ()),
    "miniocpp_last_error": (_S, ()),
}
_S3R = {
    "s3r_config_new": (_P, ()),
    "s3r_config_free": (None, (_P,)),
    "s3r_config_set_endpoint": (_I, (_P, _S)),
    "s3r_config_set_region": (_I, (_P, _S)),
    "s3r_config_set_keys": (_I, (_P, _S, _S, _S)),
    "s3r_config_set_ca_file": (_I, (_P, _S)),
    "s3r_config_set_proxy": (_I, (_P, _S)),
    "s3r_client_new": (_I, (_P, _P, ctypes.POINTER(_P))),
    "s3r_client_free": (None, (_P,)),
    "s3r_registered_bytes": (ctypes.c_uint64, (_P,)),
    "s3r_register": (_I, (_P, _P, _N, _P)),
    "s3r_deregister": (_I, (_P, _P, _P)),
    "s3r_options_new": (_P, ()),
    "s3r_options_free": (None, (_P,)),
    "s3r_options_set_rdma": (_I, (_P, _I)),
    "s3r_options_set_header": (_I, (_P, _S, _S)),
    "s3r_options_set_pieces": (_I, (_P, ctypes.c_uint64, ctypes.c_uint)),
    "s3r_options_set_cancel": (_I, (_P, CANCEL, _P)),
    "s3r_put": (_I, (_P, _S, _S, _P, _N, _P, _P)),
    "s3r_get": (_I, (_P, _S, _S, _P, _N, _P, _P)),
    "s3r_get_range": (_I, (_P, _S, _S, ctypes.c_uint64, _P, _N, _P, _P)),
    "s3r_result_new": (_P, ()),
    "s3r_result_free": (None, (_P,)),
    "s3r_result_message": (_S, (_P,)),
    "s3r_result_s3_code": (_S, (_P,)),
    "s3r_result_status": (_I, (_P,)),
    "s3r_result_transport": (_I, (_P,)),
    "s3r_result_provider": (_S, (_P,)),
    "s3r_result_reason": (_I, (_P,)),
    "s3r_result_reason_text": (_S, (_P,)),
    "s3r_result_len": (ctypes.c_uint64, (_P,)),
    "s3r_result_etag": (_S, (_P,)),
    "s3r_result_version_id": (_S, (_P,)),
    "s3r_result_crc64_text": (_S, (_P,)),
    "s3r_result_is_staged": (_I, (_P,)),
    "s3r_result_header_name": (_S, (_P, _N)),
    "s3r_result_header_value": (_S, (_P, _N)),
    "s3r_transport_name": (_S, (_I,)),
    "s3r_reason_name": (_S, (_I,)),
    "s3r_error_name": (_S, (_I,)),
}


class Library:
    """One loaded library; `has_s3r`: it is ours, and says what carried the bytes."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.c = ctypes.CDLL(path)
        except OSError as e:
            raise RDMANotAvailable(f"no library: {e} (MINIOCPP_LIB names the file)") from e
        missing = self._declare(_MINIOCPP)
        if missing:
            raise RDMANotAvailable(f"{path} is no libminiocpp: it has no {', '.join(missing)}")
        self.has_s3r = not self._declare(_S3R)

    def _declare(self, table: Dict[str, Tuple[Any, Tuple[Any, ...]]]) -> Sequence[str]:
        missing = []
        for name, (result, arguments) in table.items():
            try:
                function = getattr(self.c, name)
            except AttributeError:
                missing.append(name)
                continue
            function.restype, function.argtypes = result, arguments
        return missing


_loaded: Dict[str, Library] = {}


def load() -> Library:
    """The library; RDMANotAvailable says why there is none. A failure is not remembered."""
    path = os.environ.get("MINIOCPP_LIB") or "libminiocpp.so"
    found: Optional[Library] = _loaded.get(path)
    if found is None:
        found = _loaded.setdefault(path, Library(path))
    return found


def is_rdma_available() -> bool:
    """Is there a library, and a usable RDMA device on this host? Never raises."""
    try:
        return bool(load().c.miniocpp_rdma_available() == 1)
    except RDMANotAvailable:
        return False


def c_text(text: str, what: str) -> bytes:
    """For C, where a text ends at its first NUL."""
    encoded = text.encode("utf-8")
    if b"\0" in encoded:
        raise ValueError(f"{what} must not have a NUL character: {text!r}")
    return encoded
