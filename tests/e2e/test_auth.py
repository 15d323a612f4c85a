# SPDX-License-Identifier: Apache-2.0
"""Who asks, and for what: signatures, times, addresses of objects."""
import time

import pytest

from s3raw import EMPTY_SHA256, STREAM_SIGNED, UNSIGNED, amz_date, md5, path

KEYS = ["a+b", "a b", "a%20b", "a%2Fb", "a=b", "\u00e9", "e\u0301", "\u65e5\u672c", "~*'()!",
        ":@&$,;?#", "a/b", "a//b", "a\"b\\c"]


def answer(reply):
    return reply.status, reply.code


def test_every_key_is_its_own_object_however_it_is_encoded(s3, bucket):
    for key in KEYS:
        assert s3("PUT", path(bucket, key), key.encode()).status == 200, key
    for key in KEYS:
        encoded = "".join(f"%{b:02x}" for b in key.encode())
        for target in (path(bucket, key), f"/{bucket}/{encoded}"):
            assert s3("GET", target).body == key.encode(), target
    listed = s3("GET", f"/{bucket}?list-type=2").texts("Key")
    assert listed == sorted(KEYS, key=lambda k: k.encode())
    for key in KEYS:
        assert s3("DELETE", path(bucket, key)).status == 204
    assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == []


def test_characters_that_need_no_encoding_may_come_raw(s3, bucket):
    for raw in ("a+b", "a=b", "~*'()!", ":@&$,;"):
        assert s3("PUT", f"/{bucket}/{raw}", raw.encode()).status == 200
        assert s3("GET", path(bucket, raw)).body == raw.encode()


@pytest.mark.parametrize("query", [
    "list-type=2&prefix=a%20b", "list-type=2&prefix=a+b", "list-type=2&prefix=",
    "prefix=a%20b&list-type=2", "list-type=2&prefix=a%20b&delimiter=%2f", "prefix&list-type=2",
    "list-type=2&&prefix=a%20b&", "uploads", "uploads=", "location", "location="])
def test_queries_verify_in_every_spelling(s3, bucket, query):
    reply = s3("GET", f"/{bucket}?{query}")
    assert reply.status == 200, reply


def test_a_plus_in_a_query_is_a_blank(s3, bucket):
    for key in ("a b", "a+b"):
        s3("PUT", path(bucket, key))
    assert s3("GET", f"/{bucket}?list-type=2&prefix=a+b").texts("Key") == ["a b"]
    assert s3("GET", f"/{bucket}?list-type=2&prefix=a%2Bb").texts("Key") == ["a+b"]


def test_repeated_and_unsorted_parameters_are_signed_by_name_then_value(s3, bucket):
    for query in ("b=2&b=1&a-b=1&a=1&list-type=2", "z=%7e&z=~&list-type=2&A=1&a=1"):
        reply = s3("GET", f"/{bucket}?{query}")
        assert reply.code != "SignatureDoesNotMatch", reply


def test_response_headers_can_be_overridden_by_who_signs(server, s3, bucket):
    target = f"/{bucket}/k"
    s3("PUT", target, b"x", [("Content-Type", "a/b")])
    query = ("response-content-type=text%2Fx-mine&response-cache-control=no-cache"
             "&response-content-disposition=attachment%3B%20filename%3D%22a%20b%22"
             "&response-content-language=de&response-content-encoding=x"
             "&response-expires=Thu%2C%2001%20Jan%202032%2000%3A00%3A00%20GMT")
    presigned = s3.presign("GET", f"{target}?{query}")
    for reply in (s3("GET", f"{target}?{query}"), server.get(presigned)):
        assert reply.status == 200, reply
        assert reply["content-type"] == "text/x-mine" and reply["cache-control"] == "no-cache"
        assert reply["content-disposition"] == 'attachment; filename="a b"'
        assert reply["content-language"] == "de" and reply["content-encoding"] == "x"
        assert reply["expires"] == "Thu, 01 Jan 2032 00:00:00 GMT"
    anonymous = s3("GET", f"{target}?{query}", anonymous=True)
    assert answer(anonymous) in ((400, "InvalidRequest"), (403, "AccessDenied")), anonymous
    injected = s3("GET", f"{target}?response-content-type=a%0d%0aSet-Cookie:%20x")
    assert "set-cookie" not in injected
    assert injected.status == 400 or "\n" not in (injected["content-type"] or "")


def ask(s3, target, method="GET", body=b"", headers=()):
    return s3(method, target, body, headers, anonymous=True)


NOW = time.time


@pytest.mark.parametrize("expires,begin,status,code", [
    (1, -3, 403, "AccessDenied"), (604800, 0, 200, None),
    (604801, 0, 400, "AuthorizationQueryParametersError"),
    (-1, 0, 400, "AuthorizationQueryParametersError"),
    (0, -1, (400, 403), None),
    ("abc", 0, 400, "AuthorizationQueryParametersError"),
    ("", 0, 400, "AuthorizationQueryParametersError"),
    ("99999999999999999999", 0, 400, "AuthorizationQueryParametersError"),
    (900, 20 * 60, 403, None), (2 * 86400, -86400, 200, None), (3600, -3601, 403, "AccessDenied"),
    (900, 60, 200, None)])
def test_presigned_times(s3, bucket, expires, begin, status, code):
    s3("PUT", f"/{bucket}/k", b"x")
    reply = ask(s3, s3.presign("GET", f"/{bucket}/k", expires, date=amz_date(NOW() + begin)))
    assert reply.status in (status if isinstance(status, tuple) else (status,)), reply
    if code:
        assert reply.code == code, reply


@pytest.mark.parametrize("change,to", [
    ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=AWS4-HMAC-SHA1"),
    ("X-Amz-Date=2", "X-Amz-Date=x"), ("&X-Amz-SignedHeaders=host", "&X-Amz-SignedHeaders=date"),
    ("&X-Amz-SignedHeaders=host", ""), ("%2Faws4_request", "%2Faws3_request"),
    ("X-Amz-Credential=", "X-Amz-Credential=%2F"), ("X-Amz-Signature=", "X-Amz-Signature=zz"),
    ("%2Fs3%2F", "%2Fec2%2F")])
def test_presigned_pieces_that_are_wrong_are_refused(s3, bucket, change, to):
    s3("PUT", f"/{bucket}/k", b"x")
    target = s3.presign("GET", f"/{bucket}/k")
    assert change in target
    reply = ask(s3, target.replace(change, to))
    assert reply.status in (400, 403) and reply.code, reply


def test_presigned_puts_store_and_are_bound_to_method_and_key(s3, bucket):
    target = s3.presign("PUT", f"/{bucket}/k")
    assert ask(s3, target, "PUT", b"abc").status == 200
    assert s3("GET", f"/{bucket}/k").body == b"abc"
    assert answer(ask(s3, target, "DELETE")) == (403, "SignatureDoesNotMatch")
    assert answer(ask(s3, target.replace("/k?", "/l?"), "PUT")) == (403, "SignatureDoesNotMatch")
    both = s3("GET", s3.presign("GET", f"/{bucket}/k"))
    assert both.status == 400, both


def test_a_skewed_clock_is_told_with_the_servers_time(s3, bucket):
    for offset in (20 * 60, -20 * 60, 365 * 86400):
        reply = s3("GET", f"/{bucket}", date=amz_date(NOW() + offset))
        assert answer(reply) == (403, "RequestTimeTooSkewed"), reply
        assert reply["date"] and reply.text("ServerTime")
    assert s3("GET", f"/{bucket}", date=amz_date(NOW() + 10 * 60)).status == 200


def test_hop_headers_may_be_signed_and_content_type_unsigned(s3, bucket):
    for name, value in (("Expect", "100-continue"), ("Connection", "keep-alive"),
                        ("User-Agent", "a  b   c"), ("Accept", "*/*")):
        reply = s3("PUT", f"/{bucket}/k", b"abc", [(name, value)], also_signed=[name.lower()])
        assert reply.status == 200, (name, reply)
    assert s3("PUT", f"/{bucket}/k", b"abc", [("Content-Type", "a/b")]).status == 200


def test_blanks_and_repeats_in_signed_headers(s3, bucket):
    headers = [("x-amz-meta-a", "  one   two  "), ("x-amz-meta-b", "1"), ("x-amz-meta-b", "2")]
    assert s3("PUT", f"/{bucket}/k", b"", headers).status == 200
    head = s3("HEAD", f"/{bucket}/k")
    assert head["x-amz-meta-a"].split() == ["one", "two"]
    assert head["x-amz-meta-b"].replace(" ", "") == "1,2"


def test_metadata_beyond_ascii_comes_back(s3, bucket):
    raw = "gr\u00fcn".encode()
    assert s3("PUT", f"/{bucket}/k", b"", [("x-amz-meta-a", raw)]).status == 200
    got = s3("HEAD", f"/{bucket}/k")["x-amz-meta-a"]
    assert got.encode("latin-1") == raw or got.lower().startswith("=?utf-8?"), got
    word = "=?UTF-8?B?Z3LDvG4=?="
    assert s3("PUT", f"/{bucket}/k", b"", [("x-amz-meta-a", word)]).status == 200
    assert s3("HEAD", f"/{bucket}/k")["x-amz-meta-a"] == word


def test_the_date_may_be_in_date(s3, bucket):
    moment = NOW()
    text = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(moment))
    reply = s3("GET", f"/{bucket}", headers=[("Date", text)], date=amz_date(moment),
               also_signed=["date"])
    assert reply.status == 200, reply


def test_no_date_at_all_is_refused(s3, bucket):
    head = s3.head("GET", f"/{bucket}")
    lines = [x for x in head.split(b"\r\n") if not x.startswith(b"x-amz-date")]
    with s3.connect() as conn:
        conn.send(b"\r\n".join(lines))
        reply = conn.read_reply()
    assert reply.status in (400, 403) and reply.code in (
        "AccessDenied", "AuthorizationHeaderMalformed", "SignatureDoesNotMatch"), reply


@pytest.mark.parametrize("value", [
    "AWS user:c2lnbmF0dXJl", "Basic dXNlcjpwYXNz", "Bearer x", "AWS4-HMAC-SHA256",
    "AWS4-HMAC-SHA256 Credential=a", "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders=host, "
    "Signature=0", "AWS4-HMAC-SHA256 " + "," * 1000, "", "AWS4-ECDSA-P256-SHA256 Credential=a/20200101"
    "/s3/aws4_request, SignedHeaders=host, Signature=00"])
def test_other_authorizations_are_refused_with_a_code(s3, bucket, value):
    reply = s3("GET", f"/{bucket}", anonymous=True, headers=[("Authorization", value)])
    assert reply.status in (400, 403, 501) and reply.code, reply


def test_one_bit_of_the_signature_decides(s3, bucket):
    head = s3.head("GET", f"/{bucket}")
    at = head.rindex(b"\r\n\r\n") - 1
    flipped = head[:at] + (b"0" if head[at:at + 1] != b"0" else b"1") + head[at + 1:]
    with s3.connect() as conn:
        conn.send(flipped)
        assert answer(conn.read_reply()) == (403, "SignatureDoesNotMatch")
    with s3.connect() as conn:
        conn.send(head)
        assert conn.read_reply().status == 200


def test_an_unsigned_amz_header_is_refused(s3, bucket):
    reply = s3("PUT", f"/{bucket}/k", b"", [("x-amz-meta-a", "1")], unsigned=["x-amz-meta-a"])
    assert reply.status == 403, reply
    assert s3("GET", f"/{bucket}/k").status == 404


def test_host_must_be_signed(s3, bucket):
    reply = s3("GET", f"/{bucket}", signed=["x-amz-content-sha256", "x-amz-date"])
    assert reply.status in (400, 403), reply


@pytest.mark.parametrize("value", ["abc", "", "STREAMING-NONSENSE", "e3b0", EMPTY_SHA256 + "00",
                                   "UNSIGNED-PAYLOAD-TRAILER", "zz" * 32])
def test_an_odd_payload_hash_is_refused(s3, bucket, value):
    reply = s3("PUT", f"/{bucket}/k", b"abc", sha256=value or " ")
    assert reply.status in (400, 403) and reply.code, reply
    assert s3("GET", f"/{bucket}/k").status == 404


def test_the_payload_hash_is_checked(s3, bucket):
    reply = s3("PUT", f"/{bucket}/k", b"abc", sha256=EMPTY_SHA256)
    assert answer(reply) == (400, "XAmzContentSHA256Mismatch"), reply
    assert s3("GET", f"/{bucket}/k").status == 404
    assert s3("PUT", f"/{bucket}/k", b"abc", sha256=UNSIGNED).etag == md5(b"abc")


def test_a_streaming_hash_needs_a_decoded_length(s3, bucket):
    reply = s3("PUT", f"/{bucket}/k", b"0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n",
               sha256=STREAM_SIGNED)
    assert reply.status in (400, 411) and reply.code, reply
    assert s3("GET", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("target", ["/{b}%2Fk", "/{b}%2fk", "/{b}/%2e%2e/{b}/k", "//{b}/k",
                                    "/{b}/../{b}/k", "/./{b}/k", "/%2e%2e/%2e%2e/etc/passwd",
                                    "/{b}/../../../../etc/passwd", "/..%2f..%2fetc%2fpasswd"])
def test_a_path_is_split_before_it_is_decoded_and_never_walked(s3, bucket, target):
    s3("PUT", f"/{bucket}/k", b"secret")
    for method in ("GET", "HEAD", "DELETE", "PUT"):
        reply = s3(method, target.format(b=bucket))
        if method in ("GET", "HEAD"):
            assert reply.status in (400, 404), reply
        assert b"root:" not in reply.body
        assert s3("GET", f"/{bucket}/k").body == b"secret", (method, target)


def test_a_slash_behind_a_bucket_is_no_key(s3):
    with_slash = "/bucket-and-slash/"
    assert s3("PUT", with_slash).status == 200 and s3("HEAD", with_slash).status == 200
    assert s3("PUT", with_slash + "/", b"x").status == 200  # one more is a key of one slash
    assert s3("GET", f"{with_slash}?list-type=2").texts("Key") == ["/"]
    assert s3("POST", f"{with_slash}?delete",
              b"<Delete><Object><Key>/</Key></Object></Delete>").texts("Key") == ["/"]
    assert s3("DELETE", with_slash).status == 204


@pytest.mark.parametrize("target", ["/{b}/%", "/{b}/%zz", "/{b}/%0", "/{b}/a%00b", "/{b}?prefix=%",
                                    "/{b}?prefix=%zz", "/{b}?list-type=2&prefix=%00"])
def test_broken_escapes_are_refused(s3, bucket, target):
    reply = s3("GET", target.format(b=bucket))
    assert reply.status in (400, 403) and reply.code, reply


def test_regions(server, s3, bucket):
    reply = s3("GET", f"/{bucket}?location")
    assert reply.xml.tag == "LocationConstraint" and not reply.xml.text
    assert s3("HEAD", f"/{bucket}")["x-amz-bucket-region"] == "us-east-1"
    wrong = server.s3(region="eu-west-1")("GET", f"/{bucket}")
    assert answer(wrong) == (400, "AuthorizationHeaderMalformed"), wrong
    assert wrong.text("Region") == "us-east-1"


def test_another_region_is_named_in_its_location(servers):
    server = servers.start(options=["--region", "eu-west-1"])
    s3 = server.s3(region="eu-west-1")
    body = (b'<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            b"<LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>")
    assert s3("PUT", "/placed", body).status == 200
    assert s3("GET", "/placed?location").xml.text == "eu-west-1"
    assert s3("HEAD", "/placed")["x-amz-bucket-region"] == "eu-west-1"
    other = s3("PUT", "/elsewhere", body.replace(b"eu-west-1", b"ap-south-1"))
    assert other.status == 400 and other.code, other
    assert server.s3()("GET", "/placed").text("Region") == "eu-west-1"


def test_anonymous_requests_are_refused(s3, bucket):
    s3("PUT", f"/{bucket}/k", b"x")
    for method, target in (("GET", "/"), ("GET", f"/{bucket}"), ("GET", f"/{bucket}/k"),
                           ("PUT", f"/{bucket}/k"), ("DELETE", f"/{bucket}/k"),
                           ("POST", f"/{bucket}?delete")):
        assert answer(s3(method, target, anonymous=True)) == (403, "AccessDenied"), (method, target)
    assert s3("GET", f"/{bucket}/k").body == b"x"


@pytest.fixture(scope="module")
def by_host(module_servers):
    server = module_servers.start(options=["--domain", "s3.local"])
    assert server.s3()("PUT", "/by-host").status == 200
    assert server.s3()("PUT", "/by.host").status == 200
    return server


@pytest.mark.parametrize("host,bucket", [("by-host.s3.local:9000", "by-host"),
                                         ("BY-HOST.S3.LOCAL", "by-host"),
                                         ("by.host.s3.local", "by.host")])
def test_a_bucket_may_be_in_the_host(by_host, host, bucket):
    s3 = by_host.s3()
    target = "/k%20%2B/x"
    assert s3("PUT", target, b"abc", host=host).status == 200
    for reply in (s3("GET", target, host=host), s3("GET", f"/{bucket}{target}")):
        assert reply.status == 200 and reply.body == b"abc"
    assert s3("GET", "/?list-type=2&prefix=k", host=host).texts("Key") == ["k +/x"]
    assert s3("HEAD", "/", host=host).status == 200
    assert s3("DELETE", target, host=host).status == 204


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "[::1]:9000", "localhost", "other.host:9000",
                                  "s3.local", "S3.LOCAL:80"])
def test_other_hosts_mean_the_path(by_host, host):
    s3 = by_host.s3()
    assert s3("PUT", "/by-host/p", b"abc", host=host).status == 200
    assert s3("GET", "/by-host/p", host=host).body == b"abc"
    assert set(s3("GET", "/", host=host).texts("Name")) == {"by-host", "by.host"}


@pytest.mark.parametrize("host", ["", "a b", "x" * 3000, "\"", "..s3.local", "a/b.s3.local"])
def test_odd_hosts_are_refused_or_mean_the_path(by_host, host):
    reply = by_host.s3()("GET", "/by-host", host=host or " ")
    assert reply.status in (200, 400, 403, 404), reply
    assert by_host.s3()("GET", "/by-host").status == 200
