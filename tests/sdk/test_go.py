# SPDX-License-Identifier: Apache-2.0
"""Programs over MinIO's Go SDK, a published release as it is (tests/sdk/go/go.mod, go.sum), built
with -tags=rdma against our header and library."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

import daemon
from conftest import client_build, moved, run
from interruption import end, is_at_rest, open_uploads, start

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "go")
MIB = 1 << 20


def version_of(go):
    """(1, 26, 8), or () when it cannot be run."""
    try:
        done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True,
                              env={**os.environ, "GOTOOLCHAIN": "local"}, cwd="/")
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(int(n) for n in re.findall(r"\d+", done.stdout)[:3])


@pytest.fixture(scope="module")
def go():
    """The machine's, or the one that scripts/deps put beside the tests' Python."""
    with open(os.path.join(HERE, "go.mod"), encoding="utf-8") as f:
        text = re.search(r"^go (\S+)$", f.read(), re.M)[1]
    wanted = tuple(int(n) for n in text.split("."))
    places = [shutil.which("go"), os.path.join(daemon.TOP, "build", "venv", "bin", "go")]
    found = {place: version_of(place) for place in places if place and os.path.exists(place)}
    for place, version in found.items():
        if version >= wanted:
            return place
    pytest.skip(f"no Go of at least {text} here: {found or 'none at all'}")


@pytest.fixture(scope="module")
def build_environment():
    """What has been downloaded and compiled stays in the build folder."""
    kept = os.path.join(daemon.TOP, "build", "go")
    return {**daemon.plain_environment(), "CGO_ENABLED": "1", "GOTOOLCHAIN": "local",
            "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
            "GOCACHE": os.path.join(kept, "cache"), "GOMODCACHE": os.path.join(kept, "modules"),
            "CGO_CFLAGS": f"-I{daemon.TOP}/include -DMINIO_CPP_RDMA",
            "CGO_LDFLAGS": f"-L{client_build()} -lminiocpp"}


@pytest.fixture(scope="module")
def module(go, build_environment, tmp_path_factory):
    """A folder with the module's files and what go.sum names downloaded and compared with it."""
    folder = tmp_path_factory.mktemp("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(os.path.join(HERE, name), folder)
    done = subprocess.run([go, "mod", "download"], cwd=folder, env=build_environment, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False)
    if done.returncode and re.search(r"dial tcp|lookup|timeout|proxy|[45]\d\d ", done.stderr):
        pytest.skip(f"Go's modules cannot be downloaded here: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    assert "all modules verified" in run([go, "mod", "verify"], build_environment, cwd=folder)
    return folder


def build(go, module, env, name, source):
    folder = module / name
    folder.mkdir()
    (folder / "main.go").write_text(source, encoding="utf-8")
    run([go, "build", "-tags=rdma", "-o", f"{name}-program", f"./{name}"], env, cwd=module,
        seconds=1800)
    return str(module / f"{name}-program")


def source_of(*path):
    with open(os.path.join(HERE, *path), encoding="utf-8") as f:
        return f.read()


def replace_once(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_the_published_program_runs_as_it_is(go, module, build_environment, environment,
                                             rdma_server, s3):
    """Another endpoint and other keys, and nothing else."""
    source = source_of("seed", "main.go.in")
    for old, new in (("aistor.example.net:9000", environment["S3RDMA_TEST_ENDPOINT"]),
                     ("ACCESS_KEY", daemon.USER), ("SECRET_KEY", daemon.SECRET)):
        source = replace_once(source, f'"{old}"', json.dumps(new))
    program = build(go, module, build_environment, "seed", source)
    assert s3("PUT", "/my-bucket").status == 200
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=1, get_bytes=MIB):
        out = run([program], environment)
    assert re.search(r"uploaded etag=[0-9a-f]{32}\S* size=1048576$", out, re.M), out
    assert re.search(r"downloaded size=1048576$", out, re.M), out
    stored = s3("GET", "/my-bucket/my-object")
    assert stored.body == bytes(range(256)) * (MIB // 256)


@pytest.fixture(scope="module")
def stream_program(go, module, build_environment):
    return build(go, module, build_environment, "stream", source_of("stream.go.in"))


def test_a_reader_goes_up_as_a_stream(stream_program, environment, rdma_server, bucket):
    size = 40 * MIB + 5
    with moved(rdma_server, puts=3, put_bytes=size, gets=1, get_bytes=size):
        run([stream_program, "whole"], {**environment, "BUCKET": bucket})


def test_a_reader_that_fails_leaves_nothing_and_says_why(stream_program, environment, s3, bucket):
    run([stream_program, "broken"], {**environment, "BUCKET": bucket})
    assert s3("HEAD", f"/{bucket}/broken").status == 404
    assert b"<UploadId>" not in s3("GET", f"/{bucket}?uploads=").body


@pytest.mark.parametrize("mode", ["interrupted", "killed"])
def test_a_signal_ends_a_stream_and_leaves_no_object(stream_program, environment, rdma_server, s3,
                                                     bucket, mode):
    started = start([stream_program, mode], {**environment, "BUCKET": bucket})
    started.send_signal(signal.SIGINT)
    said = end(started)
    assert started.returncode == (0 if mode == "interrupted" else -signal.SIGINT), said
    assert s3("HEAD", f"/{bucket}/interrupted").status == 404
    # Who is killed takes nothing back; the upload is there to be aborted.
    assert len(open_uploads(s3, bucket)) == (0 if mode == "interrupted" else 1)
    assert daemon.eventually(lambda: is_at_rest(rdma_server)), rdma_server.metrics()
