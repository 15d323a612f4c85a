# SPDX-License-Identifier: Apache-2.0
"""The raw client's signatures against the examples that AWS publishes in its S3 documentation
("Signature Calculations for the Authorization Header" and its sister pages)."""
import s3raw

ACCESS, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
HOST, DATE = "examplebucket.s3.amazonaws.com", "20130524T000000Z"


def signature(method, target, headers=()):
    signer = s3raw.Signer(ACCESS, SECRET, date=DATE)
    fields = [("Host", HOST), ("x-amz-content-sha256", s3raw.EMPTY_SHA256), ("x-amz-date", DATE),
              *headers]
    return signer.request(method, target, fields, s3raw.EMPTY_SHA256,
                          sorted(n.lower() for n, _ in fields))


def test_get_of_a_range_is_signed_as_published():
    assert signature("GET", "/test.txt", [("Range", "bytes=0-9")]) == (
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")


def test_query_without_value_is_signed_as_published():
    assert signature("GET", "/?lifecycle") == (
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")


def test_list_with_parameters_is_signed_as_published():
    assert signature("GET", "/?max-keys=2&prefix=J") == (
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")


def test_presigned_get_is_signed_as_published():
    s3 = s3raw.S3(("127.0.0.1", 1), ACCESS, SECRET, host=HOST)
    assert s3.presign("GET", "/test.txt", 86400, DATE).endswith(
        "X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


def test_chunks_are_signed_as_published():
    signer = s3raw.Signer(ACCESS, SECRET, date=DATE)
    signer.signature = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    chunks = s3raw.aws_chunks([b"a" * 65536, b"a" * 1024], signer)
    assert sum(map(len, chunks)) == 66824
    assert [c.split(b"chunk-signature=")[1][:64].decode() for c in chunks] == [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"]


def test_checksums_give_the_published_check_values():
    assert s3raw.crc64nvme(b"123456789").hex() == "ae8b14860a799888"
    assert s3raw.crc32c(b"123456789").hex() == "e3069283"
    assert s3raw.crc32(b"123456789").hex() == "cbf43926"
