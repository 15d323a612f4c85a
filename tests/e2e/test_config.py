# SPDX-License-Identifier: Apache-2.0
"""Options, variables and the file: what is wrong is named, nothing is ignored, nothing is guessed."""
import os
import signal
import socket
import subprocess

import pytest

from conftest import bucket_name
from daemon import BUILD, SECRET, SLOWER, USER, Daemon, free_port, plain_environment

PROGRAM = os.path.join(BUILD, "s3rdmad")
CREDENTIALS = {"S3RDMA_ROOT_USER": USER, "S3RDMA_ROOT_PASSWORD": SECRET}


def run(*words, environment=None, cwd=None):
    """The program with an end of its own: a server that starts anyway is stopped and fails."""
    return subprocess.run([PROGRAM, *words], env={**plain_environment(), **(environment or {})},
                          cwd=cwd, capture_output=True, text=True, timeout=20 * SLOWER,
                          stdin=subprocess.DEVNULL)


def refused(done, *named):
    assert done.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT, 99), done
    for name in named:
        assert name in done.stderr, (name, done.stderr)
    assert "listening" not in done.stdout
    return done


@pytest.fixture
def base(tmp_path):
    return ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--rdma-device", "off"]


def test_version_and_help_need_nothing(tmp_path):
    environment = {"S3RDMA_LISTEN": "nonsense"}
    for words in (["--version"], ["--help"]):
        done = run(*words, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout and not done.stderr, done
    assert "s3rdmad" in run("--version").stdout
    help_text = run("--help").stdout
    for option in ("--data", "--listen", "--rdma-device", "--rdma-peers", "--region"):
        assert option in help_text
    assert run("--version", environment=environment).returncode == 0


def test_without_credentials_it_does_not_start(base):
    refused(run(*base), "S3RDMA_ROOT_USER")
    refused(run(*base, environment={"S3RDMA_ROOT_USER": "x"}), "S3RDMA_ROOT_PASSWORD")
    refused(run(*base, environment={"S3RDMA_ROOT_PASSWORD": SECRET}), "S3RDMA_ROOT_USER")
    refused(run(*base, environment={"S3RDMA_ROOT_USER": "", "S3RDMA_ROOT_PASSWORD": ""}),
            "S3RDMA_ROOT_USER")


@pytest.mark.parametrize("words,named", [
    (["--nonsense"], ["nonsense"]), (["--rdma-deadline-ms", "abc"], ["rdma-deadline-ms", "abc"]),
    (["--rdma-deadline-ms", "-1"], ["rdma-deadline-ms"]),
    (["--rdma-deadline-ms", "99999999999999999999"], ["rdma-deadline-ms"]),
    (["--rdma-staging", "12parsecs"], ["rdma-staging"]), (["--direct-io", "perhaps"], ["direct-io"]),
    (["--listen", "127.0.0.1:99999"], ["listen"]), (["--listen", "127.0.0.1:abc"], ["listen"]),
    (["--listen", "nowhere"], ["listen"]), (["--listen", "no.such.host.invalid:0"], ["listen"]),
    (["--rdma-device", "warp-drive"], ["warp-drive"]), (["--rdma-device", "ofi:warp"], ["warp"]),
    (["--log-level", "loud"], ["log-level", "loud"]),
    (["--rdma-peers", "300.1.1.1/8"], ["rdma-peers"]), (["--rdma-peers", "10.0.0.0/33"], ["rdma-peers"]),
    (["--region", "a b"], ["region"]), (["surplus"], ["surplus"]),
    (["--data"], ["data"]), (["--tls-cert", "/nonexistent.pem"], ["tls"]),
    (["--http-threads", "0"], ["http-threads"]), (["--http-threads", "100000"], ["http-threads"]),
    (["--config", "/nonexistent.conf"], ["/nonexistent.conf"])])
def test_a_wrong_option_is_named(base, words, named):
    refused(run(*base, *words, environment=CREDENTIALS), *named)


@pytest.mark.parametrize("name,value", [
    ("S3RDMA_NONSENSE", "1"), ("S3RDMA_RDMA_DEADLINE_MS", "soon"), ("S3RDMA_LISTEN", "nowhere"),
    ("S3RDMA_LOG_LEVEL", "loud"), ("S3RDMA_LISTEN_FILE", "/etc/hostname"),
    ("S3RDMA_ROOT_PASSWORD_FILE", "/nonexistent"), ("s3rdma_data".upper() + "S", "x")])
def test_a_wrong_variable_is_named(tmp_path, name, value):
    environment = {**CREDENTIALS, "S3RDMA_DATA": str(tmp_path / "d"), "S3RDMA_RDMA_DEVICE": "off",
                   name: value}
    if name.startswith("S3RDMA_ROOT_PASSWORD"):
        del environment["S3RDMA_ROOT_PASSWORD"]
    done = refused(run(environment=environment))
    # Of a value that only its use finds wrong, the option is named.
    assert name in done.stderr or name[7:].lower().replace("_", "-") in done.stderr, done.stderr


def test_without_a_folder_it_does_not_start(tmp_path):
    refused(run("--listen", "127.0.0.1:0", environment=CREDENTIALS), "data")
    (tmp_path / "file").write_text("not a folder")
    refused(run("--data", str(tmp_path / "file"), "--listen", "127.0.0.1:0", "--rdma-device", "off",
                environment=CREDENTIALS), str(tmp_path / "file"))


def test_a_short_secret_is_refused(base):
    refused(run(*base, environment={"S3RDMA_ROOT_USER": "x", "S3RDMA_ROOT_PASSWORD": "short"}),
            "8 characters")


def works(server, access=USER, secret=SECRET, region="us-east-1"):
    name = bucket_name()
    reply = server.s3(access, secret, region=region)("PUT", f"/{name}")
    assert reply.status == 200, reply


def test_the_names_of_minio_work_too(servers):
    server = servers.make()
    server.environment = {"MINIO_ROOT_USER": "minio-user", "MINIO_ROOT_PASSWORD": "minio-secret"}
    works(server.start(), "minio-user", "minio-secret")


def test_secrets_come_from_files_too(servers, tmp_path):
    (tmp_path / "secret").write_text("from a file!\n")
    server = servers.make()
    server.environment = {"S3RDMA_ROOT_USER": "u", "S3RDMA_ROOT_PASSWORD_FILE": str(tmp_path / "secret")}
    works(server.start(), "u", "from a file!")


def test_a_file_holds_what_options_hold_and_options_win(servers, tmp_path):
    config = tmp_path / "s3rdmad.conf"
    config.write_text("# a comment\n\nregion = eu-west-1\nlog-level = debug\n"
                      "root-user = file-user\nroot-password = file-password\n")
    server = servers.make(options=["--config", str(config), "--region", "eu-north-1"])
    server.environment = {"S3RDMA_LOG_LEVEL": "info"}
    server.start()
    works(server, "file-user", "file-password", "eu-north-1")
    shown = run("--config", str(config), "--data", "x", "--print-config",
                environment={"S3RDMA_LOG_LEVEL": "warn"})
    assert shown.returncode == 0, shown
    pairs = dict(map(str.strip, line.split("=", 1)) for line in shown.stdout.splitlines()
                 if "=" in line and not line.startswith("#"))
    assert pairs["region"].split()[0] == "eu-west-1" and pairs["log-level"].split()[0] == "warn"
    assert "file-password" not in shown.stdout + shown.stderr


@pytest.mark.parametrize("line", ["nonsense = 1", "region", "= x", "direct-io = perhaps",
                                  "rdma-deadline-ms = soon"])
def test_a_wrong_line_is_named_with_its_number(base, tmp_path, line):
    config = tmp_path / "s3rdmad.conf"
    config.write_text("# first\n" + line + "\n")
    refused(run(*base, "--config", str(config), environment=CREDENTIALS), str(config), "2")


def test_print_config_shows_every_option_and_starts_nothing(tmp_path):
    done = run("--print-config", "--data", str(tmp_path / "never"), environment=CREDENTIALS)
    assert done.returncode == 0, done
    assert not (tmp_path / "never").exists() and SECRET not in done.stdout
    for option in ("data", "listen", "rdma-device", "rdma-peers", "rdma-deadline-ms", "region"):
        assert any(x.startswith(option) for x in done.stdout.splitlines()), option


def test_a_port_that_is_taken_is_named(base):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = [w if w != "127.0.0.1:0" else f"127.0.0.1:{port}" for w in base]
        refused(run(*words, environment=CREDENTIALS), str(port))


def test_a_fixed_port_is_the_one_used(servers):
    port = free_port()
    server = servers.start(listen=f"127.0.0.1:{port}")
    assert server.address == ("127.0.0.1", port)
    assert server.out() == f"listening on 127.0.0.1:{port}\n"


def test_a_store_has_one_server(servers):
    first = servers.start()
    second = Daemon(first.folder + "-second", "off")
    os.makedirs(second.folder)
    done = run("--data", first.data, "--listen", "127.0.0.1:0", "--rdma-device", "off",
               environment=CREDENTIALS)
    refused(done, first.data)
    works(first)


def test_an_interrupt_ends_it_too(servers):
    server = servers.start()
    server.signal(signal.SIGINT)
    assert server.process.wait(20 * SLOWER) == 0


def test_requests_under_way_are_finished_at_sigterm(servers):
    server = servers.start()
    s3 = server.s3()
    s3("PUT", "/drained")
    body = b"d" * 1000000
    with s3.connect() as conn:
        conn.send(s3.head("PUT", "/drained/k", length=len(body), sha256="UNSIGNED-PAYLOAD")
                  + body[:500000])
        with s3.connect() as idle:
            assert s3("GET", "/", conn=idle).status == 200
            server.signal(signal.SIGTERM)
            conn.send(body[500000:])
            assert conn.read_reply().status == 200
    server.stop()
    server.start()
    assert server.s3()("GET", "/drained/k").body == body


def test_readiness_and_writes_of_a_read_only_server(servers):
    server = servers.start()
    s3 = server.s3()
    s3("PUT", "/kept")
    s3("PUT", "/kept/k", b"abc")
    server.stop()
    server.options += ["--read-only", "on"]
    server.start()
    s3 = server.s3()
    assert s3("GET", "/kept/k").body == b"abc"
    for method, target in (("PUT", "/kept/k"), ("DELETE", "/kept/k"), ("PUT", "/another"),
                           ("POST", "/kept/k?uploads"), ("DELETE", "/kept")):
        reply = s3(method, target)
        assert reply.status == 503 and reply.code == "ServiceUnavailable", (method, target, reply)
    assert s3("GET", "/kept/k").body == b"abc"
    assert server.get("/minio/health/live").status == 200
    assert server.get("/minio/health/ready").status == 503
