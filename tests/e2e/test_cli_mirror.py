# SPDX-License-Identifier: Apache-2.0
"""s3rdma mirror: what it copies, leaves and removes, both ways."""
import os
import signal

import pytest

import daemon
from cli import Cli
from relay import Relay
from test_cli_cp import get, make_tree, put, read_tree, wait_held

MIB = 1 << 20
FILES = {"a": b"1", "b/c": b"22" * 5000, "b/d/e": b"", "large": os.urandom(11 * MIB)}


@pytest.fixture
def s3(rdma_server):
    return rdma_server.s3()


@pytest.fixture
def cli(rdma_server, device, tmp_path_factory):
    return Cli(rdma_server, device, tmp_path_factory.mktemp("home"))


def keys(s3, bucket):
    return s3("GET", f"/{bucket}?list-type=2").texts("Key")


def counts(rows):
    total = rows[-1]
    return total["objects"], total["same"], total["failed"]


def ops(rows):
    return sorted((row["op"], row["from"].rsplit("/", 1)[1]) for row in rows[:-1])


def test_a_folder_and_a_prefix_become_alike_both_ways(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "in", FILES)
    there = f"s3://{bucket}/p"
    assert counts(cli.json("mirror", tmp_path / "in", there, "--require-rdma",
                           "--part-size", "5MiB")) == (4, 0, 0)
    assert keys(s3, bucket) == ["p/" + name for name in sorted(FILES)]
    assert counts(cli.json("mirror", there, tmp_path / "out", "--require-rdma",
                           "--part-size", "5MiB")) == (4, 0, 0)
    assert read_tree(tmp_path / "out") == FILES


def test_a_second_run_moves_nothing_and_asks_for_listings_only(cli, bucket, tmp_path):
    make_tree(tmp_path / "in", FILES)
    there = f"s3://{bucket}"
    cli.ok("mirror", tmp_path / "in", there)
    cli.ok("mirror", there, tmp_path / "out")
    for args in ((tmp_path / "in", there), (there, tmp_path / "out")):
        rows = cli.json("mirror", *args)
        assert counts(rows) == (0, 4, 0) and rows[-1]["requests"] == 0


def test_a_changed_file_is_copied_and_a_touched_one_is_not(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "in", FILES)
    there = f"s3://{bucket}"
    cli.ok("mirror", tmp_path / "in", there)
    (tmp_path / "in" / "a").write_bytes(b"2")
    for name in ("a", "large"):
        os.utime(tmp_path / "in" / name, (2_000_000_000, 2_000_000_000))
    rows = cli.json("mirror", tmp_path / "in", there)
    assert counts(rows) == (1, 3, 0) and rows[0]["from"].endswith("/a") and rows[-1]["bytes"] == 1
    assert get(s3, bucket, "a") == b"2"


def test_an_object_that_differs_is_fetched_and_one_with_the_same_bytes_is_not(cli, s3, bucket,
                                                                              tmp_path):
    make_tree(tmp_path / "out", FILES)
    for name, data in FILES.items():
        put(s3, bucket, name, b"2" if name == "a" else data)
    rows = cli.json("mirror", f"s3://{bucket}", tmp_path / "out")
    assert counts(rows) == (1, 3, 0)
    assert read_tree(tmp_path / "out") == FILES | {"a": b"2"}
    assert cli.json("mirror", f"s3://{bucket}", tmp_path / "out")[-1]["requests"] == 0


def test_where_no_crc64_is_named_the_md5_of_an_etag_is_compared(cli, s3, bucket, tmp_path,
                                                               rdma_server):
    make_tree(tmp_path / "in", {"a": b"same", "b": b"othr"})
    for key in "ab":
        put(s3, bucket, key, b"same")
        os.utime(tmp_path / "in" / key, (2_000_000_000, 2_000_000_000))
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.strip = rb"(?i)x-amz-checksum-[a-z0-9]+: [^\r]*\r\n"
        assert counts(cli.json("mirror", tmp_path / "in", f"s3://{bucket}", "--dry-run")) == \
            (1, 1, 0)


def test_checksum_finds_what_length_and_time_hide(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "in", FILES)
    there = f"s3://{bucket}"
    cli.ok("mirror", tmp_path / "in", there)
    (tmp_path / "in" / "a").write_bytes(b"2")
    os.utime(tmp_path / "in" / "a", (1_000_000_000, 1_000_000_000))
    assert counts(cli.json("mirror", tmp_path / "in", there)) == (0, 4, 0)
    assert counts(cli.json("mirror", tmp_path / "in", there, "--checksum")) == (1, 3, 0)
    assert get(s3, bucket, "a") == b"2"


def test_delete_removes_what_the_source_does_not_have_and_nothing_else(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "in", FILES)
    there = f"s3://{bucket}/p"
    for key in ("p/old", "p/b/old", "p/marker/", "pother", "q"):
        put(s3, bucket, key, b"" if key.endswith("/") else b"x")
    rows = cli.json("mirror", tmp_path / "in", there)
    assert ("remove", "old") not in ops(rows)
    rows = cli.json("mirror", tmp_path / "in", there, "--delete")
    assert ops(rows) == [("remove", "old"), ("remove", "old")]
    assert keys(s3, bucket) == sorted(["p/" + name for name in FILES] + ["p/marker/", "pother", "q"])
    make_tree(tmp_path / "out", {"old": b"x", "gone/too/old": b"x", "b/mine": b"x"})
    os.makedirs(tmp_path / "out" / "empty")
    cli.ok("mirror", there, tmp_path / "out", "--delete")
    assert read_tree(tmp_path / "out") == FILES
    assert not (tmp_path / "out" / "gone").exists() and (tmp_path / "out" / "empty").is_dir()


def test_dry_run_says_all_and_changes_nothing(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "in", {"new": b"x", "changed": b"1"})
    for key, data in (("changed", b"22"), ("old", b"x")):
        put(s3, bucket, key, data)
    rows = cli.json("mirror", tmp_path / "in", f"s3://{bucket}", "--delete", "--dry-run")
    assert ops(rows) == [("put", "changed"), ("put", "new"), ("remove", "old")]
    assert all(row["dry_run"] for row in rows[:-1])
    text = cli.ok("mirror", tmp_path / "in", f"s3://{bucket}", "--delete", "--dry-run")
    assert f"remove s3://{bucket}/old\n" in text and "3 to do" in text
    assert keys(s3, bucket) == ["changed", "old"] and get(s3, bucket, "changed") == b"22"
    rows = cli.json("mirror", f"s3://{bucket}", tmp_path / "in", "--delete", "--dry-run")
    assert ops(rows) == [("get", "changed"), ("get", "old"), ("remove", "new")]
    assert read_tree(tmp_path / "in") == {"new": b"x", "changed": b"1"}
    cli.ok("mirror", f"s3://{bucket}", tmp_path / "none", "--dry-run")
    assert not (tmp_path / "none").exists()


def test_nothing_is_removed_after_an_error(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "out", {"old": b"x"})
    put(s3, bucket, "../evil")
    put(s3, bucket, "good", b"good")
    done = cli.run("mirror", f"s3://{bucket}", tmp_path / "out", "--delete")
    assert done.returncode == 1 and b"nothing was removed" in done.stderr
    assert read_tree(tmp_path) == {"out/old": b"x", "out/good": b"good"}


def test_a_prefix_with_nothing_below_it_is_no_source(cli, s3, bucket, tmp_path):
    """A slip of the fingers, more likely than an order to empty the folder."""
    make_tree(tmp_path / "out", {"mine": b"x"})
    put(s3, bucket, "prefix/a", b"a")
    done = cli.run("mirror", f"s3://{bucket}/perfix", tmp_path / "out", "--delete")
    assert done.returncode == 4 and b"no key begins with perfix/" in done.stderr
    assert read_tree(tmp_path / "out") == {"mine": b"x"}
    cli.ok("rm", f"s3://{bucket}/prefix/a")
    cli.ok("mirror", f"s3://{bucket}", tmp_path / "out", "--delete")
    assert read_tree(tmp_path / "out") == {}


def test_unfinished_transfers_of_ours_are_neither_sent_nor_removed(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "in", {".s3rdma-1234.part": b"x", "file": b"x"})
    cli.ok("mirror", tmp_path / "in", f"s3://{bucket}", "--delete")
    assert keys(s3, bucket) == ["file"]
    cli.ok("mirror", f"s3://{bucket}", tmp_path / "in", "--delete")
    assert set(read_tree(tmp_path / "in")) == {".s3rdma-1234.part", "file"}


def test_an_interrupted_mirror_is_continued_by_the_same_command(cli, s3, bucket, tmp_path,
                                                               rdma_server):
    files = {str(n): os.urandom(1000) for n in range(20)}
    make_tree(tmp_path / "in", files)
    args = ["mirror", tmp_path / "in", f"s3://{bucket}", "--parallel", "1"]
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(rb"PUT /", after=7)
        program = cli.start(*args)
        wait_held(relay, program)
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60 * daemon.SLOWER)
        assert program.returncode == 130 and b"13 of 20 not done" in errors, errors
        relay.open()
        assert len(keys(s3, bucket)) == 7
        assert counts(cli.json(*args)) == (13, 7, 0)
    assert {k: get(s3, bucket, k) for k in keys(s3, bucket)} == files


def test_two_sides_of_one_kind_are_wrong_use(cli, tmp_path):
    for args in ((tmp_path, tmp_path), ("s3://bucket/a", "s3://bucket/b")):
        done = cli.run("mirror", *args)
        assert done.returncode == 2 and b"s3://" in done.stderr
    assert cli.run("mirror", tmp_path, "s3://no-such-bucket-cli").returncode == 4
    assert cli.run("mirror", tmp_path / "none", "s3://no-such-bucket-cli").returncode in (1, 4)
