# SPDX-License-Identifier: Apache-2.0
"""s3rdma bench: what it measures is real, and nothing of it stays."""
import json
import os
import signal

import pytest

import daemon
from cli import Cli
from relay import Relay
from test_cli_cp import wait_held


@pytest.fixture
def s3(rdma_server):
    return rdma_server.s3()


@pytest.fixture
def cli(rdma_server, device, tmp_path_factory):
    return Cli(rdma_server, device, tmp_path_factory.mktemp("home"))


def keys(s3, bucket):
    return s3("GET", f"/{bucket}?list-type=2").texts("Key")


QUICK = ("--seconds", "0.02", "--sizes", "4KiB,1MiB", "--processes", "1,2")


def test_both_ways_are_measured_and_those_by_rdma_are_by_rdma(cli, s3, bucket, rdma_server, device):
    before = rdma_server.rdma_counts()
    rows = cli.json("bench", f"s3://{bucket}", *QUICK)
    reads, read_bytes, writes, write_bytes = \
        (b - a for a, b in zip(before, rdma_server.rdma_counts()))
    assert [(r["processes"], r["size"], r["call"], r["by"]) for r in rows] == [
        (p, size, call, by) for p in (1, 2) for size in (4096, 1 << 20) for call in ("put", "get")
        for by in ("rdma", "http")]
    by_rdma = [r for r in rows if r["by"] == "rdma"]
    for call, ops, moved in (("get", reads, read_bytes), ("put", writes, write_bytes)):
        # each process does one more before each measurement, which is not counted
        mine = [(r["ops"] + r["processes"], r["size"]) for r in by_rdma if r["call"] == call]
        assert ops == sum(n for n, _ in mine) and moved == sum(n * size for n, size in mine)
    assert {r["provider"] for r in by_rdma} == {device.partition(":")[0]}
    for row in rows:
        assert "error" not in row and row["ops"] >= 3 * row["processes"]
        assert 0 < row["p50_us"] <= row["p90_us"] <= row["p99_us"]
        assert row["gb_per_s"] > 0 and row["ops_per_s"] > 0 and row["cpu_s_per_gb"] > 0
        assert ("of_http" in row) == (row["by"] == "rdma")
    assert keys(s3, bucket) == []


def test_the_table_has_a_line_for_each(cli, bucket):
    lines = cli.ok("bench", f"s3://{bucket}/some/prefix", "--seconds", "0.01", "--sizes", "64KiB",
                   "--processes", "2").splitlines()
    assert len(lines) == 5 and "of HTTP" in lines[0]
    assert [line.split()[:5] for line in lines[1:]] == [
        ["2", "64", "KiB", call, by] for call in ("PUT", "GET") for by in ("RDMA", "HTTP")]


def test_without_rdma_it_says_why_and_measures_http(cli, s3, bucket):
    done = cli.run("bench", f"s3://{bucket}", "--seconds", "0.01", "--sizes", "4KiB",
                   "--processes", "1", "--json", S3RDMA_DEVICE="mlx5_3")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 3
    assert all("mlx5_3" in r["why"] for r in rows if r["by"] == "rdma")
    assert all(r["ops"] >= 3 for r in rows if r["by"] == "http")
    assert keys(s3, bucket) == []


@pytest.mark.parametrize("to_all", [False, True])
def test_nothing_stays_after_an_interruption(cli, s3, bucket, to_all):
    program = cli.start("bench", f"s3://{bucket}", "--seconds", "600", "--sizes", "1MiB",
                        "--processes", "3")
    try:
        assert daemon.eventually(lambda: len(keys(s3, bucket)) == 3, 120)
        children = open(f"/proc/{program.pid}/task/{program.pid}/children",
                        encoding="ascii").read().split()
        assert len(children) == 3
        for pid in [program.pid] + [int(c) for c in children if to_all]:
            os.kill(pid, signal.SIGINT)
        _, errors = program.communicate(timeout=120 * daemon.SLOWER)
    finally:
        program.kill()
    assert program.returncode == 130 and b"interrupted" in errors, errors
    assert keys(s3, bucket) == []
    assert not any(os.path.exists(f"/proc/{c}") for c in children)


def test_what_a_killed_process_left_is_removed(cli, s3, bucket, rdma_server):
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(b"PUT /", after=2)  # no PUT is under way at the server when its client ends
        program = cli.start("bench", f"s3://{bucket}", "--seconds", "600", "--sizes", "1MiB",
                            "--processes", "1")
        try:
            wait_held(relay, program)
            assert len(keys(s3, bucket)) == 1
            child, = open(f"/proc/{program.pid}/task/{program.pid}/children",
                          encoding="ascii").read().split()
            os.kill(int(child), signal.SIGKILL)
            program.communicate(timeout=120 * daemon.SLOWER)
        finally:
            program.kill()
    assert program.returncode == 1 and keys(s3, bucket) == []


USAGE = [(["folder"], 2, "s3://"), (["s3://{b}", "--sizes", "0"], 2, "--sizes"),
         (["s3://{b}", "--sizes", "2GiB"], 2, "--sizes"),
         (["s3://{b}", "--sizes", "4KiB,"], 2, "--sizes"),
         (["s3://{b}", "--processes", "65"], 2, "--processes"),
         (["s3://{b}", "--processes", "x"], 2, "--processes"),
         (["s3://nobucket-{b}"], 4, "NoSuchBucket")]


@pytest.mark.parametrize("args, code, text", USAGE, ids=[" ".join(r[0]) for r in USAGE])
def test_wrong_use_is_named(cli, bucket, args, code, text):
    done = cli.run("bench", *[a.format(b=bucket) for a in args])
    assert done.returncode == code and text in done.stderr.decode(), done.stderr
