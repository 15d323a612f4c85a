# SPDX-License-Identifier: Apache-2.0
"""The Python package: minio's client with memory by RDMA, in this process and in others."""
import array
import ctypes
import ctypes.util
import gc
import hashlib
import inspect
import io
import logging
import mmap
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import types

import pytest
import urllib3
from conftest import bucket_name, client_build, moved, program_environment, run

import daemon
import scripted
from relay import Relay
from scripted import error, reply

minio = pytest.importorskip("minio")
PACKAGE = os.path.join(daemon.TOP, "bindings", "python")
sys.path.insert(0, PACKAGE)
import s3rdma  # noqa: E402
from s3rdma import library, native  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
PACKAGES = os.path.dirname(os.path.dirname(minio.__file__))  # where the minio tested is
IS_NATIVE = "enable_rdma" in inspect.signature(minio.Minio.__init__).parameters

# Of the page "Transfer Objects over RDMA", with endpoint, keys and bucket left open.
PROGRAM = '''
from minio import Minio

client = Minio(
    endpoint="{endpoint}",
    access_key="{access}",
    secret_key="{secret}",
    secure=False,
    enable_rdma=True,
)

size = 1 << 20
payload = bytearray(b"x" * size)

resp = client.put_object(
    bucket_name="{bucket}",
    object_name="my-object",
    data=payload,
    length=len(payload),
)
print(f"etag={{resp.etag}}")

dst = bytearray(size)
n = client.get_object(
    bucket_name="{bucket}",
    object_name="my-object",
    into=dst,
    length=size,
)
print(f"bytes_transferred={{n}}")
'''


@pytest.fixture(scope="module", params=["cma", "ofi:tcp"])
def device(request):
    if request.param.startswith("ofi:") and not ctypes.util.find_library("fabric"):
        pytest.skip("no libfabric here")
    return request.param


def python_environment(server, *first):
    """Of a program; folders of modules that go before others."""
    path = os.pathsep.join((*map(str, first), PACKAGE, PACKAGES))
    return {**program_environment(server), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def environment(rdma_server, device):
    assert rdma_server.device == device
    return python_environment(rdma_server)


@pytest.fixture(scope="module")
def cma_server(module_servers):
    """For what does not depend on the wire."""
    return module_servers.start("cma")


@pytest.fixture
def loaded(monkeypatch):
    """The library for this process, and the wire that every host has."""
    for name in ("SSL_CERT_FILE", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MINIOCPP_LIB", os.path.join(client_build(), "libminiocpp.so"))
    monkeypatch.setenv("S3RDMA_DEVICE", "cma")


@pytest.fixture
def here(loaded, environment, monkeypatch):
    """The library for this process, and the wire of the server."""
    monkeypatch.setenv("S3RDMA_DEVICE", environment["S3RDMA_DEVICE"])


def host_port(server):
    return f"{server.address[0]}:{server.address[1]}"


@pytest.fixture
def make(rdma_server, here):
    def client(access=daemon.USER, secret=daemon.SECRET, **options):
        return s3rdma.Minio(endpoint=host_port(rdma_server),
                            access_key=access, secret_key=secret,
                            **{"secure": False, "enable_rdma": True, **options})
    return client


@pytest.fixture
def client(make):
    return make()


def put(client, bucket, key, data, *args, **kwargs):
    return client.put_object(bucket_name=bucket, object_name=key, data=data, *args, **kwargs)


def get(client, bucket, key, into, **kwargs):
    return client.get_object(bucket_name=bucket, object_name=key, into=into, **kwargs)


def went(client):
    return client.last_transfer.transport, client.last_transfer.reason


def stored(s3, bucket, key):
    reply = s3("GET", f"/{bucket}/{key}")
    assert reply.status == 200, reply
    return reply.body


def store(s3, bucket, key, data):
    assert s3("PUT", f"/{bucket}/{key}", data).status == 200


def program_text(server, bucket):
    return PROGRAM.format(endpoint=host_port(server), access=daemon.USER,
                          secret=daemon.SECRET, bucket=bucket)


def run_python(text, environment, *arguments):
    return run([sys.executable, *arguments, "-c", textwrap.dedent(text)], environment)


# ---- the program ----

def check_program(command, server, bucket, environment, s3):
    with moved(server, gets=1, get_bytes=MIB, puts=1, put_bytes=MIB):
        out = run(command, environment)
    etag, count = out.split()
    assert count == f"bytes_transferred={MIB}"
    assert s3("HEAD", f"/{bucket}/my-object").etag == etag.removeprefix("etag=")
    assert stored(s3, bucket, "my-object") == b"x" * MIB


def test_the_program_runs_with_this_packages_client(rdma_server, bucket, environment, s3, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program_text(rdma_server, bucket).replace("from minio", "from s3rdma"))
    check_program([sys.executable, str(path)], rdma_server, bucket, environment, s3)


def test_the_program_runs_unmodified(rdma_server, bucket, environment, s3, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program_text(rdma_server, bucket))
    check_program([sys.executable, "-m", "s3rdma", str(path)], rdma_server, bucket, environment, s3)


@pytest.mark.skipif(not IS_NATIVE, reason=f"minio {minio.__version__}, the release installed, has "
                    "no enable_rdma of its own")
def test_the_program_runs_with_minios_own_rdma(rdma_server, bucket, environment, s3, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program_text(rdma_server, bucket))
    check_program([sys.executable, str(path)], rdma_server, bucket, environment, s3)


@pytest.fixture(scope="module", params=["7.1.17", "7.2.0"])
def older(request, tmp_path_factory):
    """A folder with an older release of minio."""
    target = tmp_path_factory.mktemp("minio")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check",
         "--retries", "1", "--target", str(target), f"minio=={request.param}"],
        capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot install minio {request.param}: {done.stderr[-200:]}")
    return target


def test_the_program_runs_with_older_releases(older, cma_server, tmp_path):
    path, bucket = tmp_path / "program.py", bucket_name()
    assert cma_server.s3()("PUT", f"/{bucket}").status == 200
    path.write_text(program_text(cma_server, bucket))
    environment = python_environment(cma_server, older)
    said = run_python("import minio; print(minio.__file__)", environment)
    assert said.startswith(str(older)), said
    check_program([sys.executable, "-m", "s3rdma", str(path)], cma_server, bucket, environment,
                  cma_server.s3())


def test_the_readmes_first_transfer(rdma_server, environment):
    with open(os.path.join(PACKAGE, "README.md"), encoding="utf-8") as f:
        text = f.read().partition("```python\n")[2].partition("```")[0]
    for theirs, mine in (("127.0.0.1:9000", host_port(rdma_server)), ("my-bucket", bucket_name()),
                         ('"me"', repr(daemon.USER)), ('"a-long-secret"', repr(daemon.SECRET))):
        assert theirs in text
        text = text.replace(theirs, mine)
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=1, get_bytes=MIB):
        out = run_python(text, environment).split()
    assert out[1:] == ["rdma", str(MIB), "rdma"], out


# ---- memory of every kind ----

def buffers(data):
    """The same bytes in whatever has memory; each as (name, object)."""
    yield "bytes", data
    yield "bytearray", bytearray(data)
    yield "memoryview", memoryview(bytearray(b".." + data + b".."))[2:-2]
    yield "memoryview-readonly", memoryview(data)
    yield "memoryview-2d", memoryview(data).cast("B", [4, len(data) // 4])
    yield "ctypes", (ctypes.c_char * len(data)).from_buffer_copy(data)
    yield "array", array.array("d", data)


def test_put_takes_every_kind_of_memory(client, bucket, s3, rdma_server):
    data = os.urandom(64 * KIB)
    for name, memory in buffers(data):
        with moved(rdma_server, puts=1, put_bytes=len(data)):
            result = put(client, bucket, name, memory, length=len(data))
        assert stored(s3, bucket, name) == data, name
        assert result.bucket_name == bucket and result.object_name == name
        assert s3("HEAD", f"/{bucket}/{name}").etag == result.etag
        assert went(client) == ("rdma", "")
        assert client.last_transfer.length == len(data) and client.last_transfer.checksum


def test_get_fills_every_kind_of_memory(client, bucket, s3, rdma_server):
    data = os.urandom(64 * KIB)
    store(s3, bucket, "k", data)
    targets = [(n, m) for n, m in buffers(bytes(len(data))) if n not in
               ("bytes", "memoryview-readonly", "memoryview-2d")]
    with mmap.mmap(-1, len(data)) as mapped:
        for name, memory in [*targets, ("mmap", mapped)]:
            with moved(rdma_server, gets=1, get_bytes=len(data)):
                assert get(client, bucket, "k", memory, length=len(data)) == len(data)
            assert bytes(memory) == data if name != "mmap" else mapped[:] == data, name
    assert client.last_transfer.transport == "rdma"
    assert client.last_transfer.provider == rdma_server.device.partition(":")[0]


def test_numpy_arrays_go_both_ways(client, bucket, rdma_server):
    numpy = pytest.importorskip("numpy")
    source = numpy.random.default_rng(1).random((64, 256))
    target = numpy.zeros_like(source)
    with moved(rdma_server, puts=1, put_bytes=source.nbytes, gets=1, get_bytes=source.nbytes):
        put(client, bucket, "array", source, length=source.nbytes)
        assert get(client, bucket, "array", target) == source.nbytes
    assert (source == target).all()
    readonly = source.copy()
    readonly.flags.writeable = False
    with moved(rdma_server, puts=1, put_bytes=source.nbytes):
        put(client, bucket, "readonly", readonly)
    with moved(rdma_server):
        for bad, what in ((source[:, ::2], "contiguous"), (source.T, "contiguous")):
            with pytest.raises(ValueError, match=what):
                put(client, bucket, "bad", bad)
            with pytest.raises(ValueError, match=what):
                get(client, bucket, "array", bad)
        with pytest.raises(TypeError, match="read-only"):
            get(client, bucket, "array", readonly)
        with pytest.raises(TypeError, match="objects"):
            put(client, bucket, "bad", numpy.array([{}, []], dtype=object))
        with pytest.raises(ValueError, match="length"):
            get(client, bucket, "array", target, length=source.nbytes + 1)


def test_addresses_need_a_length_and_go_both_ways(client, bucket, s3, rdma_server):
    data = os.urandom(10 * KIB)
    memory = ctypes.create_string_buffer(data, len(data))
    other = ctypes.create_string_buffer(len(data) + 1)
    with moved(rdma_server, puts=1, put_bytes=len(data), gets=1, get_bytes=len(data)):
        put(client, bucket, "k", ctypes.addressof(memory), length=len(data))
        assert get(client, bucket, "k", ctypes.addressof(other), length=len(data)) == len(data)
    assert stored(s3, bucket, "k") == data and other.raw == data + b"\0"
    with moved(rdma_server):
        for bad, length in ((0, 1), (-8, 1), (1 << 64, 1), ((1 << 64) - 8, 9), (4096, None),
                            (4096, -1)):
            with pytest.raises(ValueError):
                put(client, bucket, "bad", bad, length=length)
            with pytest.raises(ValueError):
                get(client, bucket, "k", bad, **({} if length is None else {"length": length}))
        with pytest.raises(TypeError):
            get(client, bucket, "k", True, length=1)


def test_the_length_may_be_less_than_the_buffer_or_left_out(client, bucket, s3, rdma_server):
    with moved(rdma_server, puts=3, put_bytes=5 + 9 + 4, gets=1, get_bytes=5):
        put(client, bucket, "part", bytearray(b"hello and more"), length=5)
        put(client, bucket, "whole", b"all of it")
        client.put_object(bucket, "positional", b"12345", 4)
        memory = bytearray(b".......")
        assert get(client, bucket, "part", memory) == 5
    assert memory == b"hello.."
    assert stored(s3, bucket, "part") == b"hello" and stored(s3, bucket, "whole") == b"all of it"
    assert stored(s3, bucket, "positional") == b"1234"


def test_aligned_memory_stays_registered_over_calls(client, bucket, rdma_server):
    size = 256 * KIB
    memory = s3rdma.aligned_buffer(size)
    assert len(memory) == size and not any(memory) and not memory.readonly
    memory[:] = data = os.urandom(size)
    with moved(rdma_server, puts=2, put_bytes=2 * size, gets=1, get_bytes=size):
        put(client, bucket, "a", memory)
        put(client, bucket, "b", memory)
        memory[:] = bytes(size)
        assert get(client, bucket, "b", memory) == size
    assert memory == data
    (used,) = client._s3rdma_clients.values()
    assert used.registered_bytes() == size
    put(client, bucket, "c", memory[size // 2:])
    put(client, bucket, "d", bytearray(size))
    assert used.registered_bytes() == size, "once, and nothing else stays"
    del memory
    assert used.registered_bytes() == 0
    with pytest.raises(ValueError):
        s3rdma.aligned_buffer(0)


def test_empty_objects_go_both_ways(client, bucket, s3):
    put(client, bucket, "empty", b"", length=0)
    assert stored(s3, bucket, "empty") == b""
    memory = bytearray(b"untouched")
    assert get(client, bucket, "empty", memory) == 0 and memory == b"untouched"
    assert get(client, bucket, "empty", bytearray()) == 0


# ---- what is refused before anything is sent ----

def client_of(server, **options):
    """Of a scripted one."""
    return s3rdma.Minio(endpoint=server.url.partition("://")[2], access_key="user",
                        secret_key="secret", secure=False, region="us-east-1",
                        **{"enable_rdma": True, **options})


@pytest.fixture
def silent(loaded):
    """A client of a server that must not hear from it."""
    with scripted.Server(b"data") as server:
        yield client_of(server)
        assert server.requests == []


def test_targets_that_cannot_be_written_are_refused(silent):
    for bad in (b"bytes", memoryview(b"readonly"), memoryview(bytearray(4)).toreadonly()):
        with pytest.raises(TypeError, match="read-only"):
            get(silent, "bucket", "k", bad, length=1)
    for bad in ("text", 1.5, [1, 2], object(), io.BytesIO(b"stream")):
        with pytest.raises(TypeError, match=type(bad).__name__):
            get(silent, "bucket", "k", bad, length=1)


def test_views_that_are_released_or_not_contiguous_are_refused(silent):
    released = memoryview(bytearray(16))
    released.release()
    apart = memoryview(bytearray(16))[::2]
    for bad, what in ((released, "released"), (apart, "contiguous")):
        with pytest.raises(ValueError, match=what):
            put(silent, "bucket", "k", bad, length=1)
        with pytest.raises(ValueError, match=what):
            get(silent, "bucket", "k", bad, length=1)


@pytest.mark.parametrize("length, wanted, what", [
    (17, ValueError, "exceeds"), (-1, ValueError, "negative"), (1 << 70, ValueError, "exceeds"),
    ("16", TypeError, "number"), (16.0, TypeError, "number"), (True, TypeError, "bool")])
def test_wrong_lengths_are_refused(silent, length, wanted, what):
    with pytest.raises(wanted, match=what):
        put(silent, "bucket", "k", bytearray(16), length=length)
    with pytest.raises(wanted, match=what):
        get(silent, "bucket", "k", bytearray(16), length=length)


def test_wrong_names_and_offsets_are_refused(silent):
    for bucket, key in (("b", "k"), ("bucket", ""), ("bucket", "a\0b"), ("buck\0et", "k")):
        with pytest.raises(ValueError):
            put(silent, bucket, key, b"data")
        with pytest.raises(ValueError):
            get(silent, bucket, key, bytearray(4))
    with pytest.raises(ValueError, match="offset"):
        get(silent, "bucket", "k", bytearray(4), offset=-1)
    with pytest.raises(TypeError, match="offset"):
        get(silent, "bucket", "k", bytearray(4), offset=1.5)
    with pytest.raises(ValueError, match="length 0"):
        get(silent, "bucket", "k", bytearray(4), length=0)


def test_memory_is_held_while_a_call_runs_and_free_after_it(client, bucket, s3):
    memory = bytearray(KIB)
    put(client, bucket, "k", memory)
    memory.extend(b"more")
    get(client, bucket, "k", memory)
    memory.extend(b"more")
    with pytest.raises(minio.S3Error):
        get(client, bucket, "missing", memory)
    memory.extend(b"more")
    held = s3rdma.client.Memory(memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    held.release()
    memory.extend(b"more")


def test_memory_that_a_server_may_still_write_is_kept(client, bucket, monkeypatch):
    memory = bytearray(8)
    monkeypatch.setattr(native.S3rClient, "_call", lambda *_: -26)  # S3R_ERROR_RDMA_UNFENCED
    with pytest.raises(s3rdma.RDMAError):
        get(client, bucket, "k", memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    assert native._unfenced.pop().view.obj is memory


# ---- minio's own ----

def test_everything_else_is_minios_own(client, make, bucket, rdma_server):
    plain = minio.Minio(client._base_url.host, daemon.USER, daemon.SECRET, secure=False)
    body = os.urandom(KIB)
    with moved(rdma_server):
        for ours in (client, make(enable_rdma=False)):
            mine = ours.put_object(bucket, "s", io.BytesIO(body), KIB, metadata={"a": "b"})
            theirs = plain.put_object(bucket, "s", io.BytesIO(body), KIB, metadata={"a": "b"})
            assert type(mine) is type(theirs) and mine.etag == theirs.etag
            assert mine.etag == hashlib.md5(body).hexdigest()
            reply, other = ours.get_object(bucket, "s"), plain.get_object(bucket, "s")
            assert type(reply) is type(other) and reply.read() == body == other.read()
            reply = ours.get_object(bucket, "s", offset=3, length=7)
            assert reply.read() == body[3:10]
            assert ours.stat_object(bucket, "s").size == KIB and ours.bucket_exists(bucket)
            assert ours.last_transfer is None


def test_files_are_minios_own(client, bucket, tmp_path, rdma_server):
    body = os.urandom(6 * MIB)
    (tmp_path / "up").write_bytes(body)
    with moved(rdma_server):
        client.fput_object(bucket, "f", str(tmp_path / "up"))
        client.fget_object(bucket, "f", str(tmp_path / "down"))
    assert (tmp_path / "down").read_bytes() == body


def outcome(call, *args, **kwargs):
    with pytest.raises(Exception) as e:
        call(*args, **kwargs)
    return e.type


def test_without_enable_rdma_memory_is_what_minio_makes_of_it(make, bucket, rdma_server):
    off = make(enable_rdma=False)
    plain = minio.Minio(off._base_url.host, daemon.USER, daemon.SECRET, secure=False)
    with moved(rdma_server):
        assert outcome(off.put_object, bucket, "k", bytearray(4), 4) == \
            outcome(plain.put_object, bucket, "k", bytearray(4), 4)
        if not IS_NATIVE:
            with pytest.raises(TypeError, match="enable_rdma"):
                get(off, bucket, "k", bytearray(4))


def test_wrong_calls_are_type_errors(client):
    for wrong in ((), ("bucket",), ("bucket", "key")):
        with pytest.raises(TypeError):
            client.put_object(*wrong)
    with pytest.raises(TypeError, match="nonsense"):
        client.put_object("bucket", "key", b"data", 4, nonsense=1)
    with pytest.raises(TypeError, match="nonsense"):
        client.get_object("bucket", "key", into=bytearray(1), nonsense=1)
    with pytest.raises(TypeError):
        client.get_object("bucket", into=bytearray(1))


# ---- ranges, headers, and arguments that only minio has ----

def test_a_range_goes_into_memory_by_rdma(client, bucket, s3, rdma_server):
    body = os.urandom(MIB)
    store(s3, bucket, "k", body)
    memory = bytearray(1000)
    with moved(rdma_server, gets=3, get_bytes=1000 + 10 + 24):
        assert get(client, bucket, "k", memory, offset=5000, length=1000) == 1000
        assert memory == body[5000:6000]
        assert get(client, bucket, "k", memory, offset=0, length=10) == 10
        assert memory[:10] == body[:10]
        assert get(client, bucket, "k", memory, offset=MIB - 24) == 24
        assert memory[:24] == body[-24:] and memory[24:] == body[5024:6000]
    with pytest.raises(minio.S3Error) as e:
        get(client, bucket, "k", memory, offset=MIB)
    assert e.value.code == "InvalidRange"


def test_type_metadata_and_tags_go_along(client, bucket, loaded):
    put(client, bucket, "k", b"data", content_type="text/x-a", metadata={"who": "me"})
    assert client.last_transfer.transport == "rdma"
    stat = client.stat_object(bucket, "k")
    assert stat.content_type == "text/x-a" and stat.metadata["x-amz-meta-who"] == "me"
    put(client, bucket, "bare", b"data")
    assert client.stat_object(bucket, "bare").content_type == "application/octet-stream"
    put(client, bucket, "list", b"data", metadata={"who": ["me", "you"]})
    assert client.last_transfer.reason == "arguments"


def test_tags_are_sent_as_minio_sends_them(loaded):
    from minio.commonconfig import Tags
    tags = Tags(for_object=True)
    tags["user"] = "j smith"
    with scripted.Server(b"", lambda server, request, conn: server.moved(request)) as server:
        server.is_plain_broken = lambda server, request, conn: reply(200, [server.etag()])
        client = client_of(server)
        put(client, "bucket", "k", b"data", tags=tags)
        assert client.last_transfer.transport == "rdma" and server.stored == b"data"
        client.put_object("bucket", "k", io.BytesIO(b""), 0, tags=tags)
    mine, theirs = server.requests
    assert mine.headers["x-amz-tagging"] == theirs.headers["x-amz-tagging"] == "user=j%20smith"


def test_other_arguments_lead_to_minios_own_request(client, make, bucket, rdma_server):
    body = os.urandom(KIB)
    with moved(rdma_server, puts=1, put_bytes=KIB):
        put(client, bucket, "k", body)
        etag = client.last_transfer.etag
        memory = bytearray(KIB)
        assert get(client, bucket, "k", memory, request_headers={"If-Match": etag}) == KIB
        assert memory == body
        assert went(client) == ("http", "arguments")
        assert "request_headers" in client.last_transfer.detail
        assert get(client, bucket, "k", memory, offset=10, length=5,
                   request_headers={"If-Match": etag}) == 5
        assert memory[:5] == body[10:15]
        with pytest.raises(minio.S3Error) as e:
            get(client, bucket, "k", memory, request_headers={"If-Match": "other"})
        assert e.value.code == "PreconditionFailed" and client.last_transfer is None
        strict = make(require_rdma=True)
        with pytest.raises(s3rdma.RDMARequired, match="request_headers") as e:
            get(strict, bucket, "k", memory, request_headers={"If-Match": etag})
        assert e.value.reason == "arguments"


def test_parts_and_progress_are_as_with_minio(client, bucket, rdma_server, s3):
    seen = []

    class Progress(threading.Thread):
        def set_meta(self, object_name, total_length):
            seen.append((object_name, total_length))

        def update(self, length):
            seen.append(length)
    body = os.urandom(12 * MIB)
    with moved(rdma_server, puts=4, put_bytes=2 * len(body)):
        whole = put(client, bucket, "whole", body, progress=Progress())
        parts = put(client, bucket, "parts", body, part_size=5 * MIB, num_parallel_uploads=2)
        with pytest.raises(ValueError, match="part size"):
            put(client, bucket, "parts", body, part_size=1)
        with pytest.raises(TypeError):
            put(client, bucket, "parts", body, part_size="5 MiB")
    assert seen == [("whole", len(body)), len(body)]
    assert parts.etag.endswith("-3") and not whole.etag.endswith("-3")
    assert stored(s3, bucket, "parts") == stored(s3, bucket, "whole") == body


# ---- errors ----

def s3_code(call, *args, **kwargs):
    with pytest.raises(minio.S3Error) as e:
        call(*args, **kwargs)
    return e.value


def test_s3_errors_are_minios(client, make, bucket, rdma_server):
    with moved(rdma_server):
        e = s3_code(get, client, bucket, "missing", bytearray(4))
        assert e.code == "NoSuchKey" and e.response.status == 404
        assert getattr(e, "request_id", None) or e._request_id
        assert f"bucket_name: {bucket}, object_name: missing" in str(e)
        assert s3_code(get, client, "no-such-bucket", "k", bytearray(4)).code == "NoSuchBucket"
        assert s3_code(put, client, "no-such-bucket", "k", b"data").code == "NoSuchBucket"
        stranger = make(secret="another secret", region="us-east-1")
        assert s3_code(put, stranger, bucket, "k", b"data").code == "SignatureDoesNotMatch"
        nobody = make(access="nobody", region="us-east-1")
        assert s3_code(get, nobody, bucket, "k", bytearray(4)).code == "InvalidAccessKeyId"
        assert client.last_transfer is None


def test_an_object_that_does_not_fit_is_an_error_with_both_sizes(client, bucket, s3):
    store(s3, bucket, "k", bytes(1000))
    memory = bytearray(b"\xaa" * 2000)
    for options in ({}, {"request_headers": {"x-a": "b"}}):
        with pytest.raises(s3rdma.ObjectTooLarge, match=r"(?s)1000.*999|999.*1000"):
            get(client, bucket, "k", memory, length=999, **options)
        assert memory[999:] == b"\xaa" * 1001
    assert issubclass(s3rdma.ObjectTooLarge, ValueError)


@pytest.mark.parametrize("told", ["12x", "-1", "+5", "1_0", ""])
def test_a_length_that_is_no_number_is_an_error_of_ours(told):
    answer = types.SimpleNamespace(headers={"content-length": told}, read=lambda *_, **__: b"")
    with pytest.raises(s3rdma.RDMAError, match="the reply says") as caught:
        s3rdma.client._receive(answer, memoryview(bytearray(8)))
    assert not isinstance(caught.value, ValueError)


def test_a_server_that_is_not_there_is_an_error_of_ours(loaded):
    client = s3rdma.Minio(f"127.0.0.1:{daemon.free_port()}", "user", "secret", secure=False,
                          region="us-east-1", enable_rdma=True)
    with pytest.raises(s3rdma.RDMAError):
        put(client, "bucket", "k", b"data")
    assert issubclass(s3rdma.RDMAError, minio.error.MinioException)


# ---- the way there, and when there is none ----

def decline(server, request, conn):
    return error(501, "NotImplemented", [("x-amz-rdma-reply", "501")])


def test_a_decline_goes_on_by_http_and_says_so(loaded, caplog):
    with scripted.Server(b"data", decline) as server:
        client, memory = client_of(server), bytearray(4)
        with caplog.at_level(logging.WARNING, "s3rdma"):
            assert get(client, "bucket", "key", memory) == 4 and memory == b"data"
            assert went(client) == ("http", "declined") and client.last_transfer.detail
            get(client, "bucket", "key", memory)
        assert len(caplog.records) == 1 and "declined" in caplog.text
        before, memory = len(server.requests), bytearray(4)
        with pytest.raises(s3rdma.RDMARequired) as e:
            get(client_of(server, require_rdma=True), "bucket", "key", memory)
        assert e.value.reason == "declined" and memory == bytes(4)
        assert all(r.token for r in server.requests[before:])


def test_without_a_device_the_same_calls_go_by_http(make, bucket, s3, rdma_server, monkeypatch):
    monkeypatch.setenv("S3RDMA_DEVICE", "no_such_adapter")
    client = make()
    with moved(rdma_server):
        put(client, bucket, "k", b"by http")
        assert stored(s3, bucket, "k") == b"by http"
        assert went(client) == ("http", "no-device")
        memory = ctypes.create_string_buffer(7)
        assert get(client, bucket, "k", ctypes.addressof(memory), length=7) == 7
        assert memory.raw == b"by http"
        with pytest.raises(s3rdma.RDMARequired) as e:
            put(make(require_rdma=True), bucket, "k", b"no")
        assert e.value.reason == "no-device" and "no_such_adapter" in str(e.value)
    assert not s3rdma.is_rdma_available()


def test_without_the_library_memory_goes_by_http(make, bucket, s3, rdma_server, monkeypatch,
                                                 caplog):
    assert s3rdma.is_rdma_available()
    monkeypatch.setenv("MINIOCPP_LIB", "/nonexistent/libminiocpp.so")
    assert not s3rdma.is_rdma_available()
    client, body = make(), os.urandom(6 * MIB)
    with moved(rdma_server), caplog.at_level(logging.WARNING, "s3rdma"):
        result = put(client, bucket, "k", bytearray(body), length=len(body))
        assert result.object_name == "k" and stored(s3, bucket, "k") == body
        memory = bytearray(len(body) + 1)
        assert get(client, bucket, "k", memory) == len(body) and memory[:-1] == body
        assert get(client, bucket, "k", memory, offset=1, length=9) == 9
        assert memory[:9] == body[1:10]
        assert went(client) == ("http", "no-library")
        assert get(client, bucket, "k", bytearray(), offset=1) == 0
        with pytest.raises(s3rdma.ObjectTooLarge):
            get(client, bucket, "k", memory, length=len(body) - 1)
        assert s3_code(get, client, bucket, "missing", memory).code == "NoSuchKey"
        with pytest.raises(s3rdma.RDMANotAvailable, match="address"):
            put(client, bucket, "k", 4096, length=1)
        with pytest.raises(s3rdma.RDMANotAvailable, match="MINIOCPP_LIB"):
            make(require_rdma=True)
        with pytest.raises(s3rdma.RDMANotAvailable):
            s3rdma.aligned_buffer(1)
    assert len(caplog.records) == 1 and "/nonexistent/libminiocpp.so" in caplog.text
    monkeypatch.setenv("MINIOCPP_LIB", "libc.so.6")
    with pytest.raises(s3rdma.RDMANotAvailable, match="miniocpp_put_object"):
        library.load()


def test_compressed_objects_arrive_as_they_are_stored(make, bucket, s3, monkeypatch):
    assert s3("PUT", f"/{bucket}/k", b"not gzip at all",
              headers=[("content-encoding", "gzip")]).status == 200
    for path in (os.environ["MINIOCPP_LIB"], "/nonexistent/libminiocpp.so"):
        monkeypatch.setenv("MINIOCPP_LIB", path)
        memory = bytearray(15)
        assert get(make(), bucket, "k", memory) == 15 and memory == b"not gzip at all"


def test_a_library_with_minios_interface_alone_is_used(make, bucket, s3, rdma_server, monkeypatch):
    monkeypatch.setattr(library, "_S3R", {"s3r_not_there": (None, ())})
    monkeypatch.setattr(library, "_loaded", {})
    client, body = make(), os.urandom(MIB)
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=1, get_bytes=MIB):
        result = put(client, bucket, "k", body, length=MIB)
        memory = bytearray(MIB)
        assert get(client, bucket, "k", memory, length=MIB) == MIB and memory == body
        assert result.etag == s3("HEAD", f"/{bucket}/k").etag
        assert client.last_transfer.transport == "unknown"
        # What that interface cannot say goes by HTTP.
        assert get(client, bucket, "k", memory, offset=1, length=2) == 2 and memory[:2] == body[1:3]
        assert client.last_transfer.transport == "http"
        put(client, bucket, "m", b"data", metadata={"who": "me"})
        assert client.stat_object(bucket, "m").metadata["x-amz-meta-who"] == "me"
        e = s3_code(get, client, bucket, "missing", bytearray(4))
        assert e.code == "NoSuchKey" and e.response.status == 404
        with pytest.raises(s3rdma.RDMAError, match="1048576"):
            get(client, bucket, "k", bytearray(4))
        with pytest.raises(s3rdma.RDMANotAvailable, match="required"):
            make(require_rdma=True)


def test_requests_without_credentials_go_by_http(rdma_server, bucket, here):
    client = s3rdma.Minio(endpoint=host_port(rdma_server), secure=False,
                          enable_rdma=True)
    assert s3_code(get, client, bucket, "k", bytearray(4)).code == "AccessDenied"
    strict = s3rdma.Minio(endpoint=host_port(rdma_server), secure=False,
                          require_rdma=True)
    with pytest.raises(s3rdma.RDMARequired, match="anonymous"):
        get(strict, bucket, "k", bytearray(4))


def test_credentials_that_change_are_taken_up(rdma_server, bucket, here):
    from minio.credentials import Credentials
    from minio.credentials.providers import Provider

    class Changing(Provider):
        secret = daemon.SECRET

        def retrieve(self):
            return Credentials(daemon.USER, self.secret)

    provider = Changing()
    client = s3rdma.Minio(endpoint=host_port(rdma_server), secure=False,
                          credentials=provider, enable_rdma=True)
    with moved(rdma_server, puts=2, put_bytes=8):
        put(client, bucket, "k", b"data")
        provider.secret = "wrong"
        assert s3_code(put, client, bucket, "k", b"data").code == "SignatureDoesNotMatch"
        provider.secret = daemon.SECRET
        put(client, bucket, "k", b"data")
    assert len(client._s3rdma_clients) == 1


def test_secrets_are_in_no_text(client, bucket):
    put(client, bucket, "k", b"data")
    assert daemon.SECRET not in repr(client._s3rdma_clients)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def test_what_minio_trusts_is_trusted(module_servers, certificate, loaded, monkeypatch):
    cert, key = certificate
    server = module_servers.start("cma", options=["--tls-cert", cert, "--tls-key", key])

    def secure(**options):
        return s3rdma.Minio(f"127.0.0.1:{server.address[1]}", daemon.USER, daemon.SECRET,
                            region="us-east-1", enable_rdma=True, **options)
    stranger = secure()
    unverified = secure(cert_check=False)
    monkeypatch.setenv("SSL_CERT_FILE", cert)
    client = secure()
    client.make_bucket("secure")
    memory = bytearray(4)
    put(client, "secure", "k", b"data")
    assert went(client) == ("rdma", "") and get(client, "secure", "k", memory) == 4
    assert went(client) == ("rdma", "") and memory == b"data"
    assert get(secure(http_client=urllib3.PoolManager(ca_certs=cert)), "secure", "k", memory) == 4
    with pytest.raises(s3rdma.RDMAError, match="(?i)certificate"):
        get(stranger, "secure", "k", memory)
    with pytest.warns(urllib3.exceptions.InsecureRequestWarning):
        assert get(unverified, "secure", "k", memory) == 4
    assert went(unverified) == ("http", "unverified")


# ---- threads and forks ----

def test_one_client_serves_many_threads(client, bucket, rdma_server):
    faults, count, size = [], 8, 64 * KIB

    def work(number):
        try:
            for i in range(10):
                data, memory = os.urandom(size + number), bytearray(size + number)
                result = put(client, bucket, f"{number}-{i}", data)
                assert client.last_transfer.etag == result.etag
                assert get(client, bucket, f"{number}-{i}", memory) == size + number
                assert memory == data and client.last_transfer.operation == "GET"
                e = s3_code(get, client, bucket, f"none-{number}", memory)
                assert f"object_name: none-{number}" in str(e)
        except BaseException as e:  # pylint: disable=broad-except
            faults.append(e)
    total = 10 * sum(size + n for n in range(count))
    with moved(rdma_server, puts=10 * count, put_bytes=total, gets=10 * count, get_bytes=total):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not faults, faults


def test_other_threads_run_while_a_transfer_does(loaded):
    """The server answers only when another thread of this process has told it to."""
    told = threading.Event()

    def when_told(server, request, conn):
        assert told.wait(60 * daemon.SLOWER)
        return server.moved(request)
    with scripted.Server(b"data", when_told) as server:
        threading.Timer(0.05, told.set).start()
        memory = bytearray(4)
        assert get(client_of(server), "bucket", "key", memory) == 4 and memory == b"data"


INTERRUPTED = """
    import os
    from s3rdma import Minio

    client = Minio(endpoint=os.environ["ENDPOINT"], access_key="user", secret_key="secret",
                   region="us-east-1", secure=False, enable_rdma=True)
    memory = bytearray(64 << 20)
    try:
        client.get_object(bucket_name="bucket", object_name="key", into=memory)
    except KeyboardInterrupt:
        memory.extend(b"free again")
        print("interrupted")
    """


def test_ctrl_c_ends_a_long_transfer(loaded):
    """The server never answers; were the request given up only in the end, HTTP would follow."""
    asked = threading.Event()

    def never(server, request, conn):
        asked.set()
        conn.recv(1)
    with scripted.Server(b"data", never) as server:
        env = {**os.environ, "PYTHONPATH": f"{PACKAGE}:{PACKAGES}",
               "ENDPOINT": server.url.partition("://")[2]}
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(INTERRUPTED)], env=env,
                              stdout=subprocess.PIPE, text=True) as program:
            assert asked.wait(60 * daemon.SLOWER)
            program.send_signal(signal.SIGINT)
            assert program.stdout.read() == "interrupted\n"
        assert program.returncode == 0
        assert [bool(r.token) for r in server.requests] == [True]


@pytest.fixture
def unanswered(loaded):
    """A client of a server that says nothing before `go` is set, and when it was asked."""
    go, asked = threading.Event(), threading.Event()

    def script(server, request, conn):
        asked.set()
        go.wait(60 * daemon.SLOWER)
        return error(404, "NoSuchKey")
    with scripted.Server(b"data", script) as server:
        client = s3rdma.Minio(server.url.partition("://")[2], "a", "s", secure=False,
                              region="us-east-1", enable_rdma=True)
        yield client, asked, go
        go.set()


def test_ctrl_c_while_the_thread_starts_waits_for_its_end(unanswered, monkeypatch):
    client, asked, _ = unanswered
    ended, start, transfer = [], threading.Thread.start, native.S3rClient.transfer

    def start_interrupted(thread):
        start(thread)
        if thread.name == "s3rdma":
            assert asked.wait(60 * daemon.SLOWER)
            raise KeyboardInterrupt

    def transfer_noted(self, request):
        try:
            return transfer(self, request)
        finally:
            ended.append(request)
    monkeypatch.setattr(threading.Thread, "start", start_interrupted)
    monkeypatch.setattr(native.S3rClient, "transfer", transfer_noted)
    memory = bytearray(64 * MIB)
    with pytest.raises(KeyboardInterrupt):
        get(client, "bucket", "key", memory)
    assert len(ended) == 1
    memory.extend(b"free again")


def test_no_thread_is_an_error_and_the_memory_is_free(unanswered, monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")
    memory = bytearray(64 * MIB)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            get(unanswered[0], "bucket", "key", memory)
    memory.extend(b"free again")


def test_memory_outlives_an_interruption_of_the_interruption(unanswered, monkeypatch):
    """A second signal, where the first one is taken note of."""
    client, asked, go = unanswered

    def interrupted(request, name, value):
        if name == "is_stopped" and value:
            raise KeyboardInterrupt
        object.__setattr__(request, name, value)
    monkeypatch.setattr(native.Request, "__setattr__", interrupted)
    memory = bytearray(64 * MIB)
    main = threading.main_thread().ident
    threading.Thread(target=lambda: asked.wait() and signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        get(client, "bucket", "key", memory)
    with pytest.raises(BufferError):
        memory.extend(b"still in use")
    go.set()

    def is_free():
        gc.collect()
        try:
            memory.extend(b"free again")
        except BufferError:
            return False
        return True
    assert daemon.eventually(is_free, 60)


# A call, and what of it is held at the server's door when Ctrl-C comes: from which request on.
INTERRUPTED_CALLS = {
    "get": ('get_object(bucket_name=bucket, object_name="big", into=memory)', rb"GET /\S+/big ", 0),
    "put": ('put_object(bucket_name=bucket, object_name="k", data=memory)', rb"PUT /\S+/k ", 0),
    "parts": ('put_object(bucket_name=bucket, object_name="k", data=memory, part_size=5 << 20, '
              'num_parallel_uploads=2)', rb"PUT /\S+/k\?partNumber", 3),
}


@pytest.mark.parametrize("call, pattern, after", INTERRUPTED_CALLS.values(), ids=INTERRUPTED_CALLS)
def test_ctrl_c_leaves_nothing_registered_and_nothing_stored(cma_server, call, pattern, after):
    s3, bucket = cma_server.s3(), bucket_name()
    assert s3("PUT", f"/{bucket}").status == 200
    assert s3("PUT", f"/{bucket}/big", b"big").status == 200
    text = textwrap.dedent(INTERRUPTED).partition("client =")[0] + textwrap.dedent(f"""
        bucket, memory = os.environ["BUCKET"], bytearray(64 << 20)
        client = Minio(os.environ["ENDPOINT"], os.environ["AWS_ACCESS_KEY_ID"],
                       os.environ["AWS_SECRET_ACCESS_KEY"], region="us-east-1", secure=False,
                       enable_rdma=True)
        try:
            client.{call}
        except KeyboardInterrupt:
            memory.extend(b"free again")
            (used,) = client._s3rdma_clients.values()
            print("interrupted", used.registered_bytes())
        """)
    with Relay(cma_server.address) as relay:
        relay.hold(pattern, after)
        env = {**python_environment(cma_server), "BUCKET": bucket,
               "ENDPOINT": relay.url.partition("://")[2]}
        with subprocess.Popen([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE,
                              text=True) as program:
            assert daemon.eventually(lambda: relay.held.is_set() or program.poll() is not None, 60)
            program.send_signal(signal.SIGINT)
            assert program.stdout.read() == "interrupted 0\n"
        assert program.returncode == 0
    assert s3("HEAD", f"/{bucket}/k").status == 404
    assert s3("GET", f"/{bucket}?uploads=").texts("UploadId") == []
    assert daemon.eventually(lambda: cma_server.metric("s3rdma_staging_used_bytes") == 0)


def test_a_long_transfer_says_how_it_went_as_a_short_one_does(client, bucket, rdma_server):
    memory, other = bytearray(os.urandom(64 * MIB)), bytearray(64 * MIB)
    with moved(rdma_server, puts=1, put_bytes=64 * MIB, gets=1, get_bytes=64 * MIB):
        put(client, bucket, "k", memory)
        assert get(client, bucket, "k", other) == 64 * MIB and went(client) == ("rdma", "")
    assert memory == other
    assert s3_code(get, client, bucket, "missing", other).code == "NoSuchKey"


WORKERS = """
    import multiprocessing, os
    from s3rdma import Minio, aligned_buffer

    client = Minio(endpoint=os.environ["S3RDMA_TEST_ENDPOINT"], secure=False, require_rdma=True,
                   access_key=os.environ["AWS_ACCESS_KEY_ID"],
                   secret_key=os.environ["AWS_SECRET_ACCESS_KEY"])
    bucket, size = os.environ["BUCKET"], 1 << 18
    shared = aligned_buffer(size)
    shared[:] = os.urandom(size)

    def work(number):
        memory = bytearray(size)
        assert client.get_object(bucket_name=bucket, object_name="parent", into=memory) == size
        assert memory == shared
        client.put_object(bucket_name=bucket, object_name=f"child-{number}", data=shared)
        return client.last_transfer.transport

    if __name__ == "__main__":
        client.put_object(bucket_name=bucket, object_name="parent", data=shared)
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(work, range(6)) == ["rdma"] * 6
        assert work(6) == "rdma"
    """


def test_forked_workers_use_their_parents_client(rdma_server, bucket, environment):
    size = 1 << 18
    with moved(rdma_server, puts=8, put_bytes=8 * size, gets=7, get_bytes=7 * size):
        run_python(WORKERS, {**environment, "BUCKET": bucket})


# ---- the package ----

def test_pip_installs_it(cma_server, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "--target", str(target), str(source)], os.environ.copy())
    assert (target / "s3rdma" / "py.typed").exists()
    path, bucket = tmp_path / "program.py", bucket_name()
    assert cma_server.s3()("PUT", f"/{bucket}").status == 200
    path.write_text(program_text(cma_server, bucket).replace("from minio", "from s3rdma"))
    environment = {**program_environment(cma_server), "PYTHONPATH": f"{target}:{PACKAGES}"}
    check_program([sys.executable, str(path)], cma_server, bucket, environment, cma_server.s3())
