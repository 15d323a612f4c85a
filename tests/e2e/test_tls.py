# SPDX-License-Identifier: Apache-2.0
"""HTTPS: the control path is encrypted, the bytes go by RDMA all the same."""
import os
import subprocess

import boto3
import pytest
from botocore.client import Config
from botocore.exceptions import SSLError

from daemon import BUILD, SECRET, USER, plain_environment

TOOL = os.path.join(BUILD, "s3rdma")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def tls_server(module_servers, certificate):
    cert, key = certificate
    return module_servers.start("cma", options=["--tls-cert", cert, "--tls-key", key])


def tool(server, *words):
    env = plain_environment() | {
        "AWS_ENDPOINT_URL": f"https://127.0.0.1:{server.address[1]}", "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": SECRET, "S3RDMA_DEVICE": "cma", "HOME": "/nonexistent"}
    return subprocess.run([TOOL, *words], env=env, capture_output=True, timeout=120)


def test_objects_go_by_rdma_under_https(tls_server, certificate, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(os.urandom(3 << 20))
    ca = ("--ca", certificate[0])
    assert tool(tls_server, "mb", "under-tls", *ca).returncode == 0
    done = tool(tls_server, "put", str(source), "under-tls/k", "--require-rdma", *ca)
    assert done.returncode == 0 and b"by RDMA" in done.stdout, done
    done = tool(tls_server, "get", "under-tls/k", str(copy), "--require-rdma", *ca)
    assert done.returncode == 0, done
    assert copy.read_bytes() == source.read_bytes()


def test_a_certificate_that_nobody_vouches_for_is_refused(tls_server, tmp_path):
    done = tool(tls_server, "ls")
    assert done.returncode == 6 and b"certificate" in done.stderr.lower(), done


def test_boto3_over_https(tls_server, certificate):
    url = f"https://localhost:{tls_server.address[1]}"

    def client(verify):
        return boto3.client("s3", endpoint_url=url, aws_access_key_id=USER,
                            aws_secret_access_key=SECRET, region_name="us-east-1", verify=verify,
                            config=Config(retries={"max_attempts": 0}))
    s3 = client(certificate[0])
    s3.create_bucket(Bucket="boto-tls")
    body = os.urandom(2 << 20)
    s3.put_object(Bucket="boto-tls", Key="k", Body=body)
    assert s3.get_object(Bucket="boto-tls", Key="k")["Body"].read() == body
    with pytest.raises(SSLError):
        client(True).list_buckets()


def test_half_a_pair_or_a_file_that_is_no_certificate_is_named(certificate, tmp_path):
    cert, key = certificate
    junk = tmp_path / "junk"
    junk.write_text("not a certificate")
    for options, named in (((cert,), b"tls-key"), ((cert, "/none"), b"/none"),
                           ((str(junk), key), b"PEM")):
        words = [w for pair in zip(("--tls-cert", "--tls-key"), options) for w in pair]
        done = subprocess.run(
            [os.path.join(BUILD, "s3rdmad"), "--data", str(tmp_path / "data"), "--listen",
             "127.0.0.1:0", "--rdma-device", "off", *words], capture_output=True, timeout=60,
            env=plain_environment() | {"S3RDMA_ROOT_USER": USER, "S3RDMA_ROOT_PASSWORD": SECRET})
        assert done.returncode == 1 and named in done.stderr, done
