# SPDX-License-Identifier: Apache-2.0
"""What every test here shares: servers, buckets, devices, and the server's log at a failure.

Long tests are marked `slow`; `-m "not slow"` is the quick part. Their counts are scaled by $SCALE."""
import os
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import rdma  # noqa: E402
from serving import *  # noqa: E402,F403
from serving import bucket_name, need_device  # noqa: E402


def pytest_collection_modifyitems(config, items):
    """A test of one wire's own rule is no test of the other's: it is not run there, not skipped."""
    kept, others = [], []
    for item in items:
        mark = item.get_closest_marker("only_device")
        here = getattr(item, "callspec", None) and item.callspec.params.get("device")
        (others if mark and here not in mark.args else kept).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = kept


@pytest.fixture(scope="module")
def server(module_servers):
    """One for the module, HTTP only."""
    return module_servers.start("off")


@pytest.fixture
def s3(server):
    return server.s3()


@pytest.fixture
def bucket(s3):
    """A new one; its name."""
    name = bucket_name()
    reply = s3("PUT", f"/{name}")
    assert reply.status == 200, reply
    return name


@pytest.fixture(scope="module", params=["cma", "ofi:tcp"])
def device(request):
    need_device(request.param)
    return request.param


@pytest.fixture(scope="module")
def rdma_server(module_servers, device):
    """One for the module and device."""
    return module_servers.start(device)


@pytest.fixture(scope="module")
def owner(device):
    made = rdma.Owner(device)
    yield made
    made.close()
