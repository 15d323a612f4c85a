# SPDX-License-Identifier: Apache-2.0
"""What tests of the SDKs share: a server that serves RDMA, the environment of a program, and the
proof that its bytes went by RDMA: the server's own counters.

    def test_program(rdma_server, bucket, tmp_path):
        with moved(rdma_server, puts=1, put_bytes=1 << 20):
            run([program, bucket], rdma_server)

Toolchains that cannot be had are a skip that names the reason."""
import contextlib
import os
import subprocess
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import daemon  # noqa: E402
import rdma  # noqa: E402
from serving import *  # noqa: E402,F403
from serving import bucket_name  # noqa: E402


@pytest.fixture(scope="module")
def device():
    """cma: there is one wherever the tests run."""
    return "cma"


@pytest.fixture(scope="module")
def rdma_server(module_servers, device):
    """One for the module."""
    return module_servers.start(device)


@pytest.fixture
def s3(rdma_server):
    """Raw requests to it."""
    return rdma_server.s3()


@pytest.fixture
def bucket(s3):
    """A new one; its name."""
    name = bucket_name()
    reply = s3("PUT", f"/{name}")
    assert reply.status == 200, reply
    return name


@pytest.fixture
def environment(rdma_server):
    """Of a program that is to use that server: pass it to run()."""
    return program_environment(rdma_server)


def program_environment(server):
    """Endpoint and keys as the AWS tools have them, and as HOST:PORT in S3RDMA_TEST_ENDPOINT; the
    libraries on the loader's path and in MINIOCPP_LIB."""
    return {**daemon.plain_environment(),
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": daemon.USER,
            "AWS_SECRET_ACCESS_KEY": daemon.SECRET,
            "AWS_REGION": "us-east-1",
            "S3RDMA_TEST_ENDPOINT": f"{server.address[0]}:{server.address[1]}",
            "S3RDMA_DEVICE": rdma.device_for_client(server.device),
            "LD_LIBRARY_PATH": client_build(),
            "MINIOCPP_LIB": os.path.join(client_build(), "libminiocpp.so")}


def client_build():
    """Where libminiocpp.so and libs3rdma.so.0 are: the plain build, whatever the server's is."""
    plain = daemon.BUILD.removesuffix("-" + daemon.VARIANT)
    return os.environ.get("S3RDMA_CLIENT_BUILD") or plain


def run(command, env, seconds=600, **options):
    """What it printed; anything but 0 is a failure that shows it."""
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=seconds * daemon.SLOWER, check=False, **options)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


def compile_c(tmp_path_factory, name):
    """The program made of tests/sdk/c/NAME.c over our public headers and libminiocpp.so."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "c", name + ".c")
    path = str(tmp_path_factory.mktemp("c") / name)
    run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{daemon.TOP}/include",
         "-o", path, source, f"-L{client_build()}", "-lminiocpp"], os.environ)
    return path


@contextlib.contextmanager
def moved(server, gets=0, get_bytes=0, puts=0, put_bytes=0):
    """The block moves exactly that much by RDMA, as the server counts it."""
    before = server.rdma_counts()
    yield
    after = server.rdma_counts()
    got = tuple(b - a for a, b in zip(before, after))
    assert got == (gets, get_bytes, puts, put_bytes), \
        f"by RDMA went (gets, bytes, puts, bytes) {got}, not {(gets, get_bytes, puts, put_bytes)}"
