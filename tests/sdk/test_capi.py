# SPDX-License-Identifier: Apache-2.0
"""libminiocpp.so as a program of another language loads it: by ctypes, in a process of its own."""
import sys
import textwrap

import pytest

from conftest import moved, run

PRELUDE = """
    import ctypes, os
    lib = ctypes.CDLL(os.environ["MINIOCPP_LIB"])
    P, N, S, Z = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_ssize_t
    lib.miniocpp_client_new.restype = P
    lib.miniocpp_client_new.argtypes = (S, S, S, S, S, ctypes.c_int)
    lib.miniocpp_client_free.argtypes = (P,)
    lib.miniocpp_put_object.restype = lib.miniocpp_get_object.restype = Z
    lib.miniocpp_put_object.argtypes = (P, S, S, P, N, P, P, S, S)
    lib.miniocpp_get_object.argtypes = (P, S, S, P, N, P, P)
    lib.miniocpp_alloc_aligned.restype, lib.miniocpp_alloc_aligned.argtypes = P, (N,)
    lib.miniocpp_free_aligned.argtypes = (P,)
    lib.miniocpp_last_error.restype = S
    def error():
        return (lib.miniocpp_last_error() or b"").decode()
    def new(access=os.environ["AWS_ACCESS_KEY_ID"], secret=os.environ["AWS_SECRET_ACCESS_KEY"]):
        return lib.miniocpp_client_new(os.environ["S3RDMA_TEST_ENDPOINT"].encode(), None,
                                       access.encode(), secret.encode(), b"", 0)
    assert lib.miniocpp_last_error() is None
    client = new()
    assert client, error()
    bucket = os.environ["BUCKET"].encode()
    """


@pytest.fixture
def program(environment, bucket):
    def start(text):
        whole = textwrap.dedent(PRELUDE) + textwrap.dedent(text)
        return run([sys.executable, "-c", whole], {**environment, "BUCKET": bucket})
    return start


def test_memory_goes_up_and_comes_back_by_rdma(program, rdma_server):
    with moved(rdma_server, puts=3, put_bytes=(1 << 20) + 5, gets=2, get_bytes=(1 << 20) + 5):
        program("""
            size = 1 << 20
            src, dst = lib.miniocpp_alloc_aligned(size), lib.miniocpp_alloc_aligned(2 * size)
            assert src and dst and src % 4096 == 0
            data = os.urandom(size)
            ctypes.memmove(src, data, size)
            etag, checksum = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
            put = lib.miniocpp_put_object
            assert put(client, bucket, b"k", src, size, None, None, etag, checksum) == size, error()
            assert len(etag.value) >= 32 and b'"' not in etag.value, etag.value
            assert len(checksum.value) == 12, checksum.value
            # The object's bytes come back, not the buffer's.
            n = lib.miniocpp_get_object(client, bucket, b"k", dst, 2 * size, None, None)
            assert n == size, (n, error())
            assert ctypes.string_at(dst, size) == data
            assert ctypes.string_at(dst + size, size) == bytes(size)
            # Memory of the caller's own, at no particular address; and none at all.
            own = ctypes.create_string_buffer(b"..hello..", 9)
            at = ctypes.addressof(own) + 2
            assert put(client, bucket, b"own", at, 5, None, None, None, None) == 5, error()
            assert put(client, bucket, b"nil", at, 0, None, None, None, None) == 0, error()
            assert lib.miniocpp_get_object(client, bucket, b"own", dst, size, None, None) == 5
            assert ctypes.string_at(dst, 5) == b"hello"
            assert lib.miniocpp_last_error() is None
            lib.miniocpp_free_aligned(src)
            lib.miniocpp_client_free(client)
            lib.miniocpp_free_aligned(dst)
            """)


def test_errors_are_the_servers_own_and_name_sizes(program, rdma_server):
    with moved(rdma_server, puts=1, put_bytes=1000):
        program("""
            buf = lib.miniocpp_alloc_aligned(4096)
            put, get = lib.miniocpp_put_object, lib.miniocpp_get_object
            assert put(client, bucket, b"k", buf, 1000, None, None, None, None) == 1000, error()
            ctypes.memset(buf, 0xAA, 4096)
            assert get(client, bucket, b"missing", buf, 4096, None, None) == -1
            assert error().startswith("NoSuchKey"), error()
            assert get(client, bucket, b"k", buf, 999, None, None) == -1
            assert "1000" in error() and "999" in error(), error()
            assert ctypes.string_at(buf + 999, 3097) == b"\\xaa" * 3097
            stranger = new(secret="not the secret")
            assert get(stranger, bucket, b"k", buf, 4096, None, None) == -1
            assert error().startswith("SignatureDoesNotMatch"), error()
            """)


def test_what_is_no_client_no_memory_or_no_name_is_refused(program):
    program("""
        buf = lib.miniocpp_alloc_aligned(4096)
        get, put = lib.miniocpp_get_object, lib.miniocpp_put_object
        own = ctypes.create_string_buffer(8)
        lib.miniocpp_free_aligned(None)
        lib.miniocpp_free_aligned(buf + 8)
        lib.miniocpp_free_aligned(ctypes.addressof(own))
        lib.miniocpp_client_free(None)
        stale = new()
        lib.miniocpp_client_free(stale)
        lib.miniocpp_client_free(stale)
        for bad in (None, stale, buf, ctypes.addressof(own), 1, (1 << 64) - 1):
            assert get(bad, bucket, b"k", buf, 8, None, None) == -3, bad
            assert put(bad, bucket, b"k", buf, 8, None, None, None, None) == -3, bad
            assert "no such client" in error(), error()
        assert get(client, None, b"k", buf, 8, None, None) == -3
        assert get(client, bucket, None, buf, 8, None, None) == -3
        assert get(client, bucket, b"k", None, 8, None, None) == -3
        assert get(client, bucket, b"k", buf, 4097, None, None) == -3
        assert "4096" in error(), error()
        assert lib.miniocpp_alloc_aligned((1 << 64) - 1) is None
        assert lib.miniocpp_alloc_aligned(1 << 62) is None
        for endpoint in (None, b"", b"http://a", b"a:b", b"a/b", b"a:99999"):
            assert lib.miniocpp_client_new(endpoint, b"", b"a", b"b", b"", 0) is None, endpoint
        assert lib.miniocpp_client_new(b"a", b"", b"", b"b", b"", 0) is None
        """)


def test_a_fork_goes_on_with_the_same_client_and_memory(program, rdma_server):
    with moved(rdma_server, puts=2, put_bytes=2 << 20, gets=2, get_bytes=2 << 20):
        program("""
            size = 1 << 20
            buf = lib.miniocpp_alloc_aligned(size)
            def there_and_back(name):
                data = os.urandom(size)
                ctypes.memmove(buf, data, size)
                n = lib.miniocpp_put_object(client, bucket, name, buf, size, None, None, None, None)
                assert n == size, error()
                ctypes.memset(buf, 0, size)
                assert lib.miniocpp_get_object(client, bucket, name, buf, size, None, None) == size
                assert ctypes.string_at(buf, size) == data
            there_and_back(b"parent")
            pid = os.fork()
            if pid == 0:
                there_and_back(b"child")
                lib.miniocpp_free_aligned(buf)
                lib.miniocpp_client_free(client)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            """)


def test_devices_are_counted(program, environment):
    program("""
        assert lib.miniocpp_rdma_available() == 1
        assert lib.miniocpp_rdma_nic_count() == lib.miniocpp_rdma_healthy_nic_count() == 1
        os.putenv("S3RDMA_DEVICE", "no_such_adapter")
        assert lib.miniocpp_rdma_available() == 0
        assert lib.miniocpp_rdma_nic_count() == lib.miniocpp_rdma_healthy_nic_count() == 0
        assert "no_such_adapter" in error(), error()
        """)


def test_without_a_device_the_same_memory_goes_by_http(program, environment, rdma_server):
    environment["S3RDMA_DEVICE"] = "no_such_adapter"
    with moved(rdma_server):
        program("""
            buf = lib.miniocpp_alloc_aligned(4096)
            ctypes.memmove(buf, b"by http", 7)
            n = lib.miniocpp_put_object(client, bucket, b"k", buf, 7, None, None, None, None)
            assert n == 7, error()
            ctypes.memset(buf, 0, 7)
            assert lib.miniocpp_get_object(client, bucket, b"k", buf, 4096, None, None) == 7
            assert ctypes.string_at(buf, 7) == b"by http"
            """)
