# SPDX-License-Identifier: Apache-2.0
"""The aws command. Each call starts a Python of its own, so a test does much with few calls."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import bucket_name
from daemon import SECRET, USER, plain_environment

MIB = 1 << 20
AWS = "/usr/bin/aws" if os.path.exists("/usr/bin/aws") else shutil.which("aws")
pytestmark = pytest.mark.skipif(AWS is None, reason="no aws command here")


@pytest.fixture
def aws(server, tmp_path):
    environment = {**plain_environment(), "AWS_ACCESS_KEY_ID": USER,
                   "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
                   "AWS_EC2_METADATA_DISABLED": "true", "AWS_PAGER": "",
                   "HOME": str(tmp_path), "AWS_MAX_ATTEMPTS": "1"}
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        environment.pop(name, None)

    def run(*words, fails=None):
        done = subprocess.run([AWS, "--endpoint-url", server.url, *words], cwd=tmp_path,
                              env=environment, capture_output=True, text=True, timeout=120)
        if fails is None:
            assert done.returncode == 0, done.stderr
        else:
            assert done.returncode != 0 and fails in done.stderr, (done.stdout, done.stderr)
        if words[0] == "s3api" and done.stdout.strip().startswith("{"):
            return json.loads(done.stdout)
        return done.stdout

    return run


def test_buckets_and_single_objects(aws, tmp_path):
    bucket = bucket_name()
    aws("s3", "mb", f"s3://{bucket}")
    (tmp_path / "f").write_bytes(b"hello")
    aws("s3api", "put-object", "--bucket", bucket, "--key", "k +%&", "--body", "f",
        "--metadata", "a=b", "--checksum-algorithm", "SHA256")
    head = aws("s3api", "head-object", "--bucket", bucket, "--key", "k +%&",
               "--checksum-mode", "ENABLED")
    assert head["Metadata"] == {"a": "b"} and head["ContentLength"] == 5
    assert head["ChecksumSHA256"] == "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="
    assert aws("s3", "cp", f"s3://{bucket}/k +%&", "-") == "hello"
    assert bucket in aws("s3", "ls")
    aws("s3", "rb", f"s3://{bucket}", fails="BucketNotEmpty")
    aws("s3", "rb", "--force", f"s3://{bucket}")
    aws("s3api", "head-bucket", "--bucket", bucket, fails="404")


@pytest.mark.slow
def test_large_files_go_in_parts_and_come_back(aws, tmp_path):
    bucket = bucket_name()
    aws("s3", "mb", f"s3://{bucket}")
    body = os.urandom(20 * MIB + 1)
    (tmp_path / "up").write_bytes(body)
    aws("s3", "cp", "--no-progress", "up", f"s3://{bucket}/big")
    aws("s3", "cp", "--no-progress", f"s3://{bucket}/big", "down")
    assert (tmp_path / "down").read_bytes() == body
    assert aws("s3api", "head-object", "--bucket", bucket, "--key", "big")["ETag"].endswith('-3"')


@pytest.mark.slow
def test_sync_moves_a_tree_both_ways(aws, tmp_path):
    bucket = bucket_name()
    aws("s3", "mb", f"s3://{bucket}")
    names = ["a", "d/b c", "d/e/\u00fc", "d/e/x+y%", "z&<>"]
    for name in names:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(os.urandom(3000))
    aws("s3", "sync", "tree", f"s3://{bucket}/p")
    assert aws("s3", "sync", "tree", f"s3://{bucket}/p") == ""
    aws("s3", "sync", f"s3://{bucket}/p", "back")
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "tree" / name).read_bytes()
    listed = aws("s3", "ls", "--recursive", f"s3://{bucket}/p/")
    assert len(listed.splitlines()) == len(names)
    aws("s3", "mv", f"s3://{bucket}/p/a", f"s3://{bucket}/moved")
    aws("s3", "rm", "--recursive", f"s3://{bucket}/p")
    rows = aws("s3api", "list-objects-v2", "--bucket", bucket)["Contents"]
    assert [r["Key"] for r in rows] == ["moved"]


@pytest.mark.slow
def test_multipart_and_batch_calls(aws, tmp_path):
    bucket = bucket_name()
    where = ("--bucket", bucket, "--key", "m")
    aws("s3api", "create-bucket", "--bucket", bucket)
    aws("s3api", "get-bucket-location", "--bucket", bucket)
    upload = aws("s3api", "create-multipart-upload", *where)["UploadId"]
    (tmp_path / "part").write_bytes(b"p" * (5 * MIB))
    etag = aws("s3api", "upload-part", *where, "--upload-id", upload, "--part-number", "1",
               "--body", "part")["ETag"]
    assert len(aws("s3api", "list-parts", *where, "--upload-id", upload)["Parts"]) == 1
    assert len(aws("s3api", "list-multipart-uploads", "--bucket", bucket)["Uploads"]) == 1
    parts = json.dumps({"Parts": [{"ETag": etag, "PartNumber": 1}]})
    done = aws("s3api", "complete-multipart-upload", *where, "--upload-id", upload,
               "--multipart-upload", parts)
    assert done["ETag"].endswith('-1"')
    aws("s3api", "copy-object", "--bucket", bucket, "--key", "c", "--copy-source", f"{bucket}/m")
    gone = aws("s3api", "delete-objects", "--bucket", bucket, "--delete",
               json.dumps({"Objects": [{"Key": "m"}, {"Key": "c"}]}))
    assert len(gone["Deleted"]) == 2
    upload = aws("s3api", "create-multipart-upload", *where)["UploadId"]
    aws("s3api", "abort-multipart-upload", *where, "--upload-id", upload)
    aws("s3api", "delete-bucket", "--bucket", bucket)


@pytest.mark.slow
@pytest.mark.parametrize("call,answer", [
    ("get-bucket-policy", "NoSuchBucketPolicy"),
    ("get-bucket-lifecycle-configuration", "NoSuchLifecycleConfiguration"),
    ("get-bucket-tagging", "NoSuchTagSet"), ("get-bucket-cors", "NoSuchCORSConfiguration"),
    ("get-bucket-encryption", "ServerSideEncryptionConfigurationNotFoundError"),
    ("get-object-lock-configuration", "ObjectLockConfigurationNotFoundError"),
    ("get-bucket-versioning", None), ("get-bucket-acl", None)])
def test_what_was_never_set_has_the_answer_of_the_field(aws, call, answer):
    bucket = bucket_name()
    aws("s3api", "create-bucket", "--bucket", bucket)
    aws("s3api", call, "--bucket", bucket, fails=answer)
