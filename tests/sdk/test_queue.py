# SPDX-License-Identifier: Apache-2.0
"""s3r/client.h as a C program uses it: much at a time, from threads and forked children."""
import json
import os
import subprocess

import pytest

import daemon
from conftest import client_build, moved, program_environment, run

MIB = 1 << 20
PART = 5 * MIB
STRIDE = 4096
THREADS = 64
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "c", "queue.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("c") / "queue")
    run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{daemon.TOP}/include",
         "-o", path, SOURCE, f"-L{client_build()}", "-lminiocpp"], os.environ)
    return path


@pytest.fixture
def queue(program, environment, bucket):
    def start(mode, count):
        return json.loads(run([program, bucket, mode, str(count)], environment))
    return start


def range_bytes(count):
    """As the program chooses its ranges."""
    return sum(1 + i * 31 % (STRIDE - 1) for i in range(count))


def test_small_ranges_all_over_one_region_without_a_thread_each(queue, rdma_server):
    count = 10_000
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=count, get_bytes=range_bytes(count)):
        said = queue("ranges", count)
    assert said["right"] == count and said["wrong"] == 0, said
    assert said["threads"] <= 12, said
    assert said["registered"] == 0, said


def test_parts_in_flight_together(queue, rdma_server):
    with moved(rdma_server, puts=6, put_bytes=6 * PART, gets=1, get_bytes=6 * PART):
        said = queue("parts", 6)
    assert said == {"right": 1, "verified": 1, "transport": "rdma"}


def test_one_client_from_many_threads(queue, rdma_server):
    count = 20
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=THREADS * count,
               get_bytes=range_bytes(THREADS * count)):
        said = queue("threads", count)
    assert said["right"] == THREADS * count


def test_children_go_on_with_their_parents_client(queue, rdma_server):
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=3 * 3, get_bytes=3 * (2 * MIB + 9)):
        said = queue("forks", 3)
    assert said["right"] == 6


def test_failures_leave_nothing_behind(queue, rdma_server):
    with moved(rdma_server):
        said = queue("failing", 1500)
    assert said["right"] == 3000
    assert abs(said["more_files"]) <= 2, said  # connections come and go
    assert said["registered"] == 0


def test_objects_by_http_in_flight_together(queue, rdma_server):
    with moved(rdma_server):
        said = queue("plain", 12)
    assert said == {"right": 24, "same": 1}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def test_the_same_under_https(program, module_servers, certificate):
    cert, key = certificate
    server = module_servers.start("cma", options=["--tls-cert", cert, "--tls-key", key])
    environment = {**program_environment(server), "AWS_CA_BUNDLE": cert,
                   "AWS_ENDPOINT_URL": f"https://127.0.0.1:{server.address[1]}"}
    said = json.loads(run([program, "under-tls", "plain", "4"], environment))
    assert said == {"right": 8, "same": 1}
    said = json.loads(run([program, "under-tls", "ranges", "300"], environment))
    assert (said["right"], said["wrong"]) == (300, 0), said


def test_the_same_from_the_address_of_the_wire(program, module_servers):
    server = module_servers.start("ofi:tcp@127.0.0.1")
    with moved(server, puts=1, put_bytes=MIB, gets=300, get_bytes=range_bytes(300)):
        said = json.loads(run([program, "over-ofi", "ranges", "300"], program_environment(server)))
    assert (said["right"], said["wrong"]) == (300, 0), said
