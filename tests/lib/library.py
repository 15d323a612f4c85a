# SPDX-License-Identifier: Apache-2.0
"""The client library's own interface, as little of it as transfers from and into memory need, by
ctypes."""
import ctypes
import functools
import os

import daemon
import rdma

RDMA_REQUIRED = 1


@functools.cache
def library():
    folder = os.path.dirname(rdma.library_path())
    lib = ctypes.CDLL(os.path.join(folder, "libminiocpp.so"))
    p, n, s, i = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
            ("s3r_config_new", p, ()),
            ("s3r_config_free", None, (p,)),
            ("s3r_config_set_endpoint", i, (p, s)),
            ("s3r_config_set_keys", i, (p, s, s, s)),
            ("s3r_config_set_devices", i, (p, s)),
            ("s3r_config_set_patience_ms", i, (p, ctypes.c_int64)),
            ("s3r_client_new", i, (p, p, ctypes.POINTER(p))),
            ("s3r_alloc", p, (p, n)),
            ("s3r_options_new", p, ()),
            ("s3r_options_set_rdma", i, (p, i)),
            ("s3r_put", i, (p, s, s, p, n, p, p)),
            ("s3r_get", i, (p, s, s, p, n, p, p)),
            ("s3r_result_new", p, ()),
            ("s3r_result_message", s, (p,)),
            ("s3r_result_len", ctypes.c_uint64, (p,)),
            ("s3r_error_text", s, (i,))):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class Client:
    """For one thread, until the process ends. Its calls go by RDMA or fail, and return what was
    wrong, or None."""

    def __init__(self, url, device, patience_ms):
        lib = library()
        config = lib.s3r_config_new()
        set_all = (lib.s3r_config_set_endpoint(config, url.encode()),
                   lib.s3r_config_set_keys(config, daemon.USER.encode(), daemon.SECRET.encode(),
                                           None),
                   lib.s3r_config_set_devices(config, device.encode()),
                   lib.s3r_config_set_patience_ms(config, patience_ms))
        assert not any(set_all)
        self.pointer, self.result = ctypes.c_void_p(), lib.s3r_result_new()
        error = lib.s3r_client_new(config, self.result, ctypes.byref(self.pointer))
        lib.s3r_config_free(config)
        assert error == 0, self.why(error)
        self.options = lib.s3r_options_new()
        assert lib.s3r_options_set_rdma(self.options, RDMA_REQUIRED) == 0

    def why(self, error):
        return (library().s3r_result_message(self.result) or
                library().s3r_error_text(error)).decode()

    def alloc(self, size):
        """The address of memory that stays registered while the client lives."""
        address = library().s3r_alloc(self.pointer, size)
        assert address
        return address

    def call(self, function, bucket, key, address, size):
        error = function(self.pointer, bucket.encode(), key.encode(), address, size, self.options,
                         self.result)
        moved = library().s3r_result_len(self.result)
        return self.why(error) if error else None if moved == size else f"{moved} bytes"

    def put(self, *arguments):
        return self.call(library().s3r_put, *arguments)

    def get(self, *arguments):
        return self.call(library().s3r_get, *arguments)
