# SPDX-License-Identifier: Apache-2.0
"""Programs in C++ over include/miniocpp, as a user compiles them: header only, -lminiocpp."""
import glob
import os
import shutil
import urllib.request

import pytest

import daemon
from conftest import bucket_name, client_build, moved, program_environment, run

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cpp")
INCLUDE = os.path.join(daemon.TOP, "include")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
MIB = 1 << 20


@pytest.fixture(scope="module", params=["g++", "clang++"])
def compiler(request):
    path = shutil.which(request.param)
    if not path:
        pytest.skip(f"there is no {request.param} here")
    return path


def build(compiler, source, program):
    run([compiler, "-std=c++17", "-O1", *WARNINGS, f"-I{INCLUDE}", str(source), "-o", str(program),
         f"-L{client_build()}", "-lminiocpp", "-pthread"], daemon.plain_environment(), seconds=600)
    return str(program)


def test_each_header_compiles_alone(compiler, tmp_path):
    standard = {"g++": "c++17", "clang++": "c++20"}[os.path.basename(compiler)]
    headers = [h for h in glob.glob(os.path.join(INCLUDE, "miniocpp", "*.h"))
               if not h.endswith("c_api.h")]
    assert len(headers) >= 10
    for header in headers:
        name = "miniocpp/" + os.path.basename(header)
        (tmp_path / "alone.cc").write_text(f"#include <{name}>\n#include <{name}>\n")
        run([compiler, f"-std={standard}", *WARNINGS, "-Wconversion", f"-I{INCLUDE}",
             "-fsyntax-only", "alone.cc"], daemon.plain_environment(), cwd=tmp_path)


def test_pkg_config_knows_headers_and_library(compiler, environment, tmp_path):
    env = {**daemon.plain_environment(),
           "PKG_CONFIG_PATH": os.path.join(client_build(), "meson-uninstalled")}
    flags = run(["pkg-config", "--cflags", "--libs", "miniocpp"], env).split()
    (tmp_path / "version.c").write_text("#include <s3r/client.h>\n#include <stdio.h>\n"
                                        "int main(void) { return puts(s3r_version()) < 0; }\n")
    (tmp_path / "build").mkdir()
    run([compiler, "-x", "c++", "version.c", "-o", "version", *flags], env, cwd=tmp_path)
    assert run([str(tmp_path / "version")], environment).count(".") == 2


def replace_once(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_the_published_program_runs_as_it_is(compiler, environment, rdma_server, s3, tmp_path):
    """Another endpoint and other keys, and nothing else."""
    with open(os.path.join(HERE, "seed.cc.in"), encoding="utf-8") as f:
        source = f.read()
    for old, new in (("aistor.example.net:9000", environment["S3RDMA_TEST_ENDPOINT"]),
                     ("ACCESS_KEY", daemon.USER), ("SECRET_KEY", daemon.SECRET)):
        source = replace_once(source, f'"{old}"', f'"{new}"')
    (tmp_path / "seed.cc").write_text(source, encoding="utf-8")
    program = build(compiler, tmp_path / "seed.cc", tmp_path / "seed")
    assert s3("PUT", "/my-bucket").status in (200, 409)
    with moved(rdma_server, puts=1, put_bytes=MIB, gets=1, get_bytes=MIB):
        run([program], environment)
    assert s3("GET", "/my-bucket/my-object").body == b"A" * MIB


@pytest.fixture(scope="module")
def rest(tmp_path_factory):
    """rest.cc, built with the first compiler there is."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        pytest.skip("there is no C++ compiler here")
    return build(compiler, os.path.join(HERE, "rest.cc"), tmp_path_factory.mktemp("cpp") / "rest")


@pytest.fixture
def case(rest, bucket, environment, tmp_path):
    """One of its cases; what it printed."""
    return lambda name: run([rest, name, bucket], environment, cwd=tmp_path)


def test_times_and_headers_are_read_and_written(case):
    case("values")


def test_buckets_appear_and_go(case):
    case("buckets")


# The object; it whole, 10 bytes, all but 100, 5, and it whole again.
MEMORY_MOVES = {"puts": 1, "put_bytes": MIB + 5, "gets": 5,
                "get_bytes": (MIB + 5) + 10 + (MIB + 5 - 100) + 5 + (MIB + 5)}
# Three parts and an empty object; one piece.
STREAM_MOVES = {"puts": 4, "put_bytes": 11 * MIB, "gets": 1, "get_bytes": 11 * MIB}


def test_memory_and_ranges_of_it_move_by_rdma(case, rdma_server):
    with moved(rdma_server, **MEMORY_MOVES):
        case("memory")


def test_streams_move_by_rdma(case, rdma_server):
    with moved(rdma_server, **STREAM_MOVES):
        case("streams")


def test_whatever_stops_a_stream_leaves_no_object(case, s3, bucket):
    case("stopping")
    reply = s3("GET", f"/{bucket}?uploads")
    assert reply.status == 200 and b"<Upload>" not in reply.body, reply.body


def test_errors_are_the_servers_own(case, rdma_server):
    with moved(rdma_server):
        case("errors")


def test_credentials_are_asked_for_each_time(case):
    case("providers")


def test_listings_go_page_after_page(case):
    case("listing")


def test_files_appear_whole_or_not_at_all(case, tmp_path):
    case("files")
    assert sorted(os.listdir(tmp_path)) == ["copy", "source"]


def test_one_client_serves_many_threads(case, rdma_server):
    with moved(rdma_server, puts=80, put_bytes=800000, gets=80, get_bytes=800000):
        case("threads")


def test_a_link_is_for_anybody(case):
    link = case("link").strip()
    with urllib.request.urlopen(link, timeout=60 * daemon.SLOWER) as reply:
        assert reply.read() == b"hello"


def test_the_same_over_libfabric(rest, module_servers, tmp_path):
    server = module_servers.start("ofi:tcp")
    bucket = bucket_name()
    assert server.s3()("PUT", f"/{bucket}").status == 200
    for name, moves in (("memory", MEMORY_MOVES), ("streams", STREAM_MOVES)):
        with moved(server, **moves):
            run([rest, name, bucket], program_environment(server), cwd=tmp_path)


def test_without_rdma_at_the_server_all_goes_by_http(rest, module_servers, tmp_path):
    server = module_servers.start("off")
    bucket = bucket_name()
    assert server.s3()("PUT", f"/{bucket}").status == 200
    env = {**program_environment(server), "S3RDMA_DEVICE": "cma"}
    with moved(server):
        run([rest, "fallback", bucket], env, cwd=tmp_path)
