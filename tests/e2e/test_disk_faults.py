# SPDX-License-Identifier: Apache-2.0
"""A disk that is full, broken or not to be written: what is refused is refused with a defined error,
what is there stays as it is, readiness says what is wrong, and a restart on a healthy disk goes on."""
import os
import subprocess

import pytest

import faults
import rdma
from daemon import eventually
from s3raw import UNSIGNED

MIB = 1 << 20
OLD_LARGE, OLD_SMALL = bytes(range(256)) * 12000, b"a small one"


@pytest.fixture
def place(servers):
    """A server, its disk, and in it an object with a file of its own and one inside the index."""
    server, disk = faults.start(servers, "cma")
    fill(server.s3())
    yield server, disk
    disk.set()


def fill(s3):
    assert s3("PUT", "/place").status == 200
    assert s3("PUT", "/place/large", OLD_LARGE, sha256=UNSIGNED).status == 200
    assert s3("PUT", "/place/small", OLD_SMALL).status == 200


def assert_old_objects_are_intact(server):
    s3 = server.s3()
    assert s3("GET", "/place/large").body == OLD_LARGE
    assert s3("GET", "/place/small").body == OLD_SMALL
    assert s3("GET", "/place/large", headers=[("Range", "bytes=1048000-1049000")]).body == \
        OLD_LARGE[1048000:1049001]


def put(server, key, body):
    return server.s3()("PUT", f"/place/{key}", body, sha256=UNSIGNED)


def ready(server):
    return server.get("/minio/health/ready")


def assert_refused(reply, status, code):
    assert (reply.status, reply.code) == (status, code), reply
    assert reply.text("Message") and reply["x-amz-request-id"], reply


def assert_read_only(server, why):
    """No write of any kind; reads go on; readiness says the reason; it is alive."""
    s3 = server.s3()
    writes = [("PUT", "/place/large", b"x"), ("PUT", "/place/new", bytes(MIB)),
              ("PUT", "/another-place", b""), ("DELETE", "/place/small", b""),
              ("POST", "/place/new?uploads", b"")]
    for method, target, body in writes:
        assert_refused(s3(method, target, body), 503, "ServiceUnavailable")
    not_ready = ready(server)
    assert_refused(not_ready, 503, "ServiceUnavailable")
    assert why in not_ready.text("Message"), not_ready
    assert server.get("/minio/health/live").status == 200
    assert_old_objects_are_intact(server)
    assert s3("GET", "/place?list-type=2").texts("Key")[:2] == ["large", "small"]


def assert_works_after_a_restart(server, disk, maybe=()):
    """`maybe`: (key, body) of a PUT that was not acknowledged, which may be there whole."""
    disk.set()
    server.stop()
    server.start()
    assert ready(server).status == 200
    assert_old_objects_are_intact(server)
    for key, body in maybe:
        got = server.s3()("GET", f"/place/{key}")
        assert got.status == 404 or got.body == body, got
    assert put(server, "after", bytes(MIB)).status == 200


# ---- full ----

@pytest.mark.parametrize("rule", ["write /data/ ENOSPC", "allocate /data/ ENOSPC",
                                  "write /data/ EDQUOT"])
def test_no_space_for_data_refuses_the_object_and_nothing_else(place, rule):
    server, disk = place
    disk.set(rule)
    assert_refused(put(server, "large", bytes(3 * MIB)), 507, "XMinioStorageFull")
    assert_refused(put(server, "new", bytes(3 * MIB)), 507, "XMinioStorageFull")
    assert put(server, "tiny", b"t").status == 200
    assert server.s3()("GET", "/place/new").status == 404
    assert_old_objects_are_intact(server)
    disk.set()
    assert ready(server).status == 200
    assert put(server, "new", bytes(3 * MIB)).status == 200


def test_no_space_for_data_refuses_a_part_and_keeps_the_upload(place):
    server, disk = place
    s3 = server.s3()
    upload = s3("POST", "/place/parts?uploads").text("UploadId")
    part = f"/place/parts?partNumber=1&uploadId={upload}"
    disk.set("write /data/ ENOSPC")
    assert_refused(s3("PUT", part, bytes(6 * MIB), sha256=UNSIGNED), 507, "XMinioStorageFull")
    disk.set()
    etag = s3("PUT", part, bytes(6 * MIB), sha256=UNSIGNED)["etag"]
    xml = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    done = s3("POST", f"/place/parts?uploadId={upload}",
              f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode())
    assert done.status == 200 and done.code is None, done
    assert s3("GET", "/place/parts").body == bytes(6 * MIB)


def test_no_space_for_the_index_makes_the_store_read_only(place):
    server, disk = place
    disk.set("write /index/ ENOSPC")
    assert put(server, "new", b"n").status in (503, 507)
    assert_read_only(server, "index")
    disk.set()  # space that comes back is not used before a restart
    for _ in range(20):
        assert_read_only(server, "index")
    assert_works_after_a_restart(server, disk, [("new", b"n")])


@pytest.fixture
def small_disk(tmp_path):
    """ext4 of 256 MiB in a file; where there are no loop devices a tmpfs."""
    where, image = tmp_path / "small", tmp_path / "image"
    where.mkdir()
    with open(image, "wb") as f:
        f.truncate(256 * MIB)
    tries = [["sh", "-c", f"mkfs.ext4 -q {image} && mount -o loop {image} {where}"],
             ["mount", "-t", "tmpfs", "-o", "size=256m", "none", str(where)]]
    said = []
    for command in tries:
        done = subprocess.run(command, capture_output=True, text=True)
        said.append(done.stderr.strip())
        if done.returncode == 0:
            break
    else:
        pytest.skip(f"mounting a small disk needs root: {said}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_disk_that_is_full_to_the_last_byte(servers, small_disk):
    server = servers.make("cma")
    server.data = str(small_disk / "data")
    server.start()
    fill(server.s3())
    for size in (4 * MIB, 300000):
        count, reply = 0, None
        while (reply := put(server, f"filler-{size}-{count}", bytes(size))).status == 200:
            count += 1
        assert_refused(reply, 507, "XMinioStorageFull")
        assert_old_objects_are_intact(server)
    assert server.s3()("GET", f"/place/filler-{size}-{count}").status == 404
    with open(small_disk / "somebody-else", "wb") as f:
        try:
            while f.write(bytes(65536)):
                f.flush()
        except OSError:
            pass
    for key, body in (("new", b"n"), ("large", bytes(3 * MIB)), ("small", b"s")):
        assert_refused(put(server, key, body), 507, "XMinioStorageFull")
    owner = rdma.Owner("cma")
    with owner.region(MIB) as region, region.window() as w:
        reply = server.s3()("PUT", "/place/small", headers=rdma.headers(w.token))
        assert_refused(reply, 507, "XMinioStorageFull")
    owner.close()
    assert_refused(ready(server), 507, "XMinioStorageFull")
    assert_old_objects_are_intact(server)
    os.unlink(small_disk / "somebody-else")
    assert server.s3()("DELETE", "/place/filler-4194304-0").status == 204
    assert eventually(lambda: ready(server).status == 200)
    assert put(server, "after", bytes(MIB)).status == 200
    server.stop()
    server.start()
    assert_old_objects_are_intact(server)
    server.stop()


def test_a_start_on_a_full_disk_serves_or_says_why_not(servers, small_disk):
    server = servers.make()
    server.data = str(small_disk / "data")
    server.start()
    fill(server.s3())
    server.stop()
    with open(small_disk / "somebody-else", "wb", buffering=0) as f:
        try:
            while f.write(bytes(65536)):
                pass
        except OSError:
            pass
    try:
        server.start()
        assert_refused(ready(server), 507, "XMinioStorageFull")
        assert_old_objects_are_intact(server)
        server.stop()
    except AssertionError as e:
        assert "ended with 1 instead of listening" in str(e) and "No space left" in server.log(), e
    os.unlink(small_disk / "somebody-else")
    server.start()
    assert_old_objects_are_intact(server)
    assert put(server, "after", bytes(MIB)).status == 200
    server.stop()


# ---- broken ----

@pytest.mark.parametrize("where, body", [("/data/", bytes(3 * MIB)), ("/index/", bytes(3 * MIB)),
                                         ("/index/", bytes(100))])
def test_a_failed_sync_stops_all_writing_until_a_restart(place, where, body):
    server, disk = place
    disk.set(f"sync {where} EIO")
    reply = put(server, "large", body)
    assert reply.status in (500, 503) and reply.code in ("InternalError", "ServiceUnavailable"), reply
    disk.set()  # a sync that works the second time proves nothing
    assert_read_only(server, "sync" if where == "/data/" else "index")
    disk.set()
    server.stop()
    server.start()
    assert server.s3()("GET", "/place/large").body in (OLD_LARGE, body)
    assert server.s3()("GET", "/place/small").body == OLD_SMALL
    assert ready(server).status == 200
    assert put(server, "large", OLD_LARGE).status == 200


def test_a_write_that_fails_is_that_object_s_error(place):
    server, disk = place
    disk.set("write /data/ EIO")
    assert_refused(put(server, "large", bytes(3 * MIB)), 500, "InternalError")
    assert_old_objects_are_intact(server)
    assert put(server, "tiny", b"t").status == 200
    disk.set()
    assert ready(server).status == 200
    assert put(server, "new", bytes(3 * MIB)).status == 200


def test_a_folder_that_cannot_be_synced_is_a_failed_sync(place):
    server, disk = place
    s3 = server.s3()
    disk.set("sync /000$ EIO")
    owner = rdma.Owner("cma")
    with owner.region(MIB) as region, region.window() as w:
        reply = s3("PUT", "/place/new", headers=rdma.headers(w.token))
    owner.close()
    assert reply.status in (500, 503) and reply.code != "RDMATransferError", reply
    disk.set()
    assert_read_only(server, "sync")
    assert_works_after_a_restart(server, disk)


@pytest.mark.parametrize("rule", ["read /data/ EIO", "open /data/ EIO"])
def test_a_read_that_fails_is_that_request_s_error(place, rule):
    server, disk = place
    s3 = server.s3()
    disk.set(rule)
    with s3.connect() as conn:
        assert_refused(s3("GET", "/place/large", conn=conn), 500, "InternalError")
        ranged = s3("GET", "/place/large", headers=[("Range", "bytes=0-9")], conn=conn)
        assert_refused(ranged, 500, "InternalError")
        assert s3("GET", "/place/small", conn=conn).body == OLD_SMALL
        assert s3("HEAD", "/place/large", conn=conn).status == 200
    owner = rdma.Owner("cma")
    with owner.region(len(OLD_LARGE)) as region:
        with region.window() as w:
            reply = s3("GET", "/place/large", headers=rdma.headers(w.token))
            assert_refused(reply, 500, "InternalError")
            assert reply["x-amz-rdma-bytes-transferred"] is None
        assert ready(server).status == 200
        disk.set()
        with region.window() as w:
            assert s3("GET", "/place/large", headers=rdma.headers(w.token)).status == 200
        assert region[:] == OLD_LARGE
    owner.close()
    assert_old_objects_are_intact(server)


def test_a_read_that_fails_in_the_middle_ends_the_connection_short(place):
    server, disk = place
    s3 = server.s3()
    body = os.urandom(64 * MIB)
    assert put(server, "huge", body).status == 200
    with s3.connect(rcvbuf=65536) as conn:
        conn.send(s3.head("GET", "/place/huge"))
        head = conn.read_head()
        assert head.status == 200 and int(head["content-length"]) == len(body)
        disk.set("read /data/ EIO")
        got = conn.read_to_end()
    assert len(got) < len(body) and body.startswith(got)
    disk.set()
    assert s3("GET", "/place/huge").body == body
    assert ready(server).status == 200


def test_an_index_that_cannot_be_read_is_an_error_never_an_absence(place):
    server, disk = place
    bodies = [os.urandom(16000) for _ in range(16)]
    for i, body in enumerate(bodies):
        assert put(server, f"cold-{i:02}", body).status == 200
    server.stop()
    server.start()  # what was in memory is in files now, and not read yet
    s3 = server.s3()
    disk.set("read /index/ EIO")
    replies = [s3("GET", f"/place/cold-{i:02}") for i in range(16)]
    listed, head = s3("GET", "/place?list-type=2"), s3("HEAD", "/place/cold-07")
    disk.set()
    failed = [r for r in replies if r.status == 500]
    assert failed and all(r.code == "InternalError" for r in failed), replies
    assert all(r.body == body for r, body in zip(replies, bodies) if r.status == 200)
    assert all(r.status in (200, 500) for r in [*replies, listed, head]), (listed, head)
    if listed.status == 200:
        assert listed.texts("Key") == [f"cold-{i:02}" for i in range(16)] + ["large", "small"]
    assert ready(server).status == 200
    assert_old_objects_are_intact(server)
    for i, body in enumerate(bodies):
        assert s3("GET", f"/place/cold-{i:02}").body == body


def test_a_file_that_cannot_be_removed_is_removed_at_the_next_start(place):
    server, disk = place

    def files():
        return sum(len(names) for folder, _, names in os.walk(os.path.join(server.data, "data")))

    before = files()
    disk.set("unlink /data/ EIO")
    for _ in range(3):
        assert put(server, "large", OLD_LARGE).status == 200
    assert server.s3()("GET", "/place/large").body == OLD_LARGE
    assert ready(server).status == 200
    server.stop()
    assert files() > before
    disk.set()
    server.start()
    assert eventually(lambda: files() == before), (before, files())
    assert_old_objects_are_intact(server)


# ---- not to be written ----

def test_read_only_serves_and_refuses(place):
    server, disk = place
    server.stop()
    server.options = ["--read-only", "on"]
    server.start()
    assert_read_only(server, "read-only")
    owner = rdma.Owner("cma")
    with owner.region(len(OLD_LARGE)) as region:
        with region.window() as w:
            token = rdma.headers(w.token)
            assert server.s3()("GET", "/place/large", headers=token).status == 200
        assert region[:] == OLD_LARGE
        with region.window() as w:
            token = rdma.headers(w.token)
            assert_refused(server.s3()("PUT", "/place/new", headers=token), 503,
                           "ServiceUnavailable")
    owner.close()
    server.stop()
    server.options = []
    server.start()
    assert ready(server).status == 200 and put(server, "after", b"a").status == 200


@pytest.fixture
def frozen_disk(place):
    """The server is stopped, and its folder mounted so that nothing can be written."""
    server, _ = place
    server.stop()
    for command in (["mount", "--bind", server.data, server.data],
                    ["mount", "-o", "remount,bind,ro", server.data]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"a read-only mount needs root: {done.stderr.strip()}")
    yield server
    server.kill()
    server.process = None
    subprocess.run(["umount", "-l", server.data], check=True)


def test_read_only_needs_no_byte_of_the_disk_to_be_writable(frozen_disk):
    server = frozen_disk
    server.options = ["--read-only", "on"]
    server.start()
    assert_read_only(server, "read-only")
    server.stop()


def test_a_disk_that_cannot_be_written_is_refused_at_the_start(frozen_disk):
    with pytest.raises(AssertionError, match="(?i)read-only"):
        frozen_disk.start()
