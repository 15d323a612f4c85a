# SPDX-License-Identifier: Apache-2.0
"""What a client holds after many failures is what it held after a few."""
import json

import pytest

import daemon
from conftest import compile_c, program_environment, run
from serving import need_device

MIB = 1 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(tmp_path_factory, "failing")


@pytest.fixture(params=["cma", "ofi:tcp"])
def failing_device(request):
    need_device(request.param)
    return request.param


@pytest.mark.parametrize("interface", ["miniocpp", "s3r"])
def test_failing_gets_leave_nothing_behind(servers, program, interface, failing_device):
    serving, declining = servers.start(failing_device), servers.start("off")
    for server in (serving, declining):
        s3 = server.s3()
        assert s3("PUT", "/failing").status == 200
        assert s3("PUT", "/failing/large", body=bytes(MIB)).status == 200
    env = {**program_environment(serving),
           "DECLINING_ENDPOINT": f"{declining.address[0]}:{declining.address[1]}"}
    count = max(1000, daemon.scaled(10000))
    said = json.loads(run([program, interface, "failing", str(count)], env, seconds=1800))
    early, late = said["early"], said["late"]
    for what in ("descriptors", "registered", "locked"):
        assert late[what] == early[what], said
    assert abs(late["resident"] - early["resident"]) <= 4 * MIB, said
    assert said["after"]["registered"] == 0, said
    assert serving.rdma_counts() == declining.rdma_counts() == (0, 0, 0, 0)
