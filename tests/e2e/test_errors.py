# SPDX-License-Identifier: Apache-2.0
"""Errors are documents that a program can read, and what is not offered says so."""
import json

import pytest

from daemon import eventually
from s3raw import path, quote


def answer(reply):
    return reply.status, reply.code


def test_an_error_is_a_document_with_the_request_id_of_its_header_and_log(server, s3, bucket):
    for key in ("a&b<c>\"'", "\u00e9\u65e5", "plain"):
        reply = s3("GET", path(bucket, key))
        assert reply.status == 404 and reply["content-type"] == "application/xml"
        assert reply.body.startswith(b"<?xml")
        assert reply.code == "NoSuchKey" and reply.text("Message")
        assert reply.text("RequestId") == reply["x-amz-request-id"]
        assert key in reply.text("Resource") or path(bucket, key) == reply.text("Resource")
        assert eventually(lambda: reply["x-amz-request-id"] in server.log())


@pytest.mark.parametrize("key", ["\x01", "a\x1fb", "\ufffe", "a\rb", "a\nb", "]]>", "&<>\"'", "\x7f",
                                 "\U0001f600"])
def test_no_name_breaks_a_document_that_repeats_it(s3, bucket, key):
    target, text, base = path(bucket, key), quote(key), f"/{bucket}"
    assert s3("PUT", target, b"x").status == 200
    upload = s3("POST", f"{target}?uploads").text("UploadId")
    part = s3("PUT", f"{target}?partNumber=1&uploadId={upload}", b"x").etag
    ours = [("GET", f"{target}?{q}", b"") for q in (
        "acl", "tagging", "torrent", f"versionId={text}", f"partNumber={text}", f"uploadId={text}",
        f"uploadId={upload}", f"uploadId={upload}&encoding-type=url")]
    ours += [("GET", f"{base}?{q}", b"") for q in (
        f"list-type=2&prefix={text}&start-after={text}&delimiter={text}", f"marker={text}",
        f"prefix={text}&delimiter={text}&encoding-type=url", f"max-keys={text}",
        f"list-type=2&continuation-token={text}", f"encoding-type={text}", "uploads",
        f"uploads&key-marker={text}&prefix={text}&delimiter={text}",
        f"uploads&key-marker=a&upload-id-marker={text}")]
    ours += [("GET", path(bucket, key + "none"), b""), ("GET", f"/{text}", b""),
             ("GET", f"/?prefix={text}&continuation-token={text}", b""),
             ("POST", f"{target}?uploadId={upload}",
              b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part>"
              b"</CompleteMultipartUpload>" % part.encode())]
    for method, where, body in ours:
        reply = s3(method, where, body)
        assert reply.status < 500 or reply.code == "NotImplemented", (where, reply)
        assert reply.xml is not None, where
    assert s3("PUT", base + "/copy", headers=[("x-amz-copy-source", target)]).xml is not None


def test_request_ids_differ(s3, bucket):
    assert len({s3("GET", f"/{bucket}/none")["x-amz-request-id"] for _ in range(50)}) == 50


@pytest.mark.parametrize("query,status,code", [
    ("policy", 404, "NoSuchBucketPolicy"), ("lifecycle", 404, "NoSuchLifecycleConfiguration"),
    ("tagging", 404, "NoSuchTagSet"), ("cors", 404, "NoSuchCORSConfiguration"),
    ("encryption", 404, "ServerSideEncryptionConfigurationNotFoundError"),
    ("object-lock", 404, "ObjectLockConfigurationNotFoundError"),
    ("versioning", 200, None), ("acl", 200, None), ("location", 200, None)])
def test_what_was_never_set_has_the_answer_of_the_field(s3, bucket, query, status, code):
    reply = s3("GET", f"/{bucket}?{query}")
    assert answer(reply) == (status, code), reply
    assert reply.xml is not None
    missing = s3("GET", f"/no-such-bucket-e2e?{query}")
    assert answer(missing) == (404, "NoSuchBucket"), missing


def test_versioning_was_never_on(s3, bucket):
    document = s3("GET", f"/{bucket}?versioning").xml
    assert document.tag == "VersioningConfiguration" and document.find("Status") is None


@pytest.mark.parametrize("method,query", [
    ("PUT", "policy"), ("PUT", "lifecycle"), ("PUT", "cors"), ("PUT", "encryption"),
    ("PUT", "versioning"), ("PUT", "object-lock"), ("PUT", "tagging"), ("PUT", "website"),
    ("GET", "website"), ("PUT", "notification"), ("PUT", "replication"), ("GET", "inventory"),
    ("GET", "analytics"), ("GET", "metrics"), ("PUT", "accelerate"), ("GET", "versions"),
    ("PUT", "logging"), ("GET", "intelligent-tiering"), ("POST", "restore"), ("PUT", "requestPayment")])
def test_what_is_not_offered_for_buckets_says_so(s3, bucket, method, query):
    reply = s3(method, f"/{bucket}?{query}", b"<x/>" if method != "GET" else b"")
    assert reply.status in (501, 404) and reply.code, reply
    assert reply.code == "NotImplemented" or method == "GET", reply


@pytest.mark.parametrize("method,query", [
    ("GET", "torrent"), ("PUT", "retention"), ("PUT", "legal-hold"), ("POST", "select&select-type=2"),
    ("POST", "restore"), ("PUT", "tagging")])
def test_what_is_not_offered_for_objects_says_so_and_changes_nothing(s3, bucket, method, query):
    s3("PUT", f"/{bucket}/k", b"x")
    reply = s3(method, f"/{bucket}/k?{query}", b"<x/>" if method != "GET" else b"")
    assert answer(reply) == (501, "NotImplemented"), reply
    assert s3("GET", f"/{bucket}/k").body == b"x"


@pytest.mark.parametrize("headers", [
    [("x-amz-server-side-encryption", "AES256")], [("x-amz-server-side-encryption", "aws:kms")],
    [("x-amz-server-side-encryption-customer-algorithm", "AES256")],
    [("x-amz-object-lock-mode", "COMPLIANCE")], [("x-amz-object-lock-legal-hold", "ON")],
    [("x-amz-website-redirect-location", "/x")], [("x-amz-tagging", "a=b")],
    [("x-amz-acl", "public-read")], [("x-amz-grant-read", "id=x")],
    [("x-amz-write-offset-bytes", "0")]])
def test_a_header_that_cannot_be_honoured_is_not_dropped_silently(s3, bucket, headers):
    reply = s3("PUT", f"/{bucket}/k", b"x", headers)
    assert answer(reply) == (501, "NotImplemented"), reply
    assert s3("GET", f"/{bucket}/k").status == 404


def test_a_private_acl_is_what_there_is(s3, bucket):
    assert s3("PUT", f"/{bucket}/k", b"x", [("x-amz-acl", "private")]).status == 200


def test_a_version_id_that_is_not_there(s3, bucket):
    s3("PUT", f"/{bucket}/k", b"x")
    assert s3("GET", f"/{bucket}/k?versionId=null").status == 200
    reply = s3("GET", f"/{bucket}/k?versionId=abc")
    assert reply.status in (400, 404, 501) and reply.code, reply
    reply = s3("DELETE", f"/{bucket}/k?versionId=abc")
    assert reply.status in (204, 400, 404, 501)
    assert s3("GET", f"/{bucket}/k").body == b"x"


def test_methods_on_the_root(s3):
    assert s3("GET", "/").xml.tag == "ListAllMyBucketsResult"
    for method in ("PUT", "DELETE", "POST"):
        reply = s3(method, "/")
        assert reply.status in (400, 405, 501) and reply.code, reply


def test_health_and_metrics_need_no_credentials(server):
    for page in ("/minio/health/live", "/minio/health/ready"):
        assert server.get(page).status == 200
    for page in ("/minio/metrics", "/minio/metrics/v3/api/rdma"):
        reply = server.get(page)
        assert reply.status == 200 and reply["content-type"].startswith("text/plain")
    assert server.get("/minio/nothing").status in (403, 404)


def test_each_request_has_one_line_in_the_log(server, s3, bucket):
    s3("PUT", f"/{bucket}/logged", b"abc")
    reply = s3("GET", f"/{bucket}/logged")
    assert eventually(lambda: reply["x-amz-request-id"] in server.log())
    lines = [x for x in server.log().splitlines() if reply["x-amz-request-id"] in x]
    assert len(lines) == 1, lines
    assert "logged" in lines[0] and "=200" in lines[0]
    pairs = [w for w in lines[0].split() if "=" in w]
    assert len(pairs) >= 5


def test_the_log_escapes_what_comes_from_outside(server, s3, bucket):
    s3("GET", path(bucket, "evil\nid=fake level=error"))
    s3("GET", f"/{bucket}/k", headers=[("User-Agent", "x\x1b[31mred")])
    log = server.log()
    assert "\x1b" not in log
    assert not any(line.startswith("id=fake") for line in log.splitlines())


def test_the_log_holds_no_secret(server, s3, bucket):
    url = s3.presign("GET", f"/{bucket}/k")
    signature = url.rpartition("=")[2]
    s3("GET", url, anonymous=True)
    log = server.log()
    assert signature not in log and server.environment["S3RDMA_ROOT_PASSWORD"] not in log
    assert json.dumps(server.environment["S3RDMA_ROOT_PASSWORD"]).strip('"') not in log
