# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU in the client, by programs and a stand-in for the driver: memory that faults
when the program's processor touches it. No rail here reaches a GPU, so all of it is staged."""
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import daemon
import scripted
from conftest import client_build, compile_c, moved, program_environment, run
from interruption import is_at_rest
from s3raw import UNSIGNED
from serving import need_device

MIB = 1 << 20
ONE = 4 * MIB


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(tmp_path_factory, "gpu")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The folder of a libcuda.so.1."""
    folder = tmp_path_factory.mktemp("driver")
    os.symlink(os.path.join(client_build(), "tests", "helpers", "libcuda_stand_in.so"),
               folder / "libcuda.so.1")
    return str(folder)


@pytest.fixture
def environment_of(driver):
    def make(server, **more):
        env = program_environment(server)
        return {**env, "LD_LIBRARY_PATH": f"{env['LD_LIBRARY_PATH']}:{driver}", **more}
    return make


@pytest.fixture(params=["cma", "ofi:tcp"])
def wire(request):
    need_device(request.param)
    return request.param


def start(servers, device):
    server = servers.start(device)
    assert server.s3()("PUT", "/gpu").status == 200
    return server


def everything(program, env):
    said = json.loads(run([program, "gpu", "all"], env))
    assert said["staged"] == said["right"] == said["rdma"] + said["http"], said
    return said


# Ranges and what is made of them have no checksum.
UNVERIFIED = 6


def test_all_calls_by_rdma(servers, program, environment_of, wire):
    server = start(servers, wire)
    said = everything(program, environment_of(server))
    assert said["http"] == 0 and said["verified"] == said["right"] - UNVERIFIED, said
    gets, _, puts, _ = server.rdma_counts()
    assert gets > 15 and puts > 15


@pytest.mark.parametrize("how, more, reason", [
    ("unwanted", {"GPU_RDMA": "off"}, "off"),
    ("small", {"GPU_HTTP_BELOW": "99999999"}, "threshold"),
    ("without a device", {"S3RDMA_DEVICE": "no_such_adapter"}, "no-device")])
def test_all_calls_by_http(servers, program, environment_of, how, more, reason):
    server = start(servers, "cma")
    said = everything(program, environment_of(server, **more))
    assert (said["rdma"], said["reason"]) == (0, reason), said
    assert said["verified"] == said["right"] - UNVERIFIED, said


def test_all_calls_where_the_server_declines(servers, program, environment_of):
    server = start(servers, "off")
    said = everything(program, environment_of(server, S3RDMA_DEVICE="cma"))
    assert (said["rdma"], said["reason"]) == (0, "declined"), said


# ---- other languages ----

PYTHON = """
    import ctypes, os, s3rdma
    cuda, size = ctypes.CDLL("libcuda.so.1"), (1 << 20) + 5
    cuda.stand_in_shadow.restype, cuda.stand_in_shadow.argtypes = ctypes.c_void_p, (ctypes.c_uint64,)
    def device():
        pointer = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        return pointer.value
    source, target, data = device(), device(), os.urandom(size)
    ctypes.memmove(cuda.stand_in_shadow(source), data, size)
    client = s3rdma.Minio(os.environ["S3RDMA_TEST_ENDPOINT"], os.environ["AWS_ACCESS_KEY_ID"],
                          os.environ["AWS_SECRET_ACCESS_KEY"], secure=False, require_rdma=True)
    client.put_object("gpu", "python", source, length=size)
    assert client.last_transfer.is_staged
    assert client.get_object("gpu", "python", into=target, length=size) == size
    assert ctypes.string_at(cuda.stand_in_shadow(target), size) == data
    """


def test_addresses_in_python(servers, environment_of):
    minio = pytest.importorskip("minio")
    server = start(servers, "cma")
    packages = os.path.dirname(os.path.dirname(minio.__file__))
    path = os.pathsep.join([os.path.join(daemon.TOP, "bindings", "python"), packages])
    env = environment_of(server, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")
    with moved(server, puts=1, put_bytes=MIB + 5, gets=1, get_bytes=MIB + 5):
        run([sys.executable, "-c", textwrap.dedent(PYTHON)], env)


def test_buffers_in_cpp(servers, environment_of, tmp_path):
    server = start(servers, "cma")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cpp", "gpu.cc")
    run(["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
         f"-I{daemon.TOP}/include", source, "-o", str(tmp_path / "gpu"), f"-L{client_build()}",
         "-lminiocpp", "-pthread"], daemon.plain_environment())
    with moved(server, puts=1, put_bytes=MIB + 5, gets=1, get_bytes=MIB + 5):
        run([str(tmp_path / "gpu"), "gpu"], environment_of(server))


# ---- in the middle ----

def content(size):
    """As tests/sdk/c/content.h has it."""
    mask = (1 << 64) - 1
    words = bytearray()
    for i in range(size // 8):
        x = (i + 1) * 0x9e3779b97f4a7c15 & mask
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & mask
        words += (x ^ (x >> 27)).to_bytes(8, "little")
    return bytes(words)


@pytest.fixture(scope="module")
def stored():
    return content(ONE)


@pytest.fixture
def get_one(program, driver):
    def start_one(server):
        class Endpoint:
            url, device = server.url, "cma"
            address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        env = program_environment(Endpoint)
        env["LD_LIBRARY_PATH"] += ":" + driver
        return json.loads(run([program, "gpu", "one"], env))
    return start_one


def half(server, request, conn):
    """A server that goes in the middle of its transfer."""
    request.window.write(b"x" * (len(server.stored) // 2))


def test_a_transfer_that_breaks_goes_on_by_http(get_one, stored):
    with scripted.Server(stored, half) as server:
        said = get_one(server)
    assert said == {"error": "OK", "transport": "http", "reason": "lost", "staged": 1,
                    "verified": 1, "right": 1, "untouched": 0}
    assert len(server.requests) == 2


def test_a_transfer_that_breaks_for_good_leaves_the_memory_alone(get_one, stored):
    with scripted.Server(stored, half) as server:
        server.is_plain_broken = lambda server, request, conn: None
        said = get_one(server)
    assert (said["error"], said["untouched"], said["staged"]) == ("HTTP", 1, 1), said


def test_bytes_that_are_not_the_objects_never_reach_the_memory(get_one, stored):
    def wrong(server, request, conn):
        reply = server.moved(request)
        request.window.write(stored[:100] + bytes([stored[100] ^ 1]))
        return reply

    def wrong_too(server, request, conn):
        return scripted.reply(200, [server.etag(), server.checksum()], b"x" * len(stored))

    with scripted.Server(stored, wrong) as server:
        said = get_one(server)
        assert (said["transport"], said["reason"], said["right"]) == ("http", "checksum", 1), said
        server.is_plain_broken = wrong_too
        said = get_one(server)
    assert (said["error"], said["untouched"]) == ("CHECKSUM", 1), said


def test_the_object_along_with_a_decline_is_delivered(get_one, stored):
    def along(server, request, conn):
        return scripted.reply(200, [server.etag(), server.checksum(), ("x-amz-rdma-reply", "501")],
                              server.stored)

    with scripted.Server(stored, along) as server:
        said = get_one(server)
    assert (said["reason"], said["right"], said["verified"]) == ("declined", 1, 1), said
    assert len(server.requests) == 1


def test_a_server_that_is_killed_leaves_the_memory_alone(servers, program, environment_of, stored):
    server = start(servers, "cma")
    assert server.s3()("PUT", "/gpu/k", stored).status == 200
    with subprocess.Popen([program, "gpu", "until"], env=environment_of(server), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for _ in range(3):
            assert process.stdout.readline() == "rdma\n"
        server.kill()
        rest = process.stdout.read().split()
    assert process.returncode == 0, rest
    assert rest[-1] in ("HTTP", "TIMEOUT"), rest
    server.process = None


def test_a_server_that_is_stopped_and_goes_on_leaves_all_memory_alone(servers, program,
                                                                      environment_of, wire):
    server = start(servers, wire)
    assert server.s3()("PUT", "/gpu/big", os.urandom(64 * MIB), sha256=UNSIGNED).status == 200
    for _ in range(max(4, daemon.scaled(20))):
        with subprocess.Popen([program, "gpu", "stopped"], env=environment_of(server), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == "begun\n"
            time.sleep(random.random() * 0.06)
            server.signal(signal.SIGSTOP)
            try:
                while (said := process.stdout.readline()) == "begun\n":
                    pass
            finally:
                server.signal(signal.SIGCONT)
            assert daemon.eventually(lambda: is_at_rest(server), 60), server.metrics()
            process.communicate("\n")
        assert process.returncode == 0 and said in ("TIMEOUT\n", "RDMA_UNFENCED\n"), said
