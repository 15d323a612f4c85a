# SPDX-License-Identifier: Apache-2.0
"""Names are bytes, nothing more; deleting takes exactly what was named."""
from xml.sax.saxutils import escape

import pytest

from s3raw import STREAM_SIGNED, path, quote

ODD = ["a//b", "/lead", "//", "a/./b", "../x", "a/../b", ".", "..", "./", "trail/", "trail//", "a/b/",
       "a/b", "a", "-", "CON", "a" * 255 + "/" + "b" * 255, "x" * 1024, "y/" * 500, "A", "\u00e9",
       "e\u0301", "a\x01b", "space ", " space", ".minio.sys/x", "a%2Fb"]


def answer(reply):
    return reply.status, reply.code


def encode(key):
    """Every dot too: nobody on the way may take the path for one with steps in it."""
    return path("{b}", key).replace("{b}", "B").replace(".", "%2E")[2:]


def test_odd_names_are_distinct_objects(s3, bucket):
    for key in ODD:
        reply = s3("PUT", f"/{bucket}{encode(key)}", key.encode())
        assert reply.status == 200, (key, reply)
    for key in ODD:
        assert s3("GET", f"/{bucket}{encode(key)}").body == key.encode(), key
    listed = s3("GET", f"/{bucket}?list-type=2&encoding-type=url").texts("Key")
    assert len(listed) == len(ODD)
    for i, key in enumerate(ODD):
        assert s3("DELETE", f"/{bucket}{encode(key)}").status == 204
        assert s3("GET", f"/{bucket}{encode(key)}").status == 404
        for other in ODD[i + 1:i + 4]:
            assert s3("GET", f"/{bucket}{encode(other)}").body == other.encode()


@pytest.mark.parametrize("raw", ["a/./b", "a/../b", "../up", "./here", "a//b", "/lead"])
def test_steps_in_a_raw_path_are_part_of_the_name(s3, bucket, raw):
    reply = s3("PUT", f"/{bucket}/{raw}", b"raw")
    if reply.status == 200:
        assert s3("GET", f"/{bucket}{encode(raw)}").body == b"raw"
        assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == [raw]
    else:
        assert reply.status == 400 and reply.code, reply


@pytest.mark.parametrize("order", [("a", "a/b"), ("a/b", "a"), ("a/b", "a/"), ("a/", "a/b")])
def test_a_name_and_its_prefix_live_side_by_side(s3, bucket, order):
    for key in order:
        assert s3("PUT", f"/{bucket}/{key}", key.encode()).status == 200
    assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == sorted(order)
    for key in order:
        assert s3("GET", f"/{bucket}/{key}").body == key.encode()
    s3("DELETE", f"/{bucket}/{order[0]}")
    assert s3("GET", f"/{bucket}/{order[0]}").status == 404
    assert s3("GET", f"/{bucket}/{order[1]}").body == order[1].encode()


def test_a_key_has_at_most_1024_bytes(s3, bucket):
    assert answer(s3("PUT", f"/{bucket}/{'k' * 1025}")) == (400, "KeyTooLongError")
    assert answer(s3("PUT", path(bucket, "\u00e9" * 513))) == (400, "KeyTooLongError")
    assert s3("PUT", path(bucket, "\u00e9" * 512)).status == 200


def test_deleting_what_is_not_there_succeeds(s3, bucket):
    reply = s3("DELETE", f"/{bucket}/none")
    assert reply.status == 204 and reply.body == b""
    assert answer(s3("DELETE", "/no-such-bucket-e2e/none")) == (404, "NoSuchBucket")


def delete_xml(keys, quiet=None):
    body = "".join(f"<Object><Key>{escape(k)}</Key></Object>" for k in keys)
    if quiet is not None:
        body += f"<Quiet>{quiet}</Quiet>"
    return ('<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="http://s3.amazonaws.com/doc/'
            f'2006-03-01/">{body}</Delete>').encode()


def test_batch_delete_of_names_that_xml_must_escape(s3, bucket):
    keys = ["a&b", "a<b", "a>b", "a'b", 'a"b', "a]]>b", "\u00e9"]
    for key in keys + ["stays"]:
        s3("PUT", path(bucket, key))
    reply = s3("POST", f"/{bucket}?delete", delete_xml(keys + ["missing"]))
    assert reply.status == 200 and reply.xml.tag == "DeleteResult"
    assert reply.texts("Key") == keys + ["missing"] and not reply.texts("Error")
    assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == ["stays"]


@pytest.mark.parametrize("encoded,key", [("a&#13;b", "a\rb"), ("a&#10;b", "a\nb"),
                                         ("a&#xD;&#xA;b", "a\r\nb")])
def test_batch_delete_of_names_with_line_ends(s3, bucket, encoded, key):
    s3("PUT", path(bucket, key))
    xml = f"<Delete><Object><Key>{encoded}</Key></Object></Delete>".encode()
    assert s3("POST", f"/{bucket}?delete", xml).status == 200
    assert s3("GET", path(bucket, key)).status == 404


def test_quiet_says_nothing(s3, bucket):
    s3("PUT", f"/{bucket}/a")
    reply = s3("POST", f"/{bucket}?delete", delete_xml(["a", "none"], "true"))
    assert reply.status == 200 and list(reply.xml) == []
    reply = s3("POST", f"/{bucket}?delete", delete_xml(["a"], "false"))
    assert reply.texts("Key") == ["a"]


def test_batch_limits(s3, bucket):
    keys = [f"k{i}" for i in range(1000)]
    assert len(s3("POST", f"/{bucket}?delete", delete_xml(keys)).texts("Key")) == 1000
    s3("PUT", f"/{bucket}/k1")
    for xml in (delete_xml(keys + ["one more"]), delete_xml([]), b"", b"<Delete>", b"{}",
                b"<Other><Object><Key>k1</Key></Object></Other>",
                b"<Delete><Object></Object></Delete>",
                b"<Delete><Object><Key></Key></Object></Delete>"):
        reply = s3("POST", f"/{bucket}?delete", xml)
        assert reply.status == 400 and reply.code in ("MalformedXML", "MissingRequestBodyError",
                                                      "UserKeyMustBeSpecified"), (xml[:60], reply)
    assert s3("GET", f"/{bucket}/k1").status == 200


def test_hostile_xml_is_neither_expanded_nor_followed(s3, bucket, tmp_path):
    s3("PUT", f"/{bucket}/k")
    (tmp_path / "secret").write_text("k")
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    for doctype, name in ((f'<!DOCTYPE Delete [<!ENTITY l0 "k">{laughs}]>', "&l11;"),
                          (f'<!DOCTYPE Delete [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>', "&x;"),
                          ('<!DOCTYPE Delete [<!ENTITY x "k">]>', "&x;")):
        reply = s3("POST", f"/{bucket}?delete",
                   f"{doctype}<Delete><Object><Key>{name}</Key></Object></Delete>".encode())
        assert answer(reply) == (400, "MalformedXML"), reply
    assert s3("GET", f"/{bucket}/k").status == 200
    deep = b"<Delete>" + b"<a>" * 5000 + b"</a>" * 5000 + b"</Delete>"
    assert answer(s3("POST", f"/{bucket}?delete", deep)) == (400, "MalformedXML")


def test_xml_over_its_limit_is_refused(s3, bucket):
    xml = b"<Delete><!--" + b"x" * (3 << 20) + b"--><Object><Key>k</Key></Object></Delete>"
    s3("PUT", f"/{bucket}/k")
    with s3.connect() as conn:
        try:
            reply = s3("POST", f"/{bucket}?delete", xml, conn=conn)
            assert reply.status == 400 and reply.code in ("MalformedXML", "EntityTooLarge",
                                                          "MaxMessageLengthExceeded"), reply
        except (BrokenPipeError, EOFError):
            pass
    assert s3("GET", f"/{bucket}/k").status == 200


def test_the_steps_of_a_hadoop_committer(s3, bucket):
    marker, work = f"/{bucket}/t/_temporary/0/", f"/{bucket}/t/_temporary/0/part-0"
    assert s3.stream(marker, [], STREAM_SIGNED).status == 200
    assert s3("HEAD", marker)["content-length"] == "0"
    listed = s3("GET", f"/{bucket}?list-type=2&prefix=t/_temporary/0/&delimiter=/&max-keys=2")
    assert listed.texts("Key") == ["t/_temporary/0/"]
    assert s3.stream(work, [b"row\n" * 1000], STREAM_SIGNED).status == 200
    assert s3("PUT", f"/{bucket}/t/part-0",
              headers=[("x-amz-copy-source", f"/{bucket}/t/_temporary/0/part-0")]).status == 200
    gone = s3("POST", f"/{bucket}?delete", delete_xml(["t/_temporary/0/part-0"], "true"))
    assert gone.status == 200
    assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == ["t/_temporary/0/", "t/part-0"]
    s3("POST", f"/{bucket}?delete", delete_xml(["t/_temporary/0/"], "true"))
    assert s3("GET", f"/{bucket}?list-type=2").texts("Key") == ["t/part-0"]


@pytest.mark.parametrize("name", ["ab", "A-b", "a_b", "-ab", "ab-", "a..b", "192.168.1.1", "x" * 64,
                                  "minio", "a.-b", "xn--abc", "abc-s3alias", "\u00e9abc", "a b"])
def test_bucket_names_have_rules(s3, name):
    reply = s3("PUT", "/" + quote(name))
    assert reply.status in (400, 403, 409) and reply.code in (
        "InvalidBucketName", "AccessDenied", "BucketAlreadyExists", "AllAccessDisabled"), reply


@pytest.mark.parametrize("name", ["abc", "a.b-c.d", "0ab", "x" * 63])
def test_good_bucket_names_work(s3, name):
    assert s3("PUT", f"/{name}").status == 200
    assert s3("PUT", f"/{name}/k", b"x").status == 200
    assert answer(s3("PUT", f"/{name}")) == (409, "BucketAlreadyOwnedByYou")
    assert s3("DELETE", f"/{name}/k").status == 204
    assert s3("DELETE", f"/{name}").status == 204
