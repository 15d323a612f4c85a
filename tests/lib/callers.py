# SPDX-License-Identifier: Apache-2.0
"""Transfers through each interface of the library, by tests/helpers/caller.c.

    calls = call(server, "get", tmp_path / "got", "s3r", "miniocpp", size=1000)
    calls["s3r"].error == "OK" and calls["s3r"].content == ..."""
import contextlib
import json
import os
import subprocess

import daemon
import rdma

PROGRAM = os.path.join(daemon.BUILD, "tests", "helpers", "caller")
RANGE_OFF = 100  # where `piece` and `queue-piece` begin
GUARD_LEN = 4096
CANARY = bytes([rdma.CANARY])
WHOLE = ("s3r", "queue", "miniocpp")
PIECES = ("piece", "queue-piece")
TELLING = ("s3r", "piece", "queue", "queue-piece")  # what carried the bytes, and why


class Call:
    """What became of one: the fields that the program prints, and the memory afterwards."""

    def __init__(self, said, memory, size):
        self.__dict__.update(said)
        self.said = said
        if memory is not None:
            self.content, self.guard = memory[:size], memory[size:]

    def is_untouched(self, start=0):
        """From there on, the bytes after the memory included."""
        rest = (self.content + self.guard)[start:]
        return rest == CANARY * len(rest)

    def __repr__(self):
        return repr(self.said)


def environment(server, device):
    keys = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "secret"}
    if isinstance(server, daemon.Daemon):
        keys = {"AWS_ACCESS_KEY_ID": daemon.USER, "AWS_SECRET_ACCESS_KEY": daemon.SECRET}
    return {**daemon.plain_environment(), **keys, "AWS_ENDPOINT_URL": server.url,
            "S3RDMA_DEVICE": rdma.device_for_client(device)}


def start(server, operation, path, *interfaces, size, device="cma", options=()):
    return subprocess.Popen(
        [PROGRAM, *options, operation, str(path), str(size), *interfaces],
        env=environment(server, device), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)


def read_line(program):
    line = program.stdout.readline()
    assert line, program.communicate()[1].decode(errors="replace")
    return json.loads(line)


def take_call(program, operation, path, size):
    """The next of a program's: where its memory is, and what became of it."""
    return take_end(program, operation, path, size, read_line(program))


def take_end(program, operation, path, size, where):
    said = read_line(program)
    memory = None
    if operation == "get":
        with open(f"{path}.{said['interface']}", "rb") as f:
            memory = f.read()
    return Call({**where, **said}, memory, size)


@contextlib.contextmanager
def running(*arguments, **options):
    """A program under way; it must end well."""
    with start(*arguments, **options) as program:
        try:
            yield program
            _, errors = program.communicate(timeout=60 * daemon.SLOWER)
        finally:
            program.kill()
    assert program.returncode == 0 and not errors, errors.decode(errors="replace")


def call(server, operation, path, *interfaces, size, **options):
    """{interface: Call}, one after the other in one process."""
    calls = {}
    with running(server, operation, path, *interfaces, size=size, **options) as program:
        for _ in interfaces:
            made = take_call(program, operation, path, size)
            calls[made.interface] = made
    return calls


def call_together(server, operation, path, *interfaces, size, **options):
    """The same, in a process each: for calls that wait long."""
    calls = {}
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(running(server, operation, path, name, size=size,
                                                **options)) for name in interfaces]
        for program in programs:
            made = take_call(program, operation, path, size)
            calls[made.interface] = made
    return calls
