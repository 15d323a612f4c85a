# SPDX-License-Identifier: Apache-2.0
"""What every conftest.py here takes over: servers for tests, and their log at a failure.

    from serving import *  # noqa: F403"""
import ctypes.util
import itertools
import os

import pytest

import daemon

__all__ = ["Servers", "bucket_name", "module_servers", "pytest_runtest_makereport", "servers"]


def need_device(device):
    """Skips where there is no libfabric. It is looked up, not loaded: libraries that it links take
    over the signals of a process that loads it as it is."""
    if device.startswith("ofi:") and not ctypes.util.find_library("fabric"):
        pytest.skip("no libfabric here")

_numbers = itertools.count(1)
_running = []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for server in _running:
            lines = server.log().splitlines()[-40:]
            report.sections.append((f"end of {server.log_path}", "\n".join(lines)))


class Servers:
    """Starts servers and, at the end of their scope, judges how each ended."""

    def __init__(self, factory):
        self.factory, self.mine = factory, []

    def make(self, device="off", **options):
        server = daemon.Daemon(self.factory.mktemp("server"), device, **options)
        self.mine.append(server)
        _running.append(server)
        return server

    def start(self, device="off", **options):
        return self.make(device, **options).start()

    def end(self):
        errors = []
        for server in self.mine:
            _running.remove(server)
            try:
                server.stop()
            except AssertionError as e:
                errors.append(str(e))
        assert not errors, "\n".join(errors)


@pytest.fixture(scope="module")
def module_servers(tmp_path_factory):
    servers = Servers(tmp_path_factory)
    yield servers
    servers.end()


@pytest.fixture
def servers(tmp_path_factory):
    """For tests that need servers of their own: servers.start(device, options=[...])."""
    own = Servers(tmp_path_factory)
    yield own
    own.end()


def bucket_name():
    return f"bucket-{os.getpid()}-{next(_numbers)}"
