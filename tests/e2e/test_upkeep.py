# SPDX-License-Identifier: Apache-2.0
"""s3rdmad scrub and rebuild, on a store that a server has left."""
import os
import shutil
import subprocess

from conftest import bucket_name
from daemon import BUILD, SLOWER, plain_environment
import s3raw

PROGRAM = os.path.join(BUILD, "s3rdmad")
OBJECTS = {"/large": os.urandom(3 << 20), "/a/b//c": os.urandom(70000), "/sp ace": os.urandom(1 << 20)}


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60 * SLOWER,
                          stdin=subprocess.DEVNULL)


def largest_file(folder):
    files = [os.path.join(d, f) for d, _, names in os.walk(folder) for f in names]
    return max(files, key=os.path.getsize)


def filled(servers):
    """A store with three objects in data files, and its server, stopped."""
    server = servers.start("off")
    name = bucket_name()
    assert server.s3()("PUT", f"/{name}").status == 200
    for key, body in OBJECTS.items():
        path = f"/{name}{key}".replace(" ", "%20")
        assert server.s3()("PUT", path, body=body).status == 200
    server.stop()
    return server, name


def test_scrub_finds_nothing_in_a_good_store_and_a_flipped_bit_in_a_bad_one(servers):
    server, _ = filled(servers)
    good = run("scrub", server.data, "--deep")
    assert good.returncode == 0 and "bad blocks 0" in good.stdout, good
    path = largest_file(os.path.join(server.data, "data"))
    with open(path, "r+b") as f:
        f.seek(1 << 20)
        byte = f.read(1)
        f.seek(1 << 20)
        f.write(bytes([byte[0] ^ 1]))
    bad = run("scrub", server.data, "--deep")
    assert bad.returncode == 1 and "bad blocks 1" in bad.stdout, bad
    server.start()


def test_rebuild_restores_the_objects_of_a_lost_index(servers):
    server, name = filled(servers)
    shutil.rmtree(os.path.join(server.data, "index"))
    done = run("rebuild", server.data)
    assert done.returncode == 0, done
    server.start()
    for key, body in OBJECTS.items():
        reply = server.s3()("GET", f"/{name}{key}".replace(" ", "%20"))
        assert reply.status == 200 and reply.body == body


def test_a_store_in_use_is_not_touched(servers):
    server = servers.start("off")
    for command in ("scrub", "rebuild"):
        done = run(command, server.data)
        assert done.returncode == 1 and server.data in done.stderr, done


def test_wrong_use_is_said():
    for words in (("scrub",), ("rebuild",), ("scrub", "x", "--shallow"), ("rebuild", "x", "y")):
        done = run(*words)
        assert done.returncode == 2 and "usage" in done.stderr, done
    assert run("scrub", "/nonexistent/store/here").returncode == 1


def test_a_backup_brings_back_what_only_the_index_holds(servers, tmp_path):
    server = servers.start("off")
    name, copy = bucket_name(), tmp_path / "copy"
    assert server.s3()("PUT", f"/{name}").status == 200
    bodies = {"small": b"lives in the index", "large": os.urandom(2 << 20)}
    for key, body in bodies.items():
        assert server.s3()("PUT", f"/{name}/{key}", body=body).status == 200
    host, port = server.address
    done = subprocess.run([PROGRAM, "backup", str(copy), "--listen", f"{host}:{port}"],
                          capture_output=True, text=True, timeout=60 * SLOWER,
                          env={**plain_environment(), **server.environment})
    assert done.returncode == 0, done
    server.stop()
    shutil.rmtree(os.path.join(server.data, "index"))
    shutil.copytree(copy / "index", os.path.join(server.data, "index"))
    assert run("rebuild", server.data).returncode == 0
    server.start()
    for key, body in bodies.items():
        reply = server.s3()("GET", f"/{name}/{key}")
        assert reply.status == 200 and reply.body == body


def test_a_backup_needs_the_roots_signature_and_an_absolute_path(servers, tmp_path):
    server = servers.start("off")
    assert server.s3()("POST", "/?s3r-backup=relative").status == 400
    nobody = s3raw.Connection(server.address)
    nobody.send(f"POST /?s3r-backup={tmp_path}/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
    assert nobody.read_reply("POST").status == 403
    assert not (tmp_path / "x").exists()
    done = subprocess.run([PROGRAM, "backup", str(tmp_path / "x"), "--listen", "127.0.0.1:0"],
                          capture_output=True, text=True, timeout=60, env=plain_environment())
    assert done.returncode == 1 and "--listen" in done.stderr
