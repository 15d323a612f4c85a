# SPDX-License-Identifier: Apache-2.0
"""s3rdma, the command-line tool, against the real server."""
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import time
import urllib.request

import pytest

import scripted

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("S3RDMA_BUILD") or os.path.join(TOP, "build")
PROGRAM = os.path.join(BUILD, "s3rdma")
USER, SECRET = "cli-tests", "a secret of the tests"


def clean_environment():
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("S3RDMA_", "AWS_", "MINIO_"))} | {"HOME": "/nonexistent"}


class Server:
    def __init__(self, folder, device="cma"):
        out = os.path.join(folder, "out")
        self.log = os.path.join(folder, "log")
        env = clean_environment() | {"S3RDMA_ROOT_USER": USER, "S3RDMA_ROOT_PASSWORD": SECRET}
        with open(out, "wb") as o, open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [os.path.join(BUILD, "s3rdmad"), "--data", os.path.join(folder, "data"),
                 "--listen", "127.0.0.1:0", "--rdma-device", device], stdout=o, stderr=log, env=env)
        end = time.monotonic() + 60
        while not (match := re.search(r"listening on (\S+)", open(out, encoding="ascii").read())):
            assert self.process.poll() is None and time.monotonic() < end, open(self.log).read()
            time.sleep(0.01)
        self.url = "http://" + match[1]

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        assert self.process.wait(60) == 0, open(self.log, encoding="utf-8").read()[-4000:]

    def environment(self, **more):
        return clean_environment() | {
            "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": SECRET, "S3RDMA_DEVICE": "cma"} | more

    def run(self, *args, data=None, **environment):
        return subprocess.run([PROGRAM, *map(str, args)], env=self.environment(**environment),
                              input=data, capture_output=True, timeout=120, check=False)

    def ok(self, *args, **options):
        done = self.run(*args, **options)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def json(self, *args, **options):
        return [json.loads(line) for line in self.ok(*args, "--json", **options).splitlines()]

    def counters(self):
        with urllib.request.urlopen(self.url + "/minio/metrics/v3/api/rdma", timeout=20) as page:
            text = page.read().decode()
        return {m[1]: int(m[2]) for m in re.finditer(r"^minio_api_rdma_(\w+)\{.*\} (\d+)$", text, re.M)}


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    server = Server(str(tmp_path_factory.mktemp("server")))
    server.ok("mb", "bucket")
    yield server
    server.stop()


@pytest.mark.parametrize("size", [0, 1, 4095, 16384, 16385, 1 << 20, (5 << 20) + 3])
@pytest.mark.parametrize("mode", ["--require-rdma", "--no-rdma"])
def test_an_object_comes_back_as_it_went(cli, tmp_path, size, mode):
    data, key = os.urandom(size), f"bucket/{mode}/{size}"
    (tmp_path / "in").write_bytes(data)
    before = cli.counters()
    up, = cli.json("put", tmp_path / "in", key, mode)
    down, = cli.json("get", key, tmp_path / "out", mode)
    after = cli.counters()
    assert (tmp_path / "out").read_bytes() == data
    assert up["bytes"] == down["bytes"] == size and down["verified"]
    by_rdma = mode == "--require-rdma"
    assert up["transport"] == down["transport"] == ("rdma" if by_rdma else "http")
    assert up["requests"] == down["requests"] == 1
    moved = {k: after[k] - before[k] for k in before}
    assert moved == {"read_ops_total": by_rdma, "read_bytes_total": size * by_rdma,
                     "write_ops_total": by_rdma, "write_bytes_total": size * by_rdma}


def test_parts_by_rdma_make_one_object(cli, tmp_path):
    data = os.urandom((17 << 20) + 5)
    (tmp_path / "in").write_bytes(data)
    up, = cli.json("put", tmp_path / "in", "bucket/parts", "--part-size", "5MiB", "--require-rdma")
    assert up["etag"].endswith("-4") and up["rdma_bytes"] == len(data)
    down, = cli.json("get", "s3://bucket/parts", tmp_path / "out", "--part-size", "6MiB",
                     "--require-rdma")
    assert (tmp_path / "out").read_bytes() == data
    assert down["crc64nvme"] == up["crc64nvme"] and down["verified"]
    assert cli.json("stat", "bucket/parts")[0]["crc64nvme"] == up["crc64nvme"]


def test_standard_streams(cli):
    data = os.urandom((6 << 20) + 1)
    cli.ok("put", "-", "bucket/stream", "--part-size", "5MiB", data=data)
    done = cli.run("cat", "bucket/stream", "--part-size", "5MiB")
    assert done.stdout == data and b"by RDMA (cma)" in done.stderr
    assert cli.run("get", "bucket/stream", "-", "--quiet").stdout == data
    cli.ok("put", "-", "bucket/nothing", data=b"")
    assert cli.run("cat", "bucket/nothing").stdout == b""


def test_what_is_no_regular_file_is_written_and_not_replaced(cli, tmp_path):
    data = os.urandom((6 << 20) + 1)
    cli.ok("put", "-", "bucket/stream", data=data)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    with open(tmp_path / "read", "wb") as out, \
            subprocess.Popen(["cat", tmp_path / "fifo"], stdout=out) as reader:
        try:
            cli.ok("get", "bucket/stream", tmp_path / "fifo", "--part-size", "5MiB")
            assert reader.wait(60) == 0 and (tmp_path / "read").read_bytes() == data
        finally:
            reader.kill()
    cli.ok("get", "bucket/stream", tmp_path / "null")
    assert sorted(os.listdir(tmp_path)) == ["fifo", "null", "read"]
    assert (tmp_path / "fifo").is_fifo() and (tmp_path / "null").is_symlink()


def test_a_download_into_a_pipe_that_nobody_empties_can_be_interrupted(cli, tmp_path):
    cli.ok("put", "-", "bucket/stream", data=os.urandom(2 << 20))
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        writer = subprocess.Popen([PROGRAM, "get", "bucket/stream", tmp_path / "fifo"],
                                  env=cli.environment(), stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL)
        assert select.select([reader], [], [], 100)[0]  # from then on it knows what ^C is
        end = time.monotonic() + 100
        while writer.poll() is None and time.monotonic() < end:
            writer.send_signal(signal.SIGINT)
            time.sleep(0.2)
        assert writer.poll() == 130, writer.stderr.read()
    finally:
        os.close(reader)
        writer.kill()


@pytest.mark.parametrize("text, first, last", [("0-0", 0, 1), ("10-19", 10, 20), ("90-", 90, 100),
                                               ("-7", 93, 100), ("-1000", 0, 100),
                                               ("95-2000", 95, 100)])
def test_ranges(cli, text, first, last):
    data = bytes(range(100))
    cli.ok("put", "-", "bucket/hundred", data=data)
    assert cli.run("cat", "bucket/hundred", "--range", text).stdout == data[first:last]
    done = cli.run("cat", "bucket/hundred", "--range", "100-200")
    assert done.returncode == 1 and b"InvalidRange" in done.stderr


def test_metadata_and_type_are_kept(cli):
    cli.ok("put", "-", "bucket/meta", "--metadata", "colour=blue green", "--metadata", "n=1",
           "--content-type", "text/x-test", data=b"x")
    headers = cli.json("stat", "bucket/meta")[0]["headers"]
    assert headers["x-amz-meta-colour"] == "blue green" and headers["x-amz-meta-n"] == "1"
    assert headers["content-type"] == "text/x-test"


def test_listings(cli):
    cli.ok("mb", "listed")
    keys = ["a/1", "a/2", "b", "odd key+%", "q?x=1&y", "\u00e9", "x//y", "line\nbreak"]
    for key in keys:
        cli.ok("put", "-", "listed/" + key, "--quiet", data=key.encode())
    rows = cli.json("ls", "listed", "--recursive")
    assert [r["key"] for r in rows] == sorted(keys, key=str.encode)
    top = cli.json("ls", "listed")
    assert {r.get("prefix") for r in top} - {None} == {"a/", "x/"}
    assert [r["key"] for r in cli.json("ls", "listed/a/")] == ["a/1", "a/2"]
    assert rb"line\x0abreak" in cli.ok("ls", "listed")
    assert "listed" in [r["bucket"] for r in cli.json("ls")]
    assert cli.run("rb", "listed").returncode == 1
    cli.ok("rm", *["listed/" + k for k in keys])
    cli.ok("rb", "listed")


def test_a_page_of_the_longest_keys_is_listed(cli):
    rows = "".join(f"<Contents><Key>{i:04}{'%C3%A9' * 510}</Key><Size>0</Size></Contents>"
                   for i in range(1000))
    page = ("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
            f"{rows}</ListBucketResult>")
    with scripted.Server() as server:
        server.is_plain_broken = lambda *_: scripted.reply(200, (), page.encode())
        listed = cli.json("ls", "bucket", "--recursive", AWS_ENDPOINT_URL=server.url)
    assert [r["key"] for r in listed] == [f"{i:04}" + "\u00e9" * 510 for i in range(1000)]


def test_a_presigned_link_works_without_credentials(cli):
    cli.ok("put", "-", "bucket/link me", data=b"linked")
    url = cli.ok("presign", "bucket/link me", "--expires", "60").decode().strip()
    with urllib.request.urlopen(url, timeout=20) as reply:
        assert reply.read() == b"linked"


ERRORS = [
    (["get", "bucket/none", "-"], 4, b"NoSuchKey", {}),
    (["get", "nobucket/none", "-"], 4, b"NoSuchBucket", {}),
    (["stat", "bucket/none"], 4, b"404", {}),
    (["put", "-", "nobucket/k"], 4, b"NoSuchBucket", {}),
    (["ls", "nobucket"], 4, b"NoSuchBucket", {}),
    (["ls"], 5, b"SignatureDoesNotMatch", {"AWS_SECRET_ACCESS_KEY": "wrong"}),
    (["ls"], 5, b"InvalidAccessKeyId", {"AWS_ACCESS_KEY_ID": "nobody"}),
    (["ls"], 6, b"127.0.0.1:1", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
    (["mb", "bucket"], 1, b"BucketAlreadyOwnedByYou", {}),
    (["put", "/nonexistent/file", "bucket/k"], 1, b"/nonexistent/file", {}),
    (["put", "/", "bucket/k"], 1, b"directory", {}),
    (["get", "bucket/k", "/nonexistent/file"], 1, b"/nonexistent/file", {}),
    (["put", "-", "bucket/k", "--require-rdma"], 3, b"mlx5_3", {"S3RDMA_DEVICE": "mlx5_3"}),
]


@pytest.mark.parametrize("args, code, text, environment", ERRORS,
                         ids=[" ".join(r[0]) + f" {r[1]}" for r in ERRORS])
def test_exit_codes(cli, args, code, text, environment):
    done = cli.run(*args, data=b"", **environment)
    assert done.returncode == code and text in done.stderr, done.stderr
    assert done.stdout == b""


USAGE = [
    ([], b"command"), (["frobnicate"], b"frobnicate"), (["ls", "a", "b"], b"usage"),
    (["mb"], b"usage"), (["ls", "--frob"], b"--frob"), (["ls", "--endpoint"], b"--endpoint"),
    (["ls", "--json=1"], b"--json"), (["ls", "--range", "1-2"], b"--range"),
    (["cat", "bucket/k", "--range", "5-1"], b"5-1"), (["cat", "bucket/k", "--range", "x"], b"x"),
    (["put", "-", "bucket/k", "--part-size", "1MiB"], b"5MiB"),
    (["put", "-", "bucket/k", "--part-size", "5MB"], b"5MB"),
    (["put", "-", "bucket/k", "--timeout", "0"], b"--timeout"),
    (["put", "-", "bucket/k", "--timeout", "-1"], b"--timeout"),
    (["put", "-", "bucket/k", "--metadata", "x"], b"NAME=VALUE"),
    (["put", "-", "bucket/k", "--require-rdma", "--no-rdma"], b"exclude"),
    (["presign", "bucket/k", "--expires", "700000"], b"--expires"),
    (["presign", "bucket/k", "--method", "POST"], b"--method"),
    (["put", "-", "bucket"], b"key"), (["put", "-", "Bad_Bucket/k"], b"bucket name"),
    (["ls", "--endpoint", "ftp://x"], b"ftp://x"), (["ls", "--region", "a b"], b"region"),
    (["ls", "--profile", "nobody"], b"nobody"), (["ls", "--ca", "/nonexistent"], b"/nonexistent"),
    (["get", "bucket/dir/"], b"file name"), (["token", "xyz"], b"malformed"),
]


@pytest.mark.parametrize("args, text", USAGE, ids=[" ".join(r[0]) for r in USAGE])
def test_wrong_use_is_named(cli, args, text):
    done = cli.run(*args, data=b"")
    assert done.returncode == 2 and text in done.stderr, done.stderr


def test_an_unknown_variable_is_named(cli):
    done = cli.run("ls", S3RDMA_DEVICES="cma")
    assert done.returncode == 2 and b"S3RDMA_DEVICES" in done.stderr
    assert cli.run("ls", S3RDMA_RDMA_DEVICE="cma", S3RDMA_ROOT_PASSWORD_FILE="x").returncode == 0


def test_help_and_version_need_nothing():
    for args in (["--help"], ["--version"], ["put", "--help"]):
        done = subprocess.run([PROGRAM, *args], env={"S3RDMA_X": "1"}, capture_output=True,
                              timeout=20, check=False)
        assert done.returncode == 0 and b"s3rdma" in done.stdout and not done.stderr


def test_tokens_are_explained():
    def token(text):
        return subprocess.run([PROGRAM, "token", text, "--json"], env={}, capture_output=True,
                              timeout=20, check=False)
    dc = "00007f5a1c400000:00400000:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e28"
    fields = json.loads(token(dc).stdout)
    assert (fields["scheme"], fields["size"], fields["peer"]) == ("dc", "4194304", "10.20.30.40")
    fields = json.loads(token("7f2a40000000:100000:cma1:1a2b:5f00d:3:9e3779b97f4a7c15").stdout)
    assert (fields["pid"], fields["slot"]) == ("6699", "3")
    for bad in (dc[:-1], "0:10:ofi2:x", "01" * 44):
        done = token(bad)
        assert done.returncode == 2 and bad.encode() not in done.stderr


def test_devices_say_what_is_usable():
    env = clean_environment() | {"S3RDMA_DEVICE": "cma,mlx5_4"}
    done = subprocess.run([PROGRAM, "devices", "--json"], env=env, capture_output=True, timeout=60,
                          check=False)
    rows = {r["device"]: r for r in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and rows["cma"]["state"] == "usable" and rows["cma"]["in_use"]
    assert rows["mlx5_4"]["state"] == "unusable" and rows["mlx5_4"]["why"]


def test_a_failed_download_leaves_the_old_file(cli, tmp_path):
    (tmp_path / "out").write_bytes(b"old")
    assert cli.run("get", "bucket/none", tmp_path / "out").returncode == 4
    assert (tmp_path / "out").read_bytes() == b"old" and os.listdir(tmp_path) == ["out"]


def test_interrupted_uploads_are_taken_back(cli, tmp_path):
    """SIGINT between the parts of an upload from a pipe."""
    program = subprocess.Popen([PROGRAM, "put", "-", "bucket/never", "--part-size", "5MiB"],
                               env=cli.environment(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdin.write(os.urandom(7 << 20))
    program.stdin.flush()
    end = time.monotonic() + 120
    while b"op=UploadPart bucket=bucket key=never" not in open(cli.log, "rb").read():
        assert time.monotonic() < end
        time.sleep(0.02)
    program.send_signal(signal.SIGINT)
    assert program.wait(30) == 130, program.stderr.read()
    program.stdin.close()
    assert program.stderr.read() == b"s3rdma: interrupted\n"
    while b"op=AbortMultipartUpload bucket=bucket key=never status=204" not in \
            open(cli.log, "rb").read():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert cli.run("stat", "bucket/never").returncode == 4


def test_a_download_from_a_server_that_stopped_ends_in_time(tmp_path):
    """Frozen in the middle: the client gives up after its patience, says that there was no answer,
    and what the server does afterwards harms nobody."""
    server = Server(str(tmp_path))
    try:
        server.ok("mb", "bucket")
        data = os.urandom(1 << 20)
        (tmp_path / "in").write_bytes(data)
        server.ok("put", tmp_path / "in", "bucket/k")
        server.process.send_signal(signal.SIGSTOP)
        done = server.run("get", "bucket/k", tmp_path / "copy", "--timeout", "1", "--require-rdma")
        assert done.returncode == 3, done.stderr
        assert not (tmp_path / "copy").exists()
        server.process.send_signal(signal.SIGCONT)
        server.ok("get", "bucket/k", tmp_path / "copy", "--require-rdma")
        assert hashlib.sha256((tmp_path / "copy").read_bytes()).digest() == \
            hashlib.sha256(data).digest()
    finally:
        server.stop()
