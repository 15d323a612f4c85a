# SPDX-License-Identifier: Apache-2.0
"""minio's Python package, unmodified."""
import datetime
import hashlib
import io
import os
import urllib.request

import pytest
from minio import Minio
from minio.commonconfig import REPLACE, ComposeSource, CopySource
from minio.deleteobjects import DeleteObject
from minio.error import S3Error

from conftest import bucket_name
from daemon import SECRET, USER

MIB = 1 << 20


@pytest.fixture(scope="module")
def client(server):
    return Minio(f"{server.address[0]}:{server.address[1]}", USER, SECRET, secure=False)


@pytest.fixture
def bucket(client):
    name = bucket_name()
    client.make_bucket(name)
    return name


def read(client, bucket, key, **more):
    reply = client.get_object(bucket, key, **more)
    try:
        return reply.data
    finally:
        reply.close()
        reply.release_conn()


def code_of(call, *args, **kwargs):
    with pytest.raises(S3Error) as e:
        call(*args, **kwargs)
    return e.value.code


def test_buckets(client):
    name = bucket_name()
    assert not client.bucket_exists(name)
    client.make_bucket(name)
    assert client.bucket_exists(name) and name in [b.name for b in client.list_buckets()]
    assert code_of(client.make_bucket, name) == "BucketAlreadyOwnedByYou"
    client.remove_bucket(name)
    assert not client.bucket_exists(name)
    assert code_of(client.remove_bucket, name) == "NoSuchBucket"


def test_objects(client, bucket):
    body = os.urandom(100000)
    put = client.put_object(bucket, "a/b c", io.BytesIO(body), len(body),
                            content_type="text/x-a", metadata={"who": "me"})
    assert put.etag == hashlib.md5(body).hexdigest()
    stat = client.stat_object(bucket, "a/b c")
    assert stat.size == len(body) and stat.etag == put.etag and stat.content_type == "text/x-a"
    assert stat.metadata["x-amz-meta-who"] == "me"
    assert read(client, bucket, "a/b c") == body
    assert read(client, bucket, "a/b c", offset=10, length=20) == body[10:30]
    client.remove_object(bucket, "a/b c")
    assert code_of(client.stat_object, bucket, "a/b c") == "NoSuchKey"
    assert code_of(client.get_object, bucket, "a/b c") == "NoSuchKey"
    assert code_of(client.get_object, bucket_name(), "k") == "NoSuchBucket"


def test_a_stream_of_unknown_length_goes_in_parts(client, bucket):
    body = os.urandom(12 * MIB + 5)
    put = client.put_object(bucket, "stream", io.BytesIO(body), -1, part_size=5 * MIB)
    assert put.etag.endswith("-3")
    assert read(client, bucket, "stream") == body


def test_files(client, bucket, tmp_path):
    body = os.urandom(6 * MIB)
    (tmp_path / "up").write_bytes(body)
    client.fput_object(bucket, "f", str(tmp_path / "up"))
    client.fget_object(bucket, "f", str(tmp_path / "down"))
    assert (tmp_path / "down").read_bytes() == body


def test_listing(client, bucket):
    keys = [f"p/{i}" for i in range(5)] + ["p/q/r", "z", "a&b", "a b+c%"]
    for key in keys:
        client.put_object(bucket, key, io.BytesIO(b""), 0)
    assert [o.object_name for o in client.list_objects(bucket, recursive=True)] == sorted(keys)
    rows = [(o.object_name, o.is_dir) for o in client.list_objects(bucket, prefix="p/")]
    assert ("p/q/", True) in rows and ("p/3", False) in rows and len(rows) == 6
    after = client.list_objects(bucket, recursive=True, start_after="p/4")
    assert [o.object_name for o in after] == ["p/q/r", "z"]
    old = client.list_objects(bucket, recursive=True, use_api_v1=True)
    assert [o.object_name for o in old] == sorted(keys)


def test_copy_and_compose(client, bucket):
    client.put_object(bucket, "s", io.BytesIO(b"data"), 4, metadata={"m": "1"})
    copied = client.copy_object(bucket, "t", CopySource(bucket, "s"))
    assert copied.etag == hashlib.md5(b"data").hexdigest()
    client.copy_object(bucket, "u", CopySource(bucket, "s"), metadata={"n": "2"},
                       metadata_directive=REPLACE)
    stat = client.stat_object(bucket, "u").metadata
    assert stat["x-amz-meta-n"] == "2" and "x-amz-meta-m" not in stat
    client.compose_object(bucket, "v", [ComposeSource(bucket, "s")])
    assert read(client, bucket, "v") == b"data"


def test_batch_delete(client, bucket):
    for key in ("a", "b&<>\"'", "c"):
        client.put_object(bucket, key, io.BytesIO(b""), 0)
    gone = [DeleteObject("a"), DeleteObject("b&<>\"'"), DeleteObject("none")]
    assert list(client.remove_objects(bucket, gone)) == []
    assert [o.object_name for o in client.list_objects(bucket)] == ["c"]


def test_presigned(client, bucket):
    hour = datetime.timedelta(hours=1)
    url = client.presigned_put_object(bucket, "p q", expires=hour)
    assert urllib.request.urlopen(
        urllib.request.Request(url, b"signed", method="PUT")).status == 200
    with urllib.request.urlopen(client.presigned_get_object(bucket, "p q", expires=hour)) as r:
        assert r.read() == b"signed"


def test_incomplete_uploads_are_seen(client, bucket):
    upload = client._create_multipart_upload(bucket, "m", {})
    client._upload_part(bucket, "m", b"x" * 10, {}, upload, 1)
    found = client._list_multipart_uploads(bucket).uploads
    assert [(u.object_name, u.upload_id) for u in found] == [("m", upload)]
    assert [p.part_number for p in client._list_parts(bucket, "m", upload).parts] == [1]
    client._abort_multipart_upload(bucket, "m", upload)
    assert client._list_multipart_uploads(bucket).uploads == []
