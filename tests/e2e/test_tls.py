# SPDX-License-Identifier: Apache-2.0
"""HTTPS: boto3 then signs no payload and sends its checksum in a trailer."""
import os
import shutil
import subprocess

import boto3
import pytest

from daemon import SECRET, USER

MIB = 1 << 20
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command here")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    where = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", where / "key.pem",
                    "-out", where / "cert.pem"], check=True, capture_output=True)
    return where


@pytest.fixture(scope="module")
def client(module_servers, certificate):
    server = module_servers.start(options=["--tls-cert", str(certificate / "cert.pem"),
                                           "--tls-key", str(certificate / "key.pem")])
    made = boto3.client("s3", endpoint_url=server.url.replace("http:", "https:"),
                        aws_access_key_id=USER, aws_secret_access_key=SECRET,
                        region_name="us-east-1", verify=str(certificate / "cert.pem"))
    made.create_bucket(Bucket="secured")
    made.sent = []
    made.meta.events.register("before-send.s3.PutObject",
                              lambda request, **_: made.sent.append(dict(request.headers)))
    return made


@pytest.mark.parametrize("size", [0, 1, 70000, MIB + 1])
def test_defaults_with_a_trailer(client, size):
    body = os.urandom(size)
    client.put_object(Bucket="secured", Key="k", Body=body)
    sent = {n.lower(): v for n, v in client.sent[-1].items()}
    assert sent["x-amz-content-sha256"] in (b"STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                                            "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    got = client.get_object(Bucket="secured", Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == body and got["ChecksumCRC32"] and "ContentEncoding" not in got


def test_a_file_of_20_mib(client, tmp_path):
    (tmp_path / "up").write_bytes(os.urandom(20 * MIB))
    client.upload_file(str(tmp_path / "up"), "secured", "big")
    client.download_file("secured", "big", str(tmp_path / "down"))
    assert (tmp_path / "down").read_bytes() == (tmp_path / "up").read_bytes()

