# SPDX-License-Identifier: Apache-2.0
"""Programs over the crate in bindings/rust, which they call `minio`, and the crate's own lints."""
import json
import os
import re
import shutil
import subprocess

import pytest

import daemon
from conftest import bucket_name, client_build, moved, program_environment, run
from interruption import interrupt_once_held, is_at_rest, open_uploads, start
from relay import Relay

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rust")
CRATE = os.path.join(daemon.TOP, "bindings", "rust")
KEPT = os.path.join(daemon.TOP, "build", "rust")
OLDEST = (1, 68)  # older ones cannot read the index of crates as it is served today
MIB = 1 << 20


def version_of(cargo, env):
    """(1, 95, 0), or () when it cannot be run."""
    try:
        done = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=True,
                              env=env, cwd="/", timeout=120)
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(r"\b(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(int(n) for n in found.groups()) if found else ()


class Cargo:
    def __init__(self, path, env):
        self.path = path
        self.env = {**env, "CARGO_TARGET_DIR": os.path.join(KEPT, "target"),
                    "CARGO_TERM_COLOR": "never", "CARGO_NET_RETRY": "2",
                    "CARGO_REGISTRIES_CRATES_IO_PROTOCOL": "sparse",
                    "S3RDMA_LIB_DIR": client_build(), "LD_LIBRARY_PATH": client_build()}

    def __call__(self, folder, *arguments):
        return run([self.path, *arguments], self.env, cwd=folder, seconds=1800)

    def has(self, what):
        done = subprocess.run([self.path, what, "--version"], env=self.env, cwd="/", check=False,
                              capture_output=True)
        return done.returncode == 0


@pytest.fixture(scope="module")
def cargo():
    """The machine's, or the one that scripts/deps put into the build folder."""
    env = daemon.plain_environment()
    own = {**env, "CARGO_HOME": os.path.join(KEPT, "cargo"),
           "RUSTUP_HOME": os.path.join(KEPT, "rustup")}
    own["PATH"] = os.path.join(own["CARGO_HOME"], "bin") + ":" + env.get("PATH", "")
    found = {}
    for path, its in ((shutil.which("cargo"), env),
                      (os.path.join(own["CARGO_HOME"], "bin", "cargo"), own)):
        if path and os.path.exists(path):
            found[path] = version_of(path, its)
            if found[path] >= OLDEST:
                return Cargo(path, its)
    oldest = ".".join(str(n) for n in OLDEST)
    pytest.skip(f"no cargo of at least {oldest} here: {found or 'none at all'}")


@pytest.fixture(scope="module")
def folder(cargo):
    """The programs' package with all that Cargo.lock names downloaded. Always the same folder, so
    that what was compiled stays."""
    path = os.path.join(KEPT, "programs")
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(HERE, "Cargo.toml.in"), encoding="utf-8") as f:
        text = f.read().replace('"@CRATE@"', json.dumps(CRATE))
    with open(os.path.join(path, "Cargo.toml"), "w", encoding="utf-8") as f:
        f.write(text)
    for name in ("Cargo.lock", "rest.rs"):
        shutil.copy(os.path.join(HERE, name), path)
    shutil.copy(os.path.join(HERE, "seed.rs.in"), os.path.join(path, "seed.rs"))
    done = subprocess.run([cargo.path, "fetch", "--locked"], cwd=path, env=cargo.env, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False)
    if done.returncode and re.search(r"network|download|resolve host|timed out|connect",
                                     done.stderr):
        pytest.skip(f"crates cannot be downloaded here: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return path


def replace_once(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_the_published_program_runs_as_it_is(cargo, folder, environment, rdma_server, s3):
    """Another endpoint and other keys, and nothing else."""
    with open(os.path.join(HERE, "seed.rs.in"), encoding="utf-8") as f:
        source = f.read()
    for old, new in (("aistor.example.net:9000", environment["S3RDMA_TEST_ENDPOINT"]),
                     ("ACCESS_KEY", daemon.USER), ("SECRET_KEY", daemon.SECRET)):
        source = replace_once(source, f'"{old}"', json.dumps(new))
    with open(os.path.join(folder, "seed.rs"), "w", encoding="utf-8") as f:
        f.write(source)
    cargo(folder, "build", "--locked", "--bin", "seed")
    assert s3("PUT", "/my-bucket").status == 200
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=1, get_bytes=MIB):
        out = run([os.path.join(KEPT, "target", "debug", "seed")], environment)
    assert re.fullmatch(r"etag=[0-9a-f]{32}\S* bytes=1048576\nbytes=1048576\n", out), out
    assert s3("GET", "/my-bucket/my-object").body == b"A" * MIB


@pytest.fixture(scope="module")
def rest(cargo, folder):
    """The other program, built."""
    cargo(folder, "build", "--locked", "--bin", "rest")
    return os.path.join(KEPT, "target", "debug", "rest")


@pytest.fixture
def case(rest, bucket, environment):
    """One of its cases; what it printed."""
    return lambda name: run([rest, name, bucket], environment)


MEMORY_MOVES = {"puts": 1, "put_bytes": MIB + 5, "gets": 3, "get_bytes": MIB + 5 + 10 + 5}
MULTIPART_MOVES = {"puts": 5, "put_bytes": 16 * MIB + 3, "gets": 2, "get_bytes": 16 * MIB + 3}


def test_memory_and_ranges_of_it_move_by_rdma(case, rdma_server):
    with moved(rdma_server, **MEMORY_MOVES):
        case("memory")


def test_owned_buffers_come_back(case, rdma_server):
    with moved(rdma_server, puts=1, put_bytes=100000, gets=2, get_bytes=101000):
        case("owned")


def test_parts_move_by_rdma(case, rdma_server):
    with moved(rdma_server, **MULTIPART_MOVES):
        case("multipart")


def test_what_is_not_completed_is_aborted(case, s3, bucket):
    case("aborting")
    reply = s3("GET", f"/{bucket}?list-type=2")
    assert reply.status == 200 and b"<Key>never<" not in reply.body, reply.body
    reply = s3("GET", f"/{bucket}?uploads")
    assert reply.status == 200 and b"<Upload>" not in reply.body, reply.body


def test_thousands_of_ranges_at_once(case, rdma_server):
    with moved(rdma_server, puts=1, put_bytes=300000, gets=3000, get_bytes=300000):
        case("many")


def test_a_dropped_future_leaves_its_memory_alone(case):
    case("dropping")


@pytest.mark.parametrize("what, pattern", [("put", rb"PUT /\S+/k "), ("get", rb"GET /\S+/big "),
                                           ("parts", rb"PUT /\S+/k\?partNumber=2")])
def test_a_signal_ends_a_transfer_and_leaves_nothing(rest, environment, rdma_server, s3, bucket,
                                                     what, pattern):
    assert s3("PUT", f"/{bucket}/big", bytes(16 * MIB)).status == 200
    with Relay(rdma_server.address) as relay:
        relay.hold(pattern)
        host_and_port = relay.url.removeprefix("http://")
        started = start([rest, "interrupted", bucket, what],
                        {**environment, "S3RDMA_TEST_ENDPOINT": host_and_port})
        said = interrupt_once_held(relay, started)
    assert started.returncode == 0, said
    assert s3("HEAD", f"/{bucket}/k").status == 404 and open_uploads(s3, bucket) == []
    assert daemon.eventually(lambda: is_at_rest(rdma_server)), rdma_server.metrics()


def test_a_waker_may_drop_what_is_under_way(case):
    case("fleeting")


def test_nothing_is_under_way_once_the_last_client_is_gone(case):
    """The process then ends at once, each time as it should."""
    for _ in range(5):
        case("exiting")


def test_no_thread_of_the_runtime_is_blocked_and_runtimes_may_end(case, rdma_server):
    with moved(rdma_server, puts=92, put_bytes=92):
        case("runtimes")


def test_errors_are_the_servers_own(case, rdma_server):
    with moved(rdma_server, puts=1, put_bytes=100):
        case("errors")


def test_credentials_are_asked_for_each_time(case):
    case("providers")


def test_buckets_and_listings(case):
    case("buckets")


def test_the_same_over_libfabric(rest, module_servers):
    server = module_servers.start("ofi:tcp")
    bucket = bucket_name()
    assert server.s3()("PUT", f"/{bucket}").status == 200
    for name, moves in (("memory", MEMORY_MOVES), ("multipart", MULTIPART_MOVES)):
        with moved(server, **moves):
            run([rest, name, bucket], program_environment(server))


def test_without_rdma_at_the_server_all_goes_by_http(rest, module_servers):
    server = module_servers.start("off")
    bucket = bucket_name()
    assert server.s3()("PUT", f"/{bucket}").status == 200
    with moved(server):
        run([rest, "fallback", bucket], {**program_environment(server), "S3RDMA_DEVICE": "cma"})


# ---- the crate itself ----

def test_the_crates_own_tests_pass(cargo, folder):
    out = cargo(folder, "test", "--locked", "-p", "s3rdma", "--lib")
    assert re.search(r"test result: ok\. [1-9]", out), out


def test_clippy_has_nothing_to_say(cargo, folder):
    if not cargo.has("clippy"):
        pytest.skip(f"{cargo.path} has no clippy")
    cargo(folder, "clippy", "--locked", "-p", "s3rdma", "-p", "sdk-tests", "--all-targets", "--",
          "-D", "warnings")


def test_the_code_is_as_rustfmt_has_it(cargo):
    rustfmt = shutil.which("rustfmt", path=cargo.env["PATH"])
    if not rustfmt or not cargo.has("fmt"):
        pytest.skip(f"{cargo.path} has no rustfmt")
    cargo(CRATE, "fmt", "--check")
    run([rustfmt, "--edition", "2021", "--check", "rest.rs"], cargo.env, cwd=HERE)


def test_its_documentation_has_no_broken_links(cargo, folder):
    cargo.env["RUSTDOCFLAGS"] = "-D warnings"
    cargo(folder, "doc", "--locked", "--no-deps", "-p", "s3rdma")
