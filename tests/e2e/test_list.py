# SPDX-License-Identifier: Apache-2.0
"""Listings: byte order, prefixes, delimiters, pages, and names that XML cannot hold."""
import threading
import urllib.parse

import pytest

from daemon import scaled
from s3raw import path, quote


def put(s3, bucket, keys):
    with s3.connect() as conn:
        for key in keys:
            reply = s3("PUT", path(bucket, key), conn=conn)
            assert reply.status == 200, (key, reply)


def answer(reply):
    return reply.status, reply.code


def by_bytes(keys):
    return sorted(keys, key=lambda k: k.encode() if isinstance(k, str) else k)


def rows(reply):
    """Keys and common prefixes in the order of names, as one list."""
    assert reply.status == 200, reply
    prefixes = [e.findtext("Prefix") for e in reply.xml.iter("CommonPrefixes")]
    return by_bytes([e.findtext("Key") for e in reply.xml.iter("Contents")] + prefixes)


def pages(s3, bucket, query, version=2):
    """All pages, each a list of rows; checks what ties pages together."""
    out, after = [], ""
    while True:
        reply = s3("GET", f"/{bucket}?{'list-type=2&' if version == 2 else ''}{query}{after}")
        assert reply.status == 200, reply
        out.append(rows(reply))
        if version == 2:
            assert int(reply.text("KeyCount")) == len(out[-1])
            token = reply.text("NextContinuationToken")
            assert (reply.text("IsTruncated") == "true") == (token is not None)
            after = f"&continuation-token={quote(token or '')}"
        else:
            token = reply.text("NextMarker")
            if reply.text("IsTruncated") == "true" and token is None:
                assert "delimiter" not in query
                token = out[-1][-1]
            after = f"&marker={quote(token or '')}"
        if reply.text("IsTruncated") == "false":
            return out
        assert out[-1], "a truncated page without a row"
        assert len(out) < 10000


@pytest.fixture
def full(s3, bucket):
    put(s3, bucket, ["a", "a-b", "a/b", "a/c", "a0", "b/x/y", "b/z", "p--q", "p--r", "p-s",
                     "\u00e9\u00e9x", "\u00e9\u00e9y", "z"])
    return bucket


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_keys_come_in_byte_order_each_once(s3, full, version, size):
    got = [r for page in pages(s3, full, f"max-keys={size}", version) for r in page]
    assert got == by_bytes(["a", "a-b", "a/b", "a/c", "a0", "b/x/y", "b/z", "p--q", "p--r", "p-s",
                            "\u00e9\u00e9x", "\u00e9\u00e9y", "z"])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("delimiter,wanted", [
    ("/", ["a", "a-b", "a/", "a0", "b/", "p--q", "p--r", "p-s", "z", "\u00e9\u00e9x", "\u00e9\u00e9y"]),
    ("-", ["a", "a-", "a/b", "a/c", "a0", "b/x/y", "b/z", "p-", "z", "\u00e9\u00e9x", "\u00e9\u00e9y"]),
    ("--", ["a", "a-b", "a/b", "a/c", "a0", "b/x/y", "b/z", "p--", "p-s", "z", "\u00e9\u00e9x",
            "\u00e9\u00e9y"]),
    ("\u00e9", ["a", "a-b", "a/b", "a/c", "a0", "b/x/y", "b/z", "p--q", "p--r", "p-s", "z", "\u00e9"]),
    ("b/", ["a", "a-b", "a/b", "a/c", "a0", "b/", "p--q", "p--r", "p-s", "z", "\u00e9\u00e9x",
            "\u00e9\u00e9y"])])
def test_any_delimiter_rolls_up_and_pages(s3, full, version, size, delimiter, wanted):
    got = pages(s3, full, f"max-keys={size}&delimiter={quote(delimiter)}", version)
    assert [r for page in got for r in page] == wanted
    assert all(len(page) <= size for page in got)


@pytest.mark.parametrize("query,wanted", [
    ("prefix=a", ["a", "a-b", "a/b", "a/c", "a0"]), ("prefix=a/", ["a/b", "a/c"]),
    ("prefix=a/&delimiter=/", ["a/b", "a/c"]), ("prefix=b/&delimiter=/", ["b/x/", "b/z"]),
    ("prefix=nope/x/y", []), ("prefix=z/", []), ("prefix=a/b/", []),
    ("prefix=%C3%A9", ["\u00e9\u00e9x", "\u00e9\u00e9y"]),
    ("start-after=a/b", ["a/c", "a0", "b/x/y", "b/z", "p--q", "p--r", "p-s", "z", "\u00e9\u00e9x",
                         "\u00e9\u00e9y"]),
    ("prefix=p&start-after=p--q", ["p--r", "p-s"]), ("prefix=p&start-after=a", ["p--q", "p--r", "p-s"]),
    ("prefix=a&start-after=z", []),
    ("delimiter=/&start-after=a/", ["a/", "a0", "b/", "p--q", "p--r", "p-s", "z", "\u00e9\u00e9x",
                                    "\u00e9\u00e9y"]),
    ("delimiter=/&start-after=b/z", ["p--q", "p--r", "p-s", "z", "\u00e9\u00e9x", "\u00e9\u00e9y"])])
def test_prefix_and_start_after(s3, full, query, wanted):
    got = rows(s3("GET", f"/{full}?list-type=2&{query}"))
    if query == "delimiter=/&start-after=a/":
        # Whether the prefix that is named itself comes again is not told anywhere.
        got, wanted = [r for r in got if r != "a/"], [r for r in wanted if r != "a/"]
    assert got == wanted


def test_a_marker_that_is_a_common_prefix_goes_on_behind_it(s3, full):
    reply = s3("GET", f"/{full}?delimiter=/&marker=a/&max-keys=2")
    assert rows(reply) == ["a0", "b/"]
    assert reply.text("NextMarker") == "b/"


def test_the_document_says_what_was_asked(s3, full):
    reply = s3("GET", f"/{full}?list-type=2&prefix=p&delimiter=-&max-keys=7&start-after=a"
               "&fetch-owner=true")
    assert reply.xml.tag == "ListBucketResult" and reply["content-type"] == "application/xml"
    assert reply.text("Name") == full and reply.xml.findtext("Prefix") == "p"
    assert reply.text("Delimiter") == "-" and reply.text("MaxKeys") == "7"
    assert reply.text("StartAfter") == "a" and reply.text("KeyCount") == "1"
    assert rows(reply) == ["p-"]
    row = next(s3("GET", f"/{full}?list-type=2&fetch-owner=true").xml.iter("Contents"))
    assert row.findtext("Owner/ID") and row.findtext("StorageClass") == "STANDARD"
    assert row.findtext("Size") == "0" and row.findtext("LastModified").endswith("Z")
    assert row.findtext("ETag") == '"d41d8cd98f00b204e9800998ecf8427e"'
    assert next(s3("GET", f"/{full}?list-type=2").xml.iter("Contents")).find("Owner") is None


ODD = [b"\x01", b"\x1f", "\ufffe".encode(), b"\xff\xfe", b"a\nb", b"a\rb", b"&<>\"'", b" lead", b"tail ",
       b"%41", b"\x7f", b"\xf0\x9f\x98\x80"]


def test_names_that_xml_cannot_hold_never_break_it(s3, bucket):
    kept = []
    for key in ODD:
        reply = s3("PUT", path(bucket, key), key)
        if reply.status == 200:
            kept.append(key)
            assert s3("GET", path(bucket, key)).body == key
        else:
            assert reply.status == 400 and reply.code, reply
    assert b"&<>\"'" in kept and b"a\nb" in kept
    plain = s3("GET", f"/{bucket}?list-type=2")
    assert len(plain.texts("Key")) == len(kept)
    for query in ("list-type=2&encoding-type=url", "encoding-type=url"):
        reply = s3("GET", f"/{bucket}?{query}")
        assert reply.text("EncodingType") == "url"
        got = [urllib.parse.unquote_to_bytes(k) for k in reply.texts("Key")]
        assert got == sorted(kept)


def test_url_encoding_covers_every_name_in_the_document(s3, bucket):
    put(s3, bucket, ["a b/c d", "a b/e", "\u00fc&/x"])
    reply = s3("GET", f"/{bucket}?list-type=2&encoding-type=url&delimiter=/&prefix=a%20&"
               "start-after=a%20a")
    assert reply.xml.findtext("Prefix") in ("a%20", "a+")
    assert reply.text("StartAfter") in ("a%20a", "a+a")
    assert reply.xml.find("CommonPrefixes").findtext("Prefix") in ("a%20b/", "a+b/", "a%20b%2F",
                                                                     "a+b%2F")
    assert answer(s3("GET", f"/{bucket}?encoding-type=base64")) == (400, "InvalidArgument")


@pytest.mark.parametrize("query", ["max-keys=-1", "max-keys=abc", "max-keys=1.5",
                                   "list-type=2&max-keys=-1", "list-type=2&max-keys=abc",
                                   "list-type=2&continuation-token=nonsense!",
                                   "list-type=2&continuation-token=", "list-type=3",
                                   "list-type=2&continuation-token=" + "A" * 3000])
def test_parameters_are_checked(s3, full, query):
    assert answer(s3("GET", f"/{full}?{query}")) == (400, "InvalidArgument")


def test_large_and_zero_page_sizes(s3, full):
    for query in ("max-keys=1099511627776", "max-keys=99999999999999999999"):
        reply = s3("GET", f"/{full}?list-type=2&{query}")
        if reply.status == 400:
            assert reply.code == "InvalidArgument" and len(query) > 25
        else:
            assert reply.text("MaxKeys") == "1000" and reply.text("KeyCount") == "13"
    reply = s3("GET", f"/{full}?list-type=2&max-keys=0")
    assert rows(reply) == [] and reply.text("IsTruncated") == "false"


def test_a_thousand_keys_make_a_page(s3, bucket):
    keys = [f"{i:05}" for i in range(scaled(2500) * 4 + 1)]
    put(s3, bucket, keys)
    got = pages(s3, bucket, "")
    assert [r for page in got for r in page] == keys
    assert len(got[0]) == 1000


def test_untouched_keys_are_listed_while_others_go(s3, bucket):
    count = max(300, scaled(10000))
    keys = [f"{i:05}" for i in range(count)]
    put(s3, bucket, keys)
    seen, token, threads = [], "", []

    def delete(names):
        with s3.connect() as conn:
            for name in names:
                s3("DELETE", f"/{bucket}/{name}", conn=conn)

    while True:
        reply = s3("GET", f"/{bucket}?list-type=2&max-keys=50{token}")
        page = reply.texts("Key")
        seen += page
        threads.append(threading.Thread(target=delete, args=(page[::2],)))
        threads[-1].start()
        if reply.text("IsTruncated") == "false":
            break
        token = f"&continuation-token={quote(reply.text('NextContinuationToken'))}"
    for thread in threads:
        thread.join()
    assert seen == keys
