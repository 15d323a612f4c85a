# SPDX-License-Identifier: Apache-2.0
"""boto3 as it comes: default checksums, default transfer settings, the calls programs make."""
import datetime
import hashlib
import io
import os
import urllib.error
import urllib.request

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import bucket_name
from daemon import SECRET, USER

MIB = 1 << 20
KEYS = ["a+b", "a b", "a%20b", "a%2Fb", "a/b", "a=b", "\u00e9", "e\u0301", "\u65e5\u672c",
        "~*'()!", ":@&$,;?#", "a\\b", "[x]{y}|z^`", "a<b>&\"c", "tab\tin", "..a", "x" * 1024,
        "a//b", "dir/", "-", "%", "%%", "%zz"]


def make_client(server, region="us-east-1", **config):
    return boto3.client("s3", endpoint_url=server.url, aws_access_key_id=USER,
                        aws_secret_access_key=SECRET, region_name=region,
                        config=Config(connect_timeout=5, **config))


@pytest.fixture(scope="module")
def client(server):
    return make_client(server)


@pytest.fixture
def bucket(client):
    name = bucket_name()
    client.create_bucket(Bucket=name)
    return name


def code_of(call, *args, **kwargs):
    with pytest.raises(ClientError) as e:
        call(*args, **kwargs)
    error = e.value.response
    return error["ResponseMetadata"]["HTTPStatusCode"], error["Error"]["Code"]


def read(client, bucket, key, **more):
    return client.get_object(Bucket=bucket, Key=key, **more)["Body"].read()


class Stream(io.RawIOBase):
    """Bytes that can be read once, in short pieces, and not sought."""

    def __init__(self, data):
        self.inner = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self.inner.read(min(len(buffer), 70001))
        buffer[:len(piece)] = piece
        return len(piece)


def test_buckets_come_and_go(client):
    name = bucket_name()
    made = client.create_bucket(Bucket=name)
    assert made["Location"] == f"/{name}"
    assert name in [b["Name"] for b in client.list_buckets()["Buckets"]]
    row = [b for b in client.list_buckets()["Buckets"] if b["Name"] == name][0]
    age = datetime.datetime.now(datetime.timezone.utc) - row["CreationDate"]
    assert abs(age.total_seconds()) < 120
    head = client.head_bucket(Bucket=name)
    assert head["BucketRegion"] == "us-east-1"
    assert client.get_bucket_location(Bucket=name)["LocationConstraint"] is None
    client.put_object(Bucket=name, Key="k", Body=b"x")
    assert code_of(client.delete_bucket, Bucket=name) == (409, "BucketNotEmpty")
    client.delete_object(Bucket=name, Key="k")
    client.delete_bucket(Bucket=name)
    assert code_of(client.head_bucket, Bucket=name) == (404, "404")
    assert code_of(client.delete_bucket, Bucket=name) == (404, "NoSuchBucket")
    assert code_of(client.list_objects_v2, Bucket=name) == (404, "NoSuchBucket")


def test_buckets_are_listed_in_pages(client):
    names = sorted(f"paged-{i}-{bucket_name()}" for i in range(7))
    for name in names:
        client.create_bucket(Bucket=name)
    got, token = [], None
    while True:
        more = {"ContinuationToken": token} if token else {}
        page = client.list_buckets(MaxBuckets=3, Prefix="paged-", **more)
        assert len(page["Buckets"]) <= 3
        got += [b["Name"] for b in page["Buckets"]]
        token = page.get("ContinuationToken")
        if not token:
            break
    assert got == names


def test_put_get_head_give_back_what_was_said(client, bucket):
    body = os.urandom(70000)
    put = client.put_object(
        Bucket=bucket, Key="k", Body=body, ContentType="image/png", ContentLanguage="de",
        ContentDisposition='attachment; filename="a b.png"', CacheControl="max-age=7",
        Expires=datetime.datetime(2031, 2, 3), Metadata={"Colour": "red", "empty": ""})
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    for call in (client.get_object, client.head_object):
        got = call(Bucket=bucket, Key="k")
        assert got["ContentLength"] == len(body) and got["ETag"] == put["ETag"]
        assert got["ContentType"] == "image/png" and got["ContentLanguage"] == "de"
        assert got["ContentDisposition"] == 'attachment; filename="a b.png"'
        assert got["CacheControl"] == "max-age=7"
        assert got["ExpiresString"] == "Mon, 03 Feb 2031 00:00:00 GMT"
        assert got["Metadata"] == {"colour": "red", "empty": ""}
        assert got["AcceptRanges"] == "bytes"
        assert "ContentEncoding" not in got
    assert read(client, bucket, "k") == body


@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 1 << 20, (1 << 20) + 1])
def test_any_size_comes_back(client, bucket, size):
    body = os.urandom(size)
    client.put_object(Bucket=bucket, Key="k", Body=body)
    assert read(client, bucket, "k") == body


# CRC32C and CRC64NVME boto3 computes only with a further package; test_checksums.py has them.
@pytest.mark.parametrize("algorithm", [None, "CRC32", "SHA1", "SHA256"])
def test_checksums_are_kept_and_returned_when_asked(client, bucket, algorithm):
    more = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    put = client.put_object(Bucket=bucket, Key="k", Body=b"hello", **more)
    name = f"Checksum{algorithm or 'CRC32'}"
    assert put[name]
    got = client.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got[name] == put[name] and got["ChecksumType"] == "FULL_OBJECT"
    assert got["Body"].read() == b"hello"
    assert client.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == put[name]


def test_upload_file_of_20_mib_goes_in_parts_and_comes_back(client, bucket, tmp_path):
    body = os.urandom(20 * MIB)
    (tmp_path / "up").write_bytes(body)
    client.upload_file(str(tmp_path / "up"), bucket, "big",
                       ExtraArgs={"Metadata": {"a": "b"}, "ContentType": "x/y"})
    head = client.head_object(Bucket=bucket, Key="big")
    parts = [hashlib.md5(body[i:i + 8 * MIB]).digest() for i in range(0, len(body), 8 * MIB)]
    assert head["ETag"] == f'"{hashlib.md5(b"".join(parts)).hexdigest()}-3"'
    assert head["Metadata"] == {"a": "b"} and head["ContentType"] == "x/y"
    client.download_file(bucket, "big", str(tmp_path / "down"))
    assert (tmp_path / "down").read_bytes() == body
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


@pytest.mark.parametrize("size", [0, 100000, 9 * MIB + 1])
def test_a_stream_that_cannot_be_sought_is_uploaded(client, bucket, size):
    body = os.urandom(size)
    client.upload_fileobj(io.BufferedReader(Stream(body)), bucket, "stream")
    assert read(client, bucket, "stream") == body


def test_presigned_urls_work_in_both_directions(server, bucket):
    # Without the signature's version boto3 makes links of version 2 for hosts that are not AWS's.
    client = make_client(server, signature_version="s3v4")
    put = client.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "a b+c"})
    request = urllib.request.Request(put, b"from a browser", method="PUT")
    assert urllib.request.urlopen(request).status == 200
    get = client.generate_presigned_url(
        "get_object", {"Bucket": bucket, "Key": "a b+c", "ResponseContentType": "text/x-mine",
                       "ResponseContentDisposition": "attachment; filename=x"})
    with urllib.request.urlopen(get) as reply:
        assert reply.read() == b"from a browser"
        assert reply.headers["Content-Type"] == "text/x-mine"
        assert reply.headers["Content-Disposition"] == "attachment; filename=x"
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(get[:-1] + ("0" if get[-1] != "0" else "1"))
    assert e.value.code == 403


def test_conditional_writes(client, bucket):
    put = client.put_object
    first = put(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    assert code_of(put, Bucket=bucket, Key="k", Body=b"2",
                   IfNoneMatch="*") == (412, "PreconditionFailed")
    second = put(Bucket=bucket, Key="k", Body=b"3", IfMatch=first["ETag"])
    assert code_of(put, Bucket=bucket, Key="k", Body=b"4",
                   IfMatch=first["ETag"]) == (412, "PreconditionFailed")
    assert read(client, bucket, "k", IfMatch=second["ETag"]) == b"3"
    assert code_of(put, Bucket=bucket, Key="none", Body=b"4",
                   IfMatch=first["ETag"]) == (404, "NoSuchKey")


def test_conditional_reads(client, bucket):
    etag = client.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    get, now = client.get_object, datetime.datetime.now(datetime.timezone.utc)
    hour = datetime.timedelta(hours=1)
    assert code_of(get, Bucket=bucket, Key="k", IfMatch='"0"') == (412, "PreconditionFailed")
    assert code_of(get, Bucket=bucket, Key="k", IfNoneMatch=etag)[0] == 304
    modified = client.head_object(Bucket=bucket, Key="k")["LastModified"]
    assert code_of(get, Bucket=bucket, Key="k", IfModifiedSince=modified)[0] == 304
    assert code_of(get, Bucket=bucket, Key="k", IfUnmodifiedSince=now - hour)[0] == 412
    assert read(client, bucket, "k", IfModifiedSince=now - hour) == b"x"
    assert read(client, bucket, "k", IfUnmodifiedSince=now + hour) == b"x"


def test_copy_keeps_or_replaces_metadata(client, bucket):
    client.put_object(Bucket=bucket, Key="a b", Body=b"data", Metadata={"m": "1"},
                      ContentType="text/x-a")
    source = {"Bucket": bucket, "Key": "a b"}
    copied = client.copy_object(Bucket=bucket, Key="kept", CopySource=source)
    assert copied["CopyObjectResult"]["ETag"] == f'"{hashlib.md5(b"data").hexdigest()}"'
    head = client.head_object(Bucket=bucket, Key="kept")
    assert head["Metadata"] == {"m": "1"} and head["ContentType"] == "text/x-a"
    client.copy_object(Bucket=bucket, Key="new", CopySource=source, MetadataDirective="REPLACE",
                       Metadata={"n": "2"}, ContentType="text/x-b")
    head = client.head_object(Bucket=bucket, Key="new")
    assert head["Metadata"] == {"n": "2"} and head["ContentType"] == "text/x-b"
    client.copy(source, bucket, "managed")
    assert read(client, bucket, "managed") == b"data"


def test_odd_keys_are_each_their_own_object(client, bucket):
    for key in KEYS:
        client.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in KEYS:
        assert read(client, bucket, key) == key.encode()
        assert client.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(key.encode())
    wanted = sorted(KEYS, key=lambda k: k.encode())
    for call in (client.list_objects_v2, client.list_objects):
        assert [o["Key"] for o in call(Bucket=bucket)["Contents"]] == wanted
    client.delete_object(Bucket=bucket, Key="a b")
    left = client.delete_objects(Bucket=bucket, Delete={
        "Objects": [{"Key": k} for k in KEYS]})
    assert sorted(d["Key"] for d in left["Deleted"]) == sorted(KEYS) and "Errors" not in left
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_listing_in_pages_with_prefix_and_delimiter(client, bucket):
    keys = [f"{d}/{i:02}" for d in "abc" for i in range(7)] + ["top1", "top2"]
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    for name in ("list_objects_v2", "list_objects"):
        pages = client.get_paginator(name)
        got = [o["Key"] for p in pages.paginate(Bucket=bucket, PaginationConfig={"PageSize": 4})
               for o in p.get("Contents", [])]
        assert got == sorted(keys)
        rows = [r for p in pages.paginate(Bucket=bucket, Delimiter="/",
                                          PaginationConfig={"PageSize": 2})
                for r in [c["Prefix"] for c in p.get("CommonPrefixes", [])]
                + [o["Key"] for o in p.get("Contents", [])]]
        assert rows == ["a/", "b/", "c/", "top1", "top2"]
        got = [o["Key"] for p in pages.paginate(Bucket=bucket, Prefix="b/",
                                                PaginationConfig={"PageSize": 3})
               for o in p.get("Contents", [])]
        assert got == [k for k in keys if k.startswith("b/")]
    page = client.list_objects_v2(Bucket=bucket, StartAfter="c/04", FetchOwner=True)
    assert [o["Key"] for o in page["Contents"]] == ["c/05", "c/06", "top1", "top2"]
    assert all(o["Owner"]["ID"] for o in page["Contents"])


def test_delete_objects_in_one_call(client, bucket):
    for i in range(5):
        client.put_object(Bucket=bucket, Key=f"k{i}", Body=b"")
    quiet = client.delete_objects(Bucket=bucket, Delete={
        "Objects": [{"Key": "k0"}, {"Key": "missing"}], "Quiet": True})
    assert "Deleted" not in quiet and "Errors" not in quiet
    loud = client.delete_objects(Bucket=bucket, Delete={
        "Objects": [{"Key": "k1"}, {"Key": "missing"}]})
    assert {d["Key"] for d in loud["Deleted"]} == {"k1", "missing"}
    assert [o["Key"] for o in client.list_objects_v2(Bucket=bucket)["Contents"]] == \
        ["k2", "k3", "k4"]


def test_multipart_step_by_step(client, bucket):
    pieces = [os.urandom(5 * MIB), os.urandom(5 * MIB), os.urandom(1000)]
    made = client.create_multipart_upload(Bucket=bucket, Key="m", Metadata={"a": "b"})
    args = {"Bucket": bucket, "Key": "m", "UploadId": made["UploadId"]}
    listed = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(u["Key"], u["UploadId"]) for u in listed] == [("m", made["UploadId"])]
    parts = []
    for number, piece in enumerate(pieces, 1):
        etag = client.upload_part(Body=piece, PartNumber=number, **args)["ETag"]
        assert etag == f'"{hashlib.md5(piece).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": etag})
    rows = client.list_parts(**args)["Parts"]
    assert [(r["PartNumber"], r["Size"]) for r in rows] == [(1, 5 * MIB), (2, 5 * MIB), (3, 1000)]
    rows = client.list_parts(MaxParts=1, PartNumberMarker=1, **args)
    assert rows["IsTruncated"] and [r["PartNumber"] for r in rows["Parts"]] == [2]
    done = client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **args)
    digest = hashlib.md5(b"".join(hashlib.md5(p).digest() for p in pieces)).hexdigest()
    assert done["ETag"] == f'"{digest}-3"'
    assert client.head_object(Bucket=bucket, Key="m")["Metadata"] == {"a": "b"}
    whole = b"".join(pieces)
    assert read(client, bucket, "m") == whole
    assert read(client, bucket, "m", Range=f"bytes={5 * MIB - 3}-{5 * MIB + 3}") == \
        whole[5 * MIB - 3:5 * MIB + 4]
    second = client.get_object(Bucket=bucket, Key="m", PartNumber=2)
    assert second["PartsCount"] == 3 and second["Body"].read() == pieces[1]
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_an_aborted_upload_is_gone(client, bucket):
    made = client.create_multipart_upload(Bucket=bucket, Key="m")
    args = {"Bucket": bucket, "Key": "m", "UploadId": made["UploadId"]}
    client.upload_part(Body=b"x" * 100, PartNumber=1, **args)
    client.abort_multipart_upload(**args)
    assert code_of(client.list_parts, **args) == (404, "NoSuchUpload")
    assert code_of(client.upload_part, Body=b"x", PartNumber=1, **args) == (404, "NoSuchUpload")
    assert code_of(client.get_object, Bucket=bucket, Key="m") == (404, "NoSuchKey")


@pytest.mark.parametrize("algorithm,type_", [("CRC32", "COMPOSITE"), ("SHA256", "COMPOSITE"),
                                             ("CRC32", "FULL_OBJECT")])
def test_multipart_checksums_are_composite_or_of_the_whole(client, bucket, algorithm, type_):
    pieces = [b"a" * (5 * MIB), b"b" * 77]
    made = client.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm=algorithm,
                                          ChecksumType=type_)
    assert made["ChecksumAlgorithm"] == algorithm and made["ChecksumType"] == type_
    args = {"Bucket": bucket, "Key": "m", "UploadId": made["UploadId"]}
    name, parts = f"Checksum{algorithm}", []
    for number, piece in enumerate(pieces, 1):
        part = client.upload_part(Body=piece, PartNumber=number, ChecksumAlgorithm=algorithm,
                                  **args)
        parts.append({"PartNumber": number, "ETag": part["ETag"], name: part[name]})
    done = client.complete_multipart_upload(MultipartUpload={"Parts": parts}, ChecksumType=type_,
                                            **args)
    assert done["ChecksumType"] == type_
    assert done[name].endswith("-2") == (type_ == "COMPOSITE")
    head = client.head_object(Bucket=bucket, Key="m", ChecksumMode="ENABLED")
    assert head[name] == done[name] and head["ChecksumType"] == type_


def test_sha256_of_a_whole_multipart_object_is_refused(client, bucket):
    assert code_of(client.create_multipart_upload, Bucket=bucket, Key="m",
                   ChecksumAlgorithm="SHA256", ChecksumType="FULL_OBJECT")[0] == 400


def test_ranges(client, bucket):
    body = bytes(range(256)) * 300
    client.put_object(Bucket=bucket, Key="k", Body=body)
    got = client.get_object(Bucket=bucket, Key="k", Range="bytes=5-14")
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == f"bytes 5-14/{len(body)}" and got["Body"].read() == body[5:15]
    assert read(client, bucket, "k", Range="bytes=-7") == body[-7:]
    assert read(client, bucket, "k", Range="bytes=76790-") == body[76790:]
    assert code_of(client.get_object, Bucket=bucket, Key="k",
                   Range="bytes=76800-") == (416, "InvalidRange")


def test_a_wrong_secret_and_a_wrong_user_are_told_apart(server, bucket):
    wrong = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=USER,
                         aws_secret_access_key="no", region_name="us-east-1")
    assert code_of(wrong.list_objects_v2, Bucket=bucket) == (403, "SignatureDoesNotMatch")
    nobody = boto3.client("s3", endpoint_url=server.url, aws_access_key_id="nobody",
                          aws_secret_access_key="no", region_name="us-east-1")
    assert code_of(nobody.list_objects_v2, Bucket=bucket) == (403, "InvalidAccessKeyId")


def test_many_clients_at_once(server, client, bucket):
    from concurrent.futures import ThreadPoolExecutor
    bodies = {f"k{i}": os.urandom(i * 1111) for i in range(64)}
    shared = make_client(server, max_pool_connections=16)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda k: shared.put_object(Bucket=bucket, Key=k, Body=bodies[k]), bodies))
        for key, got in zip(bodies, pool.map(lambda k: read(shared, bucket, k), bodies)):
            assert got == bodies[key]


def test_a_managed_copy_of_a_large_object_goes_in_parts(client, bucket):
    data = os.urandom(17 * MIB)
    client.put_object(Bucket=bucket, Key="large", Body=data, Metadata={"colour": "blue"})
    client.copy({"Bucket": bucket, "Key": "large"}, bucket, "copy",
                Config=TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB))
    done = client.get_object(Bucket=bucket, Key="copy")
    assert done["Body"].read() == data and done["ETag"].strip('"').endswith("-4")
