# SPDX-License-Identifier: Apache-2.0
"""s3rdma doctor: what it says of this machine and of a server."""
import json
import os

import pytest

import daemon
from cli import Cli
from relay import Relay


@pytest.fixture
def cli(rdma_server, device, tmp_path_factory):
    return Cli(rdma_server, device, tmp_path_factory.mktemp("home"))


@pytest.fixture
def bucket(rdma_server):
    reply = rdma_server.s3()("PUT", f"/doctor-{os.getpid()}")
    assert reply.status in (200, 409), reply
    return f"doctor-{os.getpid()}"


def findings(done):
    rows = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        rows.setdefault(row["check"], []).append((row["state"], row["text"]))
    return rows


def test_a_healthy_pair_is_ok_in_every_line_that_concerns_it(cli, bucket, rdma_server, device):
    before = rdma_server.rdma_counts()
    done = cli.run("doctor", f"s3://{bucket}", "--json")
    rows = findings(done)
    assert done.returncode == 0, done.stdout
    assert set(rows) >= {"devices", "memlock", "peermem", "acs", "ptrace", "seccomp", "loopback",
                         "clock", "server", "transfer"}
    for check in ("seccomp", "clock", "server"):
        assert [state for state, _ in rows[check]] == ["ok"], rows[check]
    assert any(state == "ok" and text.startswith(device + ":") for state, text in rows["loopback"])
    assert [state for state, _ in rows["transfer"]] == ["ok", "ok"]
    assert all("by RDMA" in text for _, text in rows["transfer"])
    after = rdma_server.rdma_counts()
    assert [b - a for a, b in zip(before, after)] == [1, 1 << 20, 1, 1 << 20]
    assert rdma_server.s3()("GET", f"/{bucket}?list-type=2").texts("Key") == []


def test_each_line_says_ok_or_what_to_do(cli, bucket):
    done = cli.run("doctor", f"s3://{bucket}")
    lines = done.stdout.decode().splitlines()
    assert len(lines) > 8 and all(line.split()[0] in ("ok", "note", "fix") for line in lines)
    assert len(cli.run("doctor", f"s3://{bucket}", "--quiet").stdout) == 0


def test_without_a_server_it_looks_at_the_machine(cli):
    env = {"AWS_ENDPOINT_URL": ""}
    done = cli.run("doctor", "--json", **env)
    assert done.returncode == 0 and findings(done)["server"][0][0] == "note", done.stdout


FAULTS = [
    ("a device that is not there", ["--device", "mlx5_3"], {}, "loopback", "mlx5_3"),
    ("no RDMA for the transfer", ["--device", "mlx5_3"], {}, "transfer", "not by RDMA"),
    ("nobody listens", [], {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "server", "running"),
    ("a wrong secret", [], {"AWS_SECRET_ACCESS_KEY": "wrong"}, "server", "credentials"),
    ("no credentials", [], {"AWS_ACCESS_KEY_ID": ""}, "server", "AWS_ACCESS_KEY_ID"),
    ("no such bucket", ["s3://no-such-bucket-doctor"], {}, "transfer", "NoSuchBucket"),
]


@pytest.mark.parametrize("args, environment, check, text", [f[1:] for f in FAULTS],
                         ids=[f[0] for f in FAULTS])
def test_a_fault_is_a_line_with_what_to_do_and_exit_code_1(cli, bucket, args, environment, check,
                                                           text):
    where = [] if any(a.startswith("s3://") for a in args) else [f"s3://{bucket}"]
    done = cli.run("doctor", *where, *args, "--json", **environment)
    assert done.returncode == 1, done.stdout
    assert any(state == "fix" and text in said for state, said in findings(done)[check]), \
        findings(done)


@pytest.mark.parametrize("year, word", [(b"2001", "behind"), (b"2999", "ahead")])
def test_a_clock_that_is_off_is_named(cli, bucket, rdma_server, year, word):
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.strip = rb"(?i)(?<=\r\nDate: ...)[^\r]*"
        relay.put = b", 01 Jan " + year + b" 00:00:00 GMT"
        done = cli.run("doctor", f"s3://{bucket}", "--json")
    (state, text), = findings(done)["clock"]
    assert done.returncode == 1 and state == "fix" and word in text and "NTP" in text


def test_wrong_use_is_named(cli, tmp_path):
    done = cli.run("doctor", tmp_path)
    assert done.returncode == 2 and b"s3://" in done.stderr
    assert cli.run("doctor", "a", "b").returncode == 2
