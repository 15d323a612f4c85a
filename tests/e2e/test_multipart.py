# SPDX-License-Identifier: Apache-2.0
"""Multipart uploads: what Complete accepts, what listings say, and races."""
import os
import threading

import hashlib
import pytest

from daemon import scaled
from s3raw import UNSIGNED, checksum, md5, path, quote

MIB = 1 << 20
FIVE = b"5" * (5 * MIB)


def answer(reply):
    return reply.status, reply.code


class Upload:
    def __init__(self, s3, target, headers=()):
        self.s3, self.target = s3, target
        reply = s3("POST", f"{target}?uploads", headers=headers)
        assert reply.status == 200 and reply.xml.tag == "InitiateMultipartUploadResult", reply
        self.id, self.etags, self.created = reply.text("UploadId"), {}, reply

    def part(self, number, body, **more):
        reply = self.s3("PUT", f"{self.target}?partNumber={number}&uploadId={self.id}", body,
                        **{"sha256": UNSIGNED, **more})
        if reply.status == 200:
            self.etags[number] = reply["etag"]
        return reply

    def complete(self, numbers=None, xml=None, headers=()):
        if xml is None:
            numbers = sorted(self.etags) if numbers is None else numbers
            xml = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{self.etags[n]}</ETag></Part>"
                          for n in numbers)
        body = f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode()
        return self.s3("POST", f"{self.target}?uploadId={self.id}", body, headers)

    def abort(self):
        return self.s3("DELETE", f"{self.target}?uploadId={self.id}")


@pytest.fixture
def target(bucket):
    return f"/{bucket}/m"


@pytest.fixture
def upload(s3, target):
    return Upload(s3, target)


def etag_of(pieces):
    digest = hashlib.md5(b"".join(hashlib.md5(p).digest() for p in pieces)).hexdigest()
    return f"{digest}-{len(pieces)}"


def test_etags_are_quoted_in_replies_and_in_any_form_in_complete(s3, upload, target):
    for number in (1, 2, 3):
        reply = upload.part(number, FIVE)
        assert reply["etag"] == f'"{md5(FIVE)}"'
    tag = md5(FIVE)
    forms = [f'"{tag}"', f"&quot;{tag}&quot;", tag]
    xml = "".join(f"<Part><ETag>{f}</ETag><PartNumber>{n}</PartNumber></Part>"
                  for n, f in enumerate(forms, 1))
    done = upload.complete(xml=xml)
    assert done.status == 200 and done.text("ETag").strip('"') == etag_of([FIVE] * 3), done
    assert done.xml.tag == "CompleteMultipartUploadResult"
    assert done.text("Key") == "m" and done.text("Bucket") == target.split("/")[1]
    assert done.text("Location")


def test_gaps_are_fine(s3, upload, target):
    for number in (1, 5, 9):
        upload.part(number, FIVE)
    assert upload.complete().status == 200
    assert s3("HEAD", target)["content-length"] == str(3 * len(FIVE))


@pytest.mark.parametrize("numbers,code", [([5, 1], "InvalidPartOrder"), ([1, 1], "InvalidPartOrder"),
                                          ([1, 5, 1], "InvalidPartOrder")])
def test_wrong_order_is_refused(upload, numbers, code):
    upload.part(1, FIVE)
    upload.part(5, FIVE)
    assert answer(upload.complete(numbers)) == (400, code)
    assert upload.complete().status == 200


@pytest.mark.parametrize("number", ["0", "10001", "-1", "abc", "", "1.0", "99999999999999999999"])
def test_part_numbers_are_1_to_10000(upload, number):
    assert answer(upload.part(number, b"x")) == (400, "InvalidArgument")


def test_part_10000_is_fine(s3, upload, target):
    upload.part(10000, b"last")
    assert upload.complete().status == 200
    assert s3("GET", target).body == b"last"


def test_only_the_last_part_may_be_small(s3, upload, target):
    upload.part(1, b"x" * MIB)
    upload.part(2, FIVE)
    assert answer(upload.complete()) == (400, "EntityTooSmall")
    upload.part(1, FIVE)
    assert upload.complete().status == 200


@pytest.mark.parametrize("xml", ["", "<Part><PartNumber>1</PartNumber></Part>", "<Part/>", "<Part>",
                                 "<Part><ETag>x</ETag></Part>",
                                 "<Part><PartNumber>x</PartNumber><ETag>x</ETag></Part>"])
def test_a_list_that_is_none_is_malformed(s3, upload, target, xml):
    upload.part(1, b"x")
    reply = upload.complete(xml=xml)
    assert answer(reply) in ((400, "MalformedXML"), (400, "InvalidPart"),
                             (400, "InvalidArgument")), reply
    assert s3("GET", target).status == 404
    assert upload.complete().status == 200


def test_a_part_of_nothing_makes_an_empty_object(s3, upload, target):
    assert upload.part(1, b"").status == 200
    done = upload.complete()
    assert done.status == 200 and done.text("ETag").strip('"') == etag_of([b""])
    assert s3("HEAD", target)["content-length"] == "0"


@pytest.mark.parametrize("case", ["unknown number", "wrong etag"])
def test_parts_that_are_not_there_are_refused(s3, upload, target, case):
    upload.part(1, b"x")
    number, tag = (2, upload.etags[1]) if case == "unknown number" else (1, '"' + "0" * 32 + '"')
    reply = upload.complete(xml=f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
    assert answer(reply) == (400, "InvalidPart")
    assert s3("GET", target).status == 404


@pytest.mark.parametrize("count", [1, 3])
def test_the_etag_is_the_md5_of_md5s(s3, upload, target, count):
    pieces = [os.urandom(5 * MIB) for _ in range(count - 1)] + [os.urandom(1000)]
    for number, piece in enumerate(pieces, 1):
        upload.part(number, piece)
    assert upload.complete().text("ETag").strip('"') == etag_of(pieces)
    got = s3("GET", target)
    assert got.etag == etag_of(pieces) and got.body == b"".join(pieces)


def test_a_replaced_part_counts_as_it_is_now(s3, upload, target):
    upload.part(1, b"first")
    old = upload.etags[1]
    upload.part(1, b"second")
    xml = f"<Part><PartNumber>1</PartNumber><ETag>{old}</ETag></Part>"
    assert answer(upload.complete(xml=xml)) == (400, "InvalidPart")
    assert upload.complete().status == 200
    assert s3("GET", target).body == b"second"


def test_completing_again_answers_the_same(s3, upload, target):
    upload.part(1, b"x")
    first, second = upload.complete(), upload.complete()
    assert (first.status, second.status) == (200, 200)
    assert first.text("ETag") == second.text("ETag")
    assert upload.complete(xml="<Part><PartNumber>1</PartNumber><ETag>other</ETag></Part>").status \
        in (400, 404)
    assert answer(upload.part(2, b"y")) == (404, "NoSuchUpload")
    assert answer(upload.abort()) in ((404, "NoSuchUpload"), (204, None))
    assert s3("GET", target).body == b"x"


def test_completing_twice_at_once_answers_the_same(s3, target):
    for _ in range(20):
        upload, replies = Upload(s3, target), []
        upload.part(1, b"x")
        threads = [threading.Thread(target=lambda: replies.append(upload.complete()))
                   for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert [r.status for r in replies] == [200] * 4, replies
        assert len({r.text("ETag") for r in replies}) == 1


def test_uploads_that_are_not_there(s3, bucket, target, upload):
    assert upload.abort().status == 204
    for uid in (upload.id, "nonsense", "../x", "a" * 500):
        where = f"{target}?uploadId={quote(uid)}"
        assert answer(s3("PUT", where + "&partNumber=1", b"x")) == (404, "NoSuchUpload")
        assert answer(s3("GET", where)) == (404, "NoSuchUpload")
        assert answer(s3("DELETE", where)) == (404, "NoSuchUpload")
    other = Upload(s3, target)
    assert answer(s3("PUT", f"/{bucket}/another?partNumber=1&uploadId={other.id}", b"x")) == \
        (404, "NoSuchUpload")
    assert answer(s3("POST", "/no-such-bucket-e2e/k?uploads")) == (404, "NoSuchBucket")


def test_conditions_on_complete(s3, upload, target):
    upload.part(1, b"new")
    s3("PUT", target, b"old")
    assert answer(upload.complete(headers=[("If-None-Match", "*")])) == (412, "PreconditionFailed")
    assert s3("GET", target).body == b"old"
    assert answer(upload.complete(headers=[("If-Match", '"0"')])) == (412, "PreconditionFailed")
    done = upload.complete(headers=[("If-Match", f'"{md5(b"old")}"')])
    assert done.status == 200 and s3("GET", target).body == b"new"


def test_headers_given_at_creation_are_the_objects(s3, target):
    upload = Upload(s3, target, [("x-amz-meta-a", "1"), ("Content-Type", "a/b"),
                                 ("Cache-Control", "no-store")])
    upload.part(1, b"x")
    upload.complete()
    head = s3("HEAD", target)
    assert head["x-amz-meta-a"] == "1" and head["content-type"] == "a/b"
    assert head["cache-control"] == "no-store"


def test_list_parts_pages(s3, upload, target):
    for number in (1, 2, 3, 7, 10):
        upload.part(number, b"p" * number)
    got, marker = [], 0
    while True:
        reply = s3("GET", f"{target}?uploadId={upload.id}&max-parts=2&part-number-marker={marker}")
        assert reply.xml.tag == "ListPartsResult" and reply.text("UploadId") == upload.id
        got += [(int(p.findtext("PartNumber")), int(p.findtext("Size")), p.findtext("ETag"))
                for p in reply.xml.iter("Part")]
        if reply.text("IsTruncated") == "false":
            break
        marker = reply.text("NextPartNumberMarker")
    assert got == [(n, n, f'"{md5(b"p" * n)}"') for n in (1, 2, 3, 7, 10)]
    for query in ("max-parts=-1", "max-parts=abc", "part-number-marker=-1"):
        assert answer(s3("GET", f"{target}?uploadId={upload.id}&{query}")) == (400, "InvalidArgument")


def test_list_uploads_pages_in_key_order(s3, bucket):
    keys = sorted([f"k{i % 7}" for i in range(21)] + ["a&b", "dir/x", "dir/y", "\u00fc"])
    wanted = [(k, Upload(s3, path(bucket, k)).id) for k in keys]
    for size in (1, 4, 1000):
        got, after = [], ""
        while True:
            reply = s3("GET", f"/{bucket}?uploads&max-uploads={size}{after}")
            assert reply.xml.tag == "ListMultipartUploadsResult"
            got += [(u.findtext("Key"), u.findtext("UploadId")) for u in reply.xml.iter("Upload")]
            if reply.text("IsTruncated") == "false":
                break
            after = (f"&key-marker={quote(reply.text('NextKeyMarker'))}"
                     f"&upload-id-marker={quote(reply.text('NextUploadIdMarker'))}")
        assert sorted(got) == sorted(wanted) and len(got) == len(wanted)
        assert [k for k, _ in got] == sorted(keys, key=lambda k: k.encode())
    reply = s3("GET", f"/{bucket}?uploads&delimiter=/&prefix=d")
    assert [p.findtext("Prefix") for p in reply.xml.iter("CommonPrefixes")] == ["dir/"]
    assert not list(reply.xml.iter("Upload"))
    reply = s3("GET", f"/{bucket}?uploads&encoding-type=url&prefix=a")
    assert reply.xml.find("Upload").findtext("Key") == "a%26b"
    assert answer(s3("GET", f"/{bucket}?uploads&max-uploads=-1")) == (400, "InvalidArgument")


def test_many_uploads_are_listed_once_each(s3, bucket):
    count = scaled(2500)
    with s3.connect() as conn:
        wanted = {s3("POST", f"/{bucket}/u{i:05}?uploads", conn=conn).text("UploadId")
                  for i in range(count)}
    got, after = [], ""
    while True:
        reply = s3("GET", f"/{bucket}?uploads&max-uploads=100{after}")
        got += reply.texts("UploadId")
        if reply.text("IsTruncated") == "false":
            break
        after = (f"&key-marker={quote(reply.text('NextKeyMarker'))}"
                 f"&upload-id-marker={quote(reply.text('NextUploadIdMarker'))}")
    assert len(got) == count and set(got) == wanted


@pytest.mark.slow
def test_more_than_a_thousand_parts(s3, upload, target):
    count = max(120, scaled(1500))
    with s3.connect() as conn:
        for number in range(1, count + 1):
            assert upload.part(number, FIVE, conn=conn).status == 200
    reply = s3("GET", f"{target}?uploadId={upload.id}")
    assert len(list(reply.xml.iter("Part"))) == min(count, 1000)
    assert upload.complete().status == 200
    assert s3("HEAD", target)["content-length"] == str(count * len(FIVE))
    at = (count - 2) * len(FIVE) + 3
    assert s3("GET", target, headers=[("Range", f"bytes={at}-{at + 9}")]).body == b"5" * 10


def copied(upload, number, source, *headers):
    return upload.part(number, b"", headers=[("x-amz-copy-source", source), *headers])


def test_copied_parts_make_an_object_of_the_sources_bytes(s3, upload, bucket, target):
    data = os.urandom(11 * MIB)
    assert s3("PUT", f"/{bucket}/source", data, sha256=UNSIGNED).status == 200
    for number, (first, last) in enumerate([(0, 5 * MIB - 1), (3, 5 * MIB + 2)], 1):
        reply = copied(upload, number, f"/{bucket}/source",
                       ("x-amz-copy-source-range", f"bytes={first}-{last}"))
        assert reply.status == 200 and reply.text("ETag"), reply
        upload.etags[number] = reply.text("ETag")
    reply = copied(upload, 3, f"{bucket}/source")
    upload.etags[3] = reply.text("ETag")
    assert upload.complete().status == 200
    whole = data[:5 * MIB] + data[3:5 * MIB + 3] + data
    assert s3("GET", target).body == whole
    onto_itself = Upload(s3, target)
    reply = copied(onto_itself, 1, target, ("x-amz-copy-source-range", "bytes=1-9"))
    onto_itself.etags[1] = reply.text("ETag")
    assert onto_itself.complete().status == 200 and s3("GET", target).body == whole[1:10]


@pytest.mark.parametrize("source, headers, wanted", [
    ("/{b}/none", [], (404, "NoSuchKey")),
    ("/no-such-bucket-copy/k", [], (404, "NoSuchBucket")),
    ("/{b}/source", [("x-amz-copy-source-range", "bytes=0-10")], (400, "InvalidArgument")),
    ("/{b}/source", [("x-amz-copy-source-range", "bytes=5-")], (400, "InvalidArgument")),
    ("/{b}/source", [("x-amz-copy-source-range", "0-3")], (400, "InvalidArgument")),
    ("/{b}/source", [("x-amz-copy-source-if-match", '"x"')], (412, "PreconditionFailed")),
    ("/{b}/source?versionId=7", [], (400, "InvalidArgument")),
    ("nothing", [], (400, "InvalidArgument")),
])
def test_a_part_that_cannot_be_copied_is_refused_and_leaves_nothing(s3, upload, bucket, source,
                                                                   headers, wanted):
    assert s3("PUT", f"/{bucket}/source", b"0123456789").status == 200
    assert answer(copied(upload, 1, source.format(b=bucket), *headers)) == wanted
    assert s3("GET", f"{upload.target}?uploadId={upload.id}").texts("PartNumber") == []


def test_copied_parts_have_the_checksums_of_their_upload(s3, bucket):
    data = os.urandom(6 * MIB)
    assert s3("PUT", f"/{bucket}/source", data, sha256=UNSIGNED).status == 200
    for name in ("crc64nvme", "crc32c", "sha256"):
        made = s3("POST", f"/{bucket}/{name}?uploads",
                  headers=[("x-amz-checksum-algorithm", name.upper())])
        reply = s3("PUT", f"/{bucket}/{name}?partNumber=1&uploadId={made.text('UploadId')}",
                   headers=[("x-amz-copy-source", f"/{bucket}/source"),
                            ("x-amz-copy-source-range", f"bytes=1-{len(data) - 1}")])
        element = {"crc64nvme": "ChecksumCRC64NVME", "crc32c": "ChecksumCRC32C",
                   "sha256": "ChecksumSHA256"}[name]
        assert reply.text(element) == checksum(name, data[1:]), reply


def test_one_part_number_from_many_threads_is_one_of_them(s3, upload, target):
    bodies = [bytes([65 + i]) * (MIB + i) for i in range(8)]
    threads = [threading.Thread(target=lambda b=b: upload.s3(
        "PUT", f"{target}?partNumber=1&uploadId={upload.id}", b, sha256=UNSIGNED)) for b in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    row = next(s3("GET", f"{target}?uploadId={upload.id}").xml.iter("Part"))
    xml = f"<Part><PartNumber>1</PartNumber><ETag>{row.findtext('ETag')}</ETag></Part>"
    assert upload.complete(xml=xml).status == 200
    assert s3("GET", target).body in bodies


def test_parts_keep_their_checksums(s3, target):
    upload = Upload(s3, target, [("x-amz-checksum-algorithm", "CRC64NVME"),
                                 ("x-amz-checksum-type", "FULL_OBJECT")])
    pieces = [b"123456789" * (MIB // 2 + MIB // 9), b"tail"]
    pieces[0] = pieces[0][:5 * MIB]
    for number, piece in enumerate(pieces, 1):
        if number == 2:
            value = checksum("crc64nvme", piece)
            reply = upload.part(number, piece, headers=[("x-amz-checksum-crc64nvme", value)])
            assert reply["x-amz-checksum-crc64nvme"] == value, reply
        else:
            assert upload.part(number, piece).status == 200
    bad = upload.part(2, b"tail", headers=[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")])
    assert answer(bad) == (400, "BadDigest")
    done = upload.complete()
    assert done.status == 200, done
    value = checksum("crc64nvme", b"".join(pieces))
    assert done.text("ChecksumCRC64NVME") == value and done.text("ChecksumType") == "FULL_OBJECT"
    head = s3("HEAD", target, headers=[("x-amz-checksum-mode", "ENABLED")])
    assert head["x-amz-checksum-crc64nvme"] == value


def test_a_checksum_of_the_whole_given_at_complete_is_checked(s3, target):
    upload = Upload(s3, target, [("x-amz-checksum-algorithm", "CRC32"),
                                 ("x-amz-checksum-type", "FULL_OBJECT")])
    upload.part(1, b"hello", headers=[("x-amz-checksum-crc32", checksum("crc32", b"hello"))])
    bad = upload.complete(headers=[("x-amz-checksum-crc32", checksum("crc32", b"hallo")),
                                   ("x-amz-checksum-type", "FULL_OBJECT")])
    assert answer(bad) == (400, "BadDigest"), bad
    assert s3("GET", target).status == 404
    good = upload.complete(headers=[("x-amz-checksum-crc32", checksum("crc32", b"hello")),
                                    ("x-amz-checksum-type", "FULL_OBJECT")])
    assert good.status == 200, good


def test_the_pattern_of_a_mounted_bucket(s3, bucket, target):
    upload = Upload(s3, target, [("x-amz-checksum-algorithm", "CRC32C")])
    pieces = [FIVE[:], b""]
    sums = [checksum("crc32c", piece) for piece in pieces]
    for number, (piece, value) in enumerate(zip(pieces, sums), 1):
        assert s3.stream(f"{target}?partNumber={number}&uploadId={upload.id}", [piece] if piece else [],
                         "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                         [("x-amz-checksum-crc32c", value)]).status == 200
    rows = s3("GET", f"{target}?uploadId={upload.id}")
    xml = "".join(f"<Part><PartNumber>{p.findtext('PartNumber')}</PartNumber><ETag>"
                  f"{p.findtext('ETag')}</ETag><ChecksumCRC32C>{p.findtext('ChecksumCRC32C')}"
                  "</ChecksumCRC32C></Part>" for p in rows.xml.iter("Part"))
    done = upload.complete(xml=xml)
    assert done.status == 200 and done.text("ChecksumCRC32C").endswith("-2"), done
    assert s3("GET", target).body == FIVE
    known = attributes(s3, target, "ETag,Checksum,ObjectParts,ObjectSize")
    assert known.text("ChecksumCRC32C") == done.text("ChecksumCRC32C"), known
    assert known.text("ETag") == done.text("ETag").strip('"') and known.text("PartsCount") == "2"
    assert known.text("ObjectSize") == str(len(FIVE)) and known.text("ChecksumType") == "COMPOSITE"
    got = [[p.findtext(n) for n in ("PartNumber", "Size", "ChecksumCRC32C")]
           for p in known.xml.iter("Part")]
    assert got == [["1", str(len(FIVE)), sums[0]], ["2", "0", sums[1]]]
    page = attributes(s3, target, "ObjectParts", ("x-amz-max-parts", "1"))
    assert page.texts("PartNumber") == ["1"] and page.text("IsTruncated") == "true"
    page = attributes(s3, target, "ObjectParts", ("x-amz-part-number-marker",
                                                  page.text("NextPartNumberMarker")))
    assert page.texts("PartNumber") == ["2"] and page.text("IsTruncated") == "false"


def attributes(s3, target, names, *headers):
    return s3("GET", f"{target}?attributes", headers=[("x-amz-object-attributes", names), *headers])


def test_attributes_of_an_object_are_those_that_are_named(s3, bucket, target):
    s3("PUT", target, b"123456789")
    known = attributes(s3, target, "ETag, ObjectSize", ("x-amz-object-attributes", "StorageClass"))
    assert known["last-modified"] == s3("HEAD", target)["last-modified"]
    assert [(e.tag, e.text) for e in known.xml] == [
        ("ETag", md5(b"123456789")), ("StorageClass", "STANDARD"), ("ObjectSize", "9")]
    known = attributes(s3, target, "Checksum,ObjectParts")
    assert known.text("ChecksumCRC64NVME") == "rosUhgp5mIg=" and known.xml.find("ObjectParts") is None
    for names, *headers in ([""], ["Etag"], ["ETag,x"], ["ETag", ("x-amz-max-parts", "-1")],
                            ["ETag", ("x-amz-part-number-marker", "x")]):
        reply = attributes(s3, target, names, *headers)
        assert answer(reply) == (400, "InvalidArgument"), (names, headers, reply)
    assert answer(s3("GET", f"{target}?attributes")) == (400, "InvalidArgument")
    assert answer(attributes(s3, f"/{bucket}/none", "ETag")) == (404, "NoSuchKey")
    assert answer(attributes(s3, "/no-such-bucket-e2e/k", "ETag")) == (404, "NoSuchBucket")
