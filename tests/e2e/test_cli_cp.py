# SPDX-License-Identifier: Apache-2.0
"""s3rdma cp: trees, single files, hostile keys, and going on after an interruption."""
import os
import re
import signal
import socket
import stat
import subprocess
import threading

import pytest

import daemon
import s3raw
from cli import Cli, command
from relay import Relay

MIB = 1 << 20


@pytest.fixture
def s3(rdma_server):
    return rdma_server.s3()


@pytest.fixture
def cli(rdma_server, device, tmp_path_factory):
    return Cli(rdma_server, device, tmp_path_factory.mktemp("home"))


def put(s3, bucket, key, data=b"x"):
    reply = s3("PUT", s3raw.path(bucket, key), data)
    assert reply.status == 200, reply


def get(s3, bucket, key):
    reply = s3("GET", s3raw.path(bucket, key))
    return reply.body if reply.status == 200 else reply.status


def open_uploads(s3, bucket):
    return s3("GET", f"/{bucket}?uploads").texts("UploadId")


def make_tree(folder, files):
    for name, data in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)


def read_tree(folder):
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, folder)] = f.read()
    return found


FILES = {"a": b"1", "b/c": b"22" * 5000, "b/d/e f": b"", "b/d/\u00e9+%": os.urandom(70_000),
         "large": os.urandom(12 * MIB + 5), "q?x=1&y": b"?"}


def test_a_tree_comes_back_as_it_went_and_travels_by_rdma(cli, s3, bucket, tmp_path, rdma_server):
    make_tree(tmp_path / "in", FILES)
    before = rdma_server.rdma_counts()
    up = cli.json("cp", "-r", tmp_path / "in", f"s3://{bucket}/tree", "--part-size", "5MiB",
                  "--require-rdma")
    down = cli.json("cp", "-r", f"s3://{bucket}/tree", tmp_path / "out", "--part-size", "6MiB",
                    "--require-rdma")
    after = rdma_server.rdma_counts()
    assert read_tree(tmp_path / "out") == FILES
    size = sum(map(len, FILES.values()))
    assert up[-1]["objects"] == down[-1]["objects"] == len(FILES)
    assert up[-1]["rdma_bytes"] == down[-1]["rdma_bytes"] == size
    assert after[1] - before[1] == after[3] - before[3] == size
    assert all(row["verified"] for row in down[:-1])
    assert {row["to"] for row in up[:-1]} == {f"s3://{bucket}/tree/{name}" for name in FILES}


def test_one_file_gets_the_name_that_was_asked_for(cli, s3, bucket, tmp_path):
    make_tree(tmp_path, {"file": b"data"})
    (tmp_path / "dir").mkdir()
    cli.ok("cp", tmp_path / "file", f"s3://{bucket}")
    cli.ok("cp", tmp_path / "file", f"s3://{bucket}/folder/")
    cli.ok("cp", tmp_path / "file", f"s3://{bucket}/other")
    assert [get(s3, bucket, k) for k in ("file", "folder/file", "other")] == [b"data"] * 3
    cli.ok("cp", f"s3://{bucket}/folder/file", tmp_path / "dir")
    cli.ok("cp", f"s3://{bucket}/folder/file", tmp_path / "copy")
    cli.ok("cp", f"s3://{bucket}/folder/file", f"s3://{bucket}/third")
    assert read_tree(tmp_path) == {"file": b"data", "dir/file": b"data", "copy": b"data"}
    assert get(s3, bucket, "third") == b"data"


def test_copies_between_buckets_never_pass_through_the_client(cli, s3, bucket, rdma_server):
    for key in ("t/a", "t/b/c"):
        put(s3, bucket, key, key.encode())
    before = rdma_server.rdma_counts()
    rows = cli.json("cp", "-r", f"s3://{bucket}/t", f"s3://{bucket}/u")
    assert rdma_server.rdma_counts() == before and rows[-1]["bytes"] == 0
    assert get(s3, bucket, "u/a") == b"t/a" and get(s3, bucket, "u/b/c") == b"t/b/c"


def test_a_large_copy_goes_in_parts_with_its_metadata(cli, s3, bucket, rdma_server):
    data = os.urandom(12 * MIB + 1)
    reply = s3("PUT", f"/{bucket}/large", data, headers=[("x-amz-meta-colour", "blue"),
                                                         ("content-type", "text/x-test")])
    assert reply.status == 200
    before = rdma_server.rdma_counts()
    rows = cli.json("cp", f"s3://{bucket}/large", f"s3://{bucket}/copy", "--part-size", "5MiB")
    assert rdma_server.rdma_counts() == before and rows[0]["etag"].endswith("-3")
    reply = s3("GET", f"/{bucket}/copy")
    assert reply.body == data and open_uploads(s3, bucket) == []
    assert (reply["x-amz-meta-colour"], reply["content-type"]) == ("blue", "text/x-test")


def test_an_object_with_all_the_headers_that_a_request_can_have(cli, s3, bucket, tmp_path):
    stored = {f"x-amz-meta-{i}": "v" for i in range(95)}
    assert s3("PUT", f"/{bucket}/k", b"x", list(stored.items())).status == 200
    assert stored.items() <= cli.json("stat", f"s3://{bucket}/k")[0]["headers"].items()
    assert cli.json("cp", f"s3://{bucket}/k", tmp_path / "out")[0]["transport"] == "rdma"


def test_metadata_and_type_go_along(cli, s3, bucket, tmp_path):
    make_tree(tmp_path, {"file": os.urandom(6 * MIB), "small": b"x"})
    for name in ("file", "small"):
        cli.ok("cp", tmp_path / name, f"s3://{bucket}/{name}", "--metadata", "colour=blue",
               "--content-type", "text/x-test", "--part-size", "5MiB")
        reply = s3("HEAD", f"/{bucket}/{name}")
        assert (reply["x-amz-meta-colour"], reply["content-type"]) == ("blue", "text/x-test")


HOSTILE = ["../evil", "a/../../evil", "/abs", "a//b", "./dot", "a/.", "line\nbreak", "bell\x07",
           "c1\u009b31m", "del\x7f", ".s3rdma-mine", "a/.s3rdma-x/y", "n" * 256, "dir/notempty/"]


def test_hostile_keys_never_leave_the_target_and_do_not_stop_the_others(cli, s3, bucket, tmp_path):
    target = tmp_path / "deep" / "target"
    for key in HOSTILE + ["good", "a/good"]:
        put(s3, bucket, key, b"hostile" if key in HOSTILE else b"good")
    done = cli.run("cp", "-r", f"s3://{bucket}", target)
    assert done.returncode == 1
    assert read_tree(tmp_path) == {"deep/target/good": b"good", "deep/target/a/good": b"good"}
    text = done.stderr.decode()
    assert text.count("cannot be a file") == len(HOSTILE)
    for name in ("../evil", "/abs", "a//b", "./dot", "line\\x0abreak", ".s3rdma-mine"):
        assert f"s3://{bucket}/{name}: cannot" in text
    assert "\x07" not in text and "\x9b" not in text
    for key in ("../evil", "x/.."):
        put(s3, bucket, key)
        assert cli.run("cp", f"s3://{bucket}/{key}", tmp_path).returncode in (0, 2)
    assert not (tmp_path.parent / "evil").exists()


def test_a_file_where_a_folder_is_needed_is_one_error(cli, s3, bucket, tmp_path):
    put(s3, bucket, "a", b"file")
    put(s3, bucket, "b/c", b"good")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "in").write_bytes(b"mine")
    done = cli.run("cp", "-r", f"s3://{bucket}", tmp_path)
    assert done.returncode == 1 and f"s3://{bucket}/a" in done.stderr.decode()
    assert read_tree(tmp_path) == {"a/in": b"mine", "b/c": b"good"}


def test_an_empty_key_with_a_slash_is_a_folder(cli, s3, bucket, tmp_path):
    put(s3, bucket, "p/", b"")
    put(s3, bucket, "p/sub/", b"")
    put(s3, bucket, "p/file", b"x")
    cli.ok("cp", "-r", f"s3://{bucket}/p", tmp_path / "out")
    assert (tmp_path / "out" / "sub").is_dir() and read_tree(tmp_path / "out") == {"file": b"x"}


def test_symbolic_links_in_the_target_lead_nowhere(cli, s3, bucket, tmp_path):
    make_tree(tmp_path, {"outside/secret": b"mine"})
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "dir").symlink_to(tmp_path / "outside")
    (tmp_path / "target" / "file").symlink_to(tmp_path / "outside" / "secret")
    for key in ("dir/secret", "dir/new", "file"):
        put(s3, bucket, key, b"theirs")
    done = cli.run("cp", "-r", f"s3://{bucket}", tmp_path / "target")
    assert done.returncode == 1 and f"s3://{bucket}/dir/new" in done.stderr.decode()
    assert read_tree(tmp_path / "outside") == {"secret": b"mine"}
    assert (tmp_path / "target" / "file").read_bytes() == b"theirs"
    assert not (tmp_path / "target" / "file").is_symlink()


def test_what_is_no_regular_file_is_never_replaced(cli, s3, bucket, tmp_path):
    for key in ("fifo", "socket", "good"):
        put(s3, bucket, key, b"theirs")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(tmp_path / "socket"))
    (tmp_path / "null").symlink_to("/dev/null")
    for command_line in (["cp", "-r"], ["mirror"]):
        done = cli.run(*command_line, f"s3://{bucket}", tmp_path)
        assert done.returncode == 1 and done.stderr.count(b"cannot be a file") == 2, done.stderr
    assert cli.run("cp", f"s3://{bucket}/fifo", tmp_path).returncode == 1
    for name in ("fifo", "null"):
        done = cli.run("cp", f"s3://{bucket}/good", tmp_path / name)
        assert done.returncode == 2 and b"get writes into it" in done.stderr, done.stderr
    modes = {name: stat.S_IFMT(os.lstat(tmp_path / name).st_mode) for name in os.listdir(tmp_path)}
    assert modes == {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK, "null": stat.S_IFLNK,
                     "good": stat.S_IFREG}


def test_symbolic_links_in_the_source_are_left_out_and_named(cli, s3, bucket, tmp_path):
    make_tree(tmp_path, {"outside/secret": b"mine", "in/file": b"x"})
    (tmp_path / "in" / "link").symlink_to(tmp_path / "outside" / "secret")
    (tmp_path / "in" / "dir").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "in" / "fifo")
    done = cli.run("cp", "-r", tmp_path / "in", f"s3://{bucket}")
    assert done.returncode == 0, done.stderr
    assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == ["file"]
    assert all(name in done.stderr for name in (b"link", b"dir", b"fifo"))


def test_what_cannot_be_a_key_is_an_error_and_the_others_go_on(cli, s3, bucket, tmp_path):
    make_tree(tmp_path / "in", {"good": b"x"})
    with open(os.fsencode(tmp_path / "in") + b"/bad\xff", "wb"):
        pass
    done = cli.run("cp", "-r", tmp_path / "in", f"s3://{bucket}")
    assert done.returncode == 1 and b"bad" in done.stderr
    assert get(s3, bucket, "good") == b"x"


ERRORS = [
    (["cp", "{tmp}/none", "s3://{b}/k"], 1, "none"),
    (["cp", "{tmp}", "s3://{b}/k"], 2, "-r"),
    (["cp", "s3://{b}/none", "{tmp}/x"], 4, "s3://{b}/none"),
    (["cp", "s3://{b}/none", "s3://{b}/x"], 4, "s3://{b}/none"),
    (["cp", "-r", "s3://{b}/none", "{tmp}/x"], 4, "none/"),
    (["cp", "-r", "s3://nobucket-{b}", "{tmp}/x"], 4, "NoSuchBucket"),
    (["cp", "{tmp}/f", "s3://nobucket-{b}/x"], 4, "NoSuchBucket"),
    (["cp", "s3://{b}", "{tmp}/x"], 2, "-r"),
    (["cp", "s3://{b}/k", "{tmp}/no/x"], 1, "no"),
    (["cp", "{tmp}/f", "{tmp}/g"], 2, "s3://"),
    (["cp", "-", "s3://{b}/k"], 2, "put"),
    (["cp", "{tmp}/f", "s3://{b}/k", "--parallel", "0"], 2, "256"),
    (["cp", "{tmp}/f", "s3://{b}/k", "--delete"], 2, "--delete"),
]


@pytest.mark.parametrize("args, code, text", ERRORS, ids=[" ".join(r[0]) for r in ERRORS])
def test_exit_codes_are_those_of_the_other_commands(cli, s3, bucket, tmp_path, args, code, text):
    put(s3, bucket, "k")
    (tmp_path / "f").write_bytes(b"x")
    names = {"tmp": tmp_path, "b": bucket}
    done = cli.run(*[a.format(**names) for a in args])
    assert done.returncode == code and text.format(**names) in done.stderr.decode(), done.stderr
    assert os.listdir(tmp_path) == ["f"]


LATE = b"<Error><Code>InternalError</Code><Message>too late</Message></Error>"
MORE = b"<ListBucketResult><IsTruncated>true</IsTruncated>%s</ListBucketResult>"
AGAIN = b"<NextContinuationToken>61</NextContinuationToken>"
FALSE_SUCCESSES = [
    (["cp", "{tmp}/large", "s3://{b}/k", "--part-size", "5MiB"], "CompleteMultipartUploadResult", LATE,
     "InternalError"),
    (["cp", "s3://{b}/large", "s3://{b}/k"], "CopyObjectResult", LATE, "InternalError"),
    (["cp", "s3://{b}/large", "s3://{b}/k", "--part-size", "5MiB"], "CopyPartResult", LATE,
     "InternalError"),
    (["ls", "s3://{b}"], "ListBucketResult", MORE % b"", "listing"),
    (["ls", "s3://{b}"], "ListBucketResult", MORE % AGAIN, "listing"),
    (["cp", "-r", "s3://{b}/", "{tmp}/out"], "ListBucketResult", MORE % AGAIN, "listing")]


@pytest.mark.parametrize("args, root, document, text", FALSE_SUCCESSES,
                         ids=range(len(FALSE_SUCCESSES)))
def test_a_200_whose_document_says_otherwise_is_a_failure(cli, s3, bucket, tmp_path, rdma_server,
                                                          args, root, document, text):
    """A server that answers before it is done has no other way; one that promises a next page has
    to say which."""
    (tmp_path / "large").write_bytes(bytes(6 * MIB))
    put(s3, bucket, "large", bytes(6 * MIB))
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.strip = b"(?s)<%s.*</%s>" % (root.encode(), root.encode())
        relay.put = lambda found: document.ljust(len(found[0]))
        done = cli.run(*[a.format(tmp=tmp_path, b=bucket) for a in args])
    assert done.returncode == 1 and text in done.stderr.decode(), (done.stdout, done.stderr)
    assert open_uploads(s3, bucket) == []


def test_a_server_that_is_not_there_ends_it_soon(cli, tmp_path):
    make_tree(tmp_path, {str(n): b"x" for n in range(300)})
    done = cli.run("cp", "-r", tmp_path, "s3://bucket", "--parallel", "1",
                   AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert done.returncode == 6 and b"not tried" in done.stderr
    assert len(done.stderr.splitlines()) < 20


def wait_held(relay, program):
    assert daemon.eventually(lambda: relay.held.is_set() or program.poll() is not None, 120)
    assert relay.held.is_set(), program.communicate(timeout=5)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_upload_goes_on(cli, s3, bucket, tmp_path, rdma_server, how):
    data = os.urandom(22 * MIB)
    (tmp_path / "in").write_bytes(data)
    args = ["cp", tmp_path / "in", f"s3://{bucket}/k", "--part-size", "5MiB", "--parallel", "1"]
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(rb"PUT /\S+\?partNumber", after=2)
        program = cli.start(*args)
        wait_held(relay, program)
        program.send_signal(how)
        _, errors = program.communicate(timeout=60 * daemon.SLOWER)
        relay.open()
        if how == signal.SIGINT:
            assert program.returncode == 130 and b"same command" in errors
        assert len(open_uploads(s3, bucket)) == 1 and get(s3, bucket, "k") == 404
        before = rdma_server.rdma_counts()
        rows = cli.json(*args, "--require-rdma")
        assert rows[-1]["kept_bytes"] == 10 * MIB and rows[-1]["bytes"] == 12 * MIB
        assert rdma_server.rdma_counts()[3] - before[3] == 12 * MIB
    assert get(s3, bucket, "k") == data and open_uploads(s3, bucket) == []
    assert read_tree(cli.home) == {}


def test_an_upload_that_never_began_leaves_nothing_to_go_on_from(cli, tmp_path):
    (tmp_path / "in").write_bytes(os.urandom(6 * MIB))
    for _ in range(2):
        done = cli.run("cp", tmp_path / "in", "s3://nobucket-here/k", "--part-size", "5MiB")
        assert done.returncode == 4 and b"NoSuchBucket" in done.stderr, done.stderr
        assert read_tree(cli.home) == {}


def test_parts_of_a_file_that_has_changed_are_not_kept(cli, s3, bucket, tmp_path, rdma_server):
    (tmp_path / "in").write_bytes(os.urandom(16 * MIB))
    args = ["cp", tmp_path / "in", f"s3://{bucket}/k", "--part-size", "5MiB", "--parallel", "1"]
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(rb"PUT /\S+\?partNumber", after=2)
        program = cli.start(*args)
        wait_held(relay, program)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=60 * daemon.SLOWER)
        relay.open()
        data = os.urandom(16 * MIB)
        (tmp_path / "in").write_bytes(data)
        rows = cli.json(*args)
    assert rows[-1]["kept_bytes"] == 0
    assert get(s3, bucket, "k") == data and open_uploads(s3, bucket) == []


@pytest.mark.parametrize("size", [5000, 12 * MIB])
def test_a_file_that_changes_while_it_is_read_is_no_object(cli, s3, bucket, tmp_path, size):
    """By a thread that never stops: some read of it is in the middle of a change."""
    (tmp_path / "in").write_bytes(os.urandom(size))
    is_over = threading.Event()

    def write():
        with open(tmp_path / "in", "r+b", buffering=0) as f:
            while not is_over.is_set():
                os.pwrite(f.fileno(), os.urandom(8), 0)

    def is_refused():
        done = cli.run("cp", tmp_path / "in", f"s3://{bucket}/k", "--part-size", "5MiB")
        assert done.returncode == 0 or b"was changed meanwhile" in done.stderr, done.stderr
        return done.returncode == 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert daemon.eventually(is_refused, 120)
    finally:
        is_over.set()
        writer.join()
    assert open_uploads(s3, bucket) == []


def test_a_part_is_kept_only_if_its_bytes_are_those_of_the_file(cli, s3, bucket, tmp_path,
                                                                rdma_server):
    """Other bytes at the same length, time and inode: only the checksum tells."""
    data = bytearray(os.urandom(16 * MIB))
    (tmp_path / "in").write_bytes(data)
    times = os.stat(tmp_path / "in")
    args = ["cp", tmp_path / "in", f"s3://{bucket}/k", "--part-size", "5MiB", "--parallel", "1"]
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(rb"PUT /\S+\?partNumber", after=2)
        program = cli.start(*args)
        wait_held(relay, program)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=60 * daemon.SLOWER)
        relay.open()
        data[6 * MIB:6 * MIB + 5] = b"other"
        with open(tmp_path / "in", "r+b") as f:
            f.seek(6 * MIB)
            f.write(b"other")
        os.utime(tmp_path / "in", ns=(times.st_atime_ns, times.st_mtime_ns))
        assert cli.json(*args)[-1]["kept_bytes"] == 5 * MIB
    assert get(s3, bucket, "k") == data


@pytest.mark.parametrize("options, home", [(["--no-resume"], True), ([], False)])
def test_an_upload_that_cannot_go_on_is_taken_back(cli, s3, bucket, tmp_path, rdma_server, options,
                                                   home):
    (tmp_path / "in").write_bytes(os.urandom(16 * MIB))
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(rb"PUT /\S+\?partNumber", after=1)
        program = cli.start("cp", tmp_path / "in", f"s3://{bucket}/k", "--part-size", "5MiB",
                            *options, **({} if home else {"HOME": "/nonexistent"}))
        wait_held(relay, program)
        relay.pattern = None  # what is held stays so; the request that takes it back passes
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60 * daemon.SLOWER)
        assert program.returncode == 130, errors.decode(errors="replace")
    assert open_uploads(s3, bucket) == [] and read_tree(cli.home) == {}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_download_goes_on_by_ranges(cli, s3, bucket, tmp_path, rdma_server, how):
    data = os.urandom(22 * MIB)
    put(s3, bucket, "k", data)
    (tmp_path / "out").write_bytes(b"old")
    args = ["cp", f"s3://{bucket}/k", tmp_path / "out", "--part-size", "5MiB", "--parallel", "1"]
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(rb"(?is)GET /.*\r\nrange:", after=2)
        program = cli.start(*args)
        wait_held(relay, program)
        program.send_signal(how)
        _, errors = program.communicate(timeout=60 * daemon.SLOWER)
        relay.open()
        if how == signal.SIGINT:
            assert program.returncode == 130 and b"same command" in errors
        assert (tmp_path / "out").read_bytes() == b"old"
        rows = cli.json(*args, "--require-rdma")
    assert rows[-1]["kept_bytes"] == 10 * MIB and rows[-1]["bytes"] == 12 * MIB
    assert read_tree(tmp_path) == {"out": data} and rows[0]["verified"]


def interrupted_download(cli, relay, args):
    relay.hold(rb"(?is)GET /.*\r\nrange:", after=2)
    program = cli.start(*args)
    wait_held(relay, program)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=60 * daemon.SLOWER)
    relay.open()


def test_pieces_of_another_version_or_with_wrong_bytes_are_not_kept(cli, s3, bucket, tmp_path,
                                                                    rdma_server):
    put(s3, bucket, "k", os.urandom(16 * MIB))
    args = ["cp", f"s3://{bucket}/k", tmp_path / "out", "--part-size", "5MiB", "--parallel", "1"]
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        interrupted_download(cli, relay, args)
        data = os.urandom(16 * MIB)
        put(s3, bucket, "k", data)
        assert cli.json(*args)[-1]["kept_bytes"] == 0
        assert (tmp_path / "out").read_bytes() == data
        interrupted_download(cli, relay, args)
        part, = [n for n in os.listdir(tmp_path) if n.endswith(".part") and
                 (tmp_path / n.replace(".part", ".list")).exists() and
                 (tmp_path / n).read_bytes()[:100] == data[:100]]
        with open(tmp_path / part, "r+b") as f:
            f.seek(6 * MIB)
            f.write(b"spoilt")
        assert cli.json(*args)[-1]["kept_bytes"] == 5 * MIB
    assert (tmp_path / "out").read_bytes() == data


def test_an_object_that_is_replaced_in_the_middle_is_an_error(cli, s3, bucket, tmp_path,
                                                              rdma_server):
    put(s3, bucket, "k", os.urandom(16 * MIB))
    with Relay(rdma_server.address) as relay:
        cli.url = relay.url
        relay.hold(rb"(?is)GET /.*\r\nrange:", after=2)
        program = cli.start("cp", f"s3://{bucket}/k", tmp_path / "out", "--part-size", "5MiB",
                            "--parallel", "1")
        wait_held(relay, program)
        put(s3, bucket, "k", os.urandom(16 * MIB))
        relay.open()  # the held request is dropped: the client asks again by HTTP
        _, errors = program.communicate(timeout=120 * daemon.SLOWER)
    assert program.returncode == 1 and b"replaced" in errors, errors
    assert os.listdir(tmp_path) == []


def on_a_terminal(cli, *args):
    """What a program says on a standard error that is a terminal."""
    ours, theirs = os.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        program = subprocess.Popen(command(args), env=cli.environment(), stderr=theirs,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(theirs)
        said = b""
        try:
            while piece := terminal.read(4096):
                said += piece
        except OSError:  # how Linux says that nobody has the other end any more
            pass
    assert program.wait(60 * daemon.SLOWER) == 0, said
    return said


def test_one_bar_on_a_terminal_stands_for_everything(cli, bucket, tmp_path):
    make_tree(tmp_path / "in", FILES)
    args = ("cp", "-r", tmp_path / "in", f"s3://{bucket}", "--part-size", "5MiB")
    bar = on_a_terminal(cli, *args)
    assert re.search(rb"\r\[#* *\] +\d+% of 6, \d+\.\d MB, ", bar) and bar.endswith(b"\r\x1b[K")
    assert on_a_terminal(cli, *args, "--quiet") == on_a_terminal(cli, *args, "--json") == b""
    assert cli.run(*args).stderr == b""
