// SPDX-License-Identifier: Apache-2.0
// rest CASE BUCKET: one case of the interface of miniocpp/client.h against the server that
// S3RDMA_TEST_ENDPOINT names. Ends with 0 when all of it is as it should be.
#include <miniocpp/client.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace s3 = minio::s3;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::cerr << __FILE__ << ":" << __LINE__ << ": " #what << std::endl;                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

#define OK(response)                                                                               \
    do {                                                                                           \
        const auto &r_ = (response);                                                               \
        if (!r_) {                                                                                 \
            std::cerr << __FILE__ << ":" << __LINE__ << ": " << r_.Error() << std::endl;           \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static std::string Var(const char *name)
{
    std::string value;
    CHECK(minio::utils::GetEnv(value, name));
    return value;
}

static std::string bucket;

static s3::BaseUrl Url()
{
    return s3::BaseUrl(Var("S3RDMA_TEST_ENDPOINT"), false, "us-east-1");
}

static minio::creds::EnvAwsProvider keys;

static std::string Pattern(size_t size)
{
    std::string data(size, '\0');
    for (size_t i = 0; i < size; i++) {
        data[i] = static_cast<char>((i * 131 + (i >> 8)) & 0xff);
    }
    return data;
}

static s3::PutObjectResponse Put(const s3::Client &client, const std::string &object,
                                 std::string data)
{
    s3::PutObjectArgs args;
    args.bucket = bucket;
    args.object = object;
    args.buf = data.data();
    args.size = data.size();
    return client.PutObject(args);
}

// Buckets appear, are listed, and go.
static void Buckets()
{
    s3::Client client(s3::BaseUrl("http://" + Var("S3RDMA_TEST_ENDPOINT")), &keys);
    s3::MakeBucketArgs args;
    args.bucket = bucket + "-more";
    auto exists = client.BucketExists(args);
    OK(exists);
    CHECK(!exists.exist);
    OK(client.MakeBucket(args));
    exists = client.BucketExists(args);
    OK(exists);
    CHECK(exists.exist);

    const auto again = client.MakeBucket(args);
    CHECK(!again && again.code == "BucketAlreadyOwnedByYou" && !again.message.empty());

    const auto listed = client.ListBuckets();
    OK(listed);
    bool is_there = false;
    for (const auto &b : listed.buckets) {
        is_there = is_there || (b.name == args.bucket && b.creation_date);
    }
    CHECK(is_there);

    OK(client.RemoveBucket(args));
    const auto gone = client.RemoveBucket(args);
    CHECK(!gone && gone.code == "NoSuchBucket" && gone.bucket_name == args.bucket);

    args.bucket = "No Bucket";
    CHECK(!client.MakeBucket(args));
    args.bucket = std::string("a\0b", 3);
    CHECK(!client.MakeBucket(args));
    args.bucket = bucket;
    args.region = "eu-west-1";
    CHECK(!client.BucketExists(args));
}

// 1 put of 1 MiB + 5, 5 gets: 1 MiB + 5, 10, 1 MiB - 95, 5, 1 MiB + 5.
static void Memory()
{
    s3::Client client(Url(), &keys);
    const std::string data = Pattern((1 << 20) + 5);
    std::string source = data;
    s3::PutObjectArgs put;
    put.bucket = bucket;
    put.object = "memory é +%2F";
    put.buf = source.data();
    put.size = source.size();
    put.content_type = "text/x-pattern";
    put.headers.Add("Cache-Control", "no-store");
    put.user_metadata.Add("colour", "green");
    put.user_metadata.Add("X-Amz-Meta-Shape", "round");
    put.transfer.require_rdma = true;
    std::atomic<double> told{0};
    put.progressfunc = [&](minio::http::ProgressFunctionArgs args) { told = args.uploaded_bytes; };
    const auto stored = client.PutObject(put);
    OK(stored);
    CHECK(stored.transfer.transport == S3R_TRANSPORT_RDMA && stored.transfer.bytes == data.size());
    CHECK(!stored.etag.empty() && stored.checksum_crc64nvme.size() == 12);
    CHECK(told == static_cast<double>(data.size()));

    s3::StatObjectArgs stat;
    stat.bucket = bucket;
    stat.object = put.object;
    const auto about = client.StatObject(stat);
    OK(about);
    CHECK(about.size == data.size() && about.etag == stored.etag && about.last_modified);
    CHECK(about.headers.GetFront("Content-Type") == "text/x-pattern");
    CHECK(about.headers.GetFront("cache-control") == "no-store");
    CHECK(about.user_metadata.GetFront("Colour") == "green");
    CHECK(about.user_metadata.GetFront("shape") == "round");

    std::string memory(data.size() + 100, '#');
    s3::GetObjectArgs get;
    get.bucket = bucket;
    get.object = put.object;
    get.buf = memory.data();
    get.size = memory.size();
    const auto got = client.GetObject(get);
    OK(got);
    CHECK(got.transfer.transport == S3R_TRANSPORT_RDMA && got.transfer.verified);
    CHECK(got.transfer.bytes == data.size() && got.etag == stored.etag);
    CHECK(memory == data + std::string(100, '#'));

    size_t offset = 100, length = 10;
    std::fill(memory.begin(), memory.end(), '#');
    get.offset = &offset;
    get.length = &length;
    auto ranged = client.GetObject(get);
    OK(ranged);
    CHECK(ranged.status_code == 206 && ranged.transfer.bytes == 10);
    CHECK(memory.compare(0, 11, data.substr(100, 10) + "#") == 0);

    get.length = nullptr; // as much as there is
    ranged = client.GetObject(get);
    OK(ranged);
    CHECK(ranged.transfer.bytes == data.size() - 100);
    CHECK(memory.compare(0, data.size() - 100, data, 100, std::string::npos) == 0);

    offset = data.size() - 5; // cut at the end
    length = 50;
    get.length = &length;
    ranged = client.GetObject(get);
    OK(ranged);
    CHECK(ranged.transfer.bytes == 5);

    offset = data.size();
    ranged = client.GetObject(get);
    CHECK(!ranged && ranged.code == "InvalidRange" && ranged.status_code == 416);

    length = memory.size() + 1; // more than the buffer has
    ranged = client.GetObject(get);
    CHECK(!ranged && ranged.error_number == S3R_ERROR_INVALID_ARGUMENT);

    get.offset = get.length = nullptr; // smaller than the object
    std::fill(memory.begin(), memory.end(), '#');
    get.size = 1000;
    get.transfer.require_rdma = false;
    const auto small = client.GetObject(get);
    CHECK(!small && small.error_number == S3R_ERROR_BUFFER_TOO_SMALL);
    CHECK(memory.substr(1000) == std::string(memory.size() - 1000, '#'));
    get.size = memory.size();

    get.match_etag = "00000000000000000000000000000000";
    auto conditional = client.GetObject(get);
    CHECK(!conditional && conditional.code == "PreconditionFailed");
    get.match_etag.clear();
    get.not_match_etag = stored.etag;
    conditional = client.GetObject(get);
    CHECK(!conditional && conditional.status_code == 304);
    get.not_match_etag.clear();
    get.match_etag = stored.etag;
    OK(client.GetObject(get));
}

// 3 puts (parts of 5, 5 and 1 MiB) and 1 of 0 bytes; 11 MiB of gets, however many.
static void Streams()
{
    s3::Client client(Url(), &keys);
    const std::string data = Pattern(11 << 20);
    std::istringstream from(data);
    s3::PutObjectArgs put(from, static_cast<long>(data.size()), 5 << 20);
    put.bucket = bucket;
    put.object = "stream";
    put.user_metadata.Add("kind", "stream");
    double told = 0;
    put.progressfunc = [&](minio::http::ProgressFunctionArgs args) {
        CHECK(args.uploaded_bytes >= told && args.upload_total_bytes == double(11 << 20));
        told = args.uploaded_bytes;
    };
    const auto stored = client.PutObject(put);
    OK(stored);
    CHECK(told == static_cast<double>(data.size()) && minio::utils::EndsWith(stored.etag, "-3"));
    CHECK(stored.transfer.transport == S3R_TRANSPORT_RDMA);

    std::string back;
    int userdata = 0;
    s3::GetObjectArgs get;
    get.bucket = bucket;
    get.object = "stream";
    get.userdata = &userdata;
    get.datafunc = [&](minio::http::DataFunctionArgs args) {
        CHECK(args.userdata == &userdata);
        back += args.datachunk;
        return true;
    };
    const auto got = client.GetObject(get);
    OK(got);
    CHECK(back == data && got.transfer.bytes == data.size());

    std::istringstream nothing;
    s3::PutObjectArgs empty(nothing, -1, 0);
    empty.bucket = bucket;
    empty.object = "empty";
    OK(client.PutObject(empty));
    s3::StatObjectArgs stat;
    stat.bucket = bucket;
    stat.object = "empty";
    CHECK(client.StatObject(stat).size == 0);
}

// Ranges of a stream; and all the ways to stop one. Moves what it moves.
static void Stopping()
{
    s3::Client client(Url(), &keys);
    const std::string data = Pattern(3 << 20);
    OK(Put(client, "whole", data));
    size_t offset = 1 << 20, length = 1000;
    std::string back;
    s3::GetObjectArgs get;
    get.bucket = bucket;
    get.object = "whole";
    get.offset = &offset;
    get.length = &length;
    get.datafunc = [&](minio::http::DataFunctionArgs args) {
        back += args.datachunk;
        return true;
    };
    OK(client.GetObject(get));
    CHECK(back == data.substr(offset, length));

    get.datafunc = [](minio::http::DataFunctionArgs) { return false; };
    auto got = client.GetObject(get);
    CHECK(!got && got.error_number == S3R_ERROR_ABORTED && got.code.empty());

    get.datafunc = [](minio::http::DataFunctionArgs) -> bool { throw std::range_error("enough"); };
    try {
        client.GetObject(get);
        CHECK(false);
    } catch (const std::range_error &e) {
        CHECK(std::string(e.what()) == "enough");
    }

    // A stream that breaks, one that throws, one that is shorter than it should be: no object.
    struct Breaking : std::stringbuf {
        bool throws = false;
        std::streamsize xsgetn(char *, std::streamsize) override
        {
            throw std::runtime_error("broken");
        }
    };
    Breaking breaking;
    std::istream broken(&breaking);
    s3::PutObjectArgs put(broken, 6 << 20, 5 << 20);
    put.bucket = bucket;
    put.object = "never";
    auto stored = client.PutObject(put);
    CHECK(!stored && stored.error_number == S3R_ERROR_ABORTED);
    CHECK(minio::utils::Contains(stored.message, "stream"));

    std::istream throwing(&breaking);
    throwing.exceptions(std::ios::badbit);
    s3::PutObjectArgs throws(throwing, 6 << 20, 5 << 20);
    throws.bucket = bucket;
    throws.object = "never";
    try {
        client.PutObject(throws);
        CHECK(false);
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "broken");
    }

    std::istringstream small(Pattern(1 << 20));
    s3::PutObjectArgs cut(small, 6 << 20, 5 << 20);
    cut.bucket = bucket;
    cut.object = "never";
    CHECK(!client.PutObject(cut));

    s3::StatObjectArgs stat;
    stat.bucket = bucket;
    stat.object = "never";
    const auto none = client.StatObject(stat);
    CHECK(!none && none.status_code == 404);

    // Neither memory nor function nor stream.
    s3::PutObjectArgs nothing;
    nothing.bucket = bucket;
    nothing.object = "never";
    CHECK(!client.PutObject(nothing));
    get.datafunc = nullptr;
    CHECK(!client.GetObject(get));
}

static void Errors()
{
    s3::Client client(Url(), &keys);
    std::array<char, 64> memory{};
    s3::GetObjectArgs get;
    get.bucket = bucket;
    get.object = "missing";
    get.buf = memory.data();
    get.size = memory.size();
    const auto missing = client.GetObject(get);
    CHECK(!missing && missing.code == "NoSuchKey" && missing.status_code == 404);
    CHECK(missing.bucket_name == bucket && missing.object_name == "missing");
    CHECK(missing.resource == "/" + bucket + "/missing" && !missing.request_id.empty());
    CHECK(minio::utils::Contains(missing.Error().String(), "NoSuchKey"));
    CHECK(missing.error_number == S3R_ERROR_NO_SUCH_KEY && missing.transfer.requests == 1);

    minio::creds::StaticProvider wrong(Var("AWS_ACCESS_KEY_ID"), "not the secret");
    s3::Client stranger(Url(), &wrong);
    const auto refused = stranger.GetObject(get);
    CHECK(!refused && refused.code == "SignatureDoesNotMatch" && refused.status_code == 403);

    s3::Client nowhere(s3::BaseUrl("127.0.0.1:9", false), &keys);
    const auto lost = nowhere.GetObject(get);
    CHECK(!lost && lost.code.empty() && lost.status_code == 0 && lost.Error());
    CHECK(lost.error_number == S3R_ERROR_HTTP);

    for (const char *text :
         {"", "a b", "h:0", "h:65536", "h:x", "user@h", "h/path", "[::1", "[::1]1"}) {
        const s3::BaseUrl url(text, false);
        CHECK(!url && url.Error());
        s3::Client client_of_none(url, &keys);
        CHECK(!client_of_none.GetObject(get));
    }
    CHECK(s3::BaseUrl("[::1]:9000", false).String() == "http://[::1]:9000");
    CHECK(s3::BaseUrl("http://h/").String() == "http://h" && s3::BaseUrl("h").https);

    s3::PutObjectArgs put;
    put.bucket = bucket;
    put.object = "never";
    put.buf = memory.data();
    put.size = memory.size();
    put.headers.Add("Authorization", "mine");
    const auto header = client.PutObject(put);
    CHECK(!header && minio::utils::Contains(header.Error().String(), "Authorization"));
    put.headers = {};
    put.object = std::string("a\0b", 3);
    CHECK(!client.PutObject(put));
    put.object = "never";
    put.transfer.require_rdma = put.transfer.disable_rdma = true;
    CHECK(!client.PutObject(put));

    s3::RemoveObjectArgs remove;
    remove.bucket = bucket;
    remove.object = "missing";
    OK(client.RemoveObject(remove));
}

// Credentials that change between two calls are those of the next one.
static void Providers()
{
    struct Rotating : minio::creds::Provider {
        minio::creds::Credentials now;
        minio::creds::Credentials Fetch() override
        {
            return now;
        }
    };
    const std::string access = Var("AWS_ACCESS_KEY_ID"), secret = Var("AWS_SECRET_ACCESS_KEY");
    Rotating rotating;
    s3::Client client(Url(), &rotating);
    s3::BucketExistsArgs args;
    args.bucket = bucket;
    CHECK(!client.BucketExists(args)); // none yet
    rotating.now = minio::creds::Credentials(minio::error::SUCCESS, access, secret);
    OK(client.BucketExists(args));
    rotating.now.secret_key = "another";
    CHECK(!client.BucketExists(args));
    rotating.now = minio::creds::Credentials(minio::error::SUCCESS, access, secret, {},
                                             minio::utils::UtcTime(1000));
    CHECK(rotating.now.IsExpired() && !client.BucketExists(args));
    rotating.now = minio::creds::Credentials(minio::error::Error("no keys today"));
    CHECK(client.BucketExists(args).Error().String() == "no keys today");

    setenv("MINIO_ACCESS_KEY", access.c_str(), 1);
    setenv("MINIO_SECRET_KEY", secret.c_str(), 1);
    minio::creds::EnvMinioProvider of_minio;
    unsetenv("AWS_ACCESS_KEY_ID");
    minio::creds::EnvAwsProvider none;
    CHECK(of_minio && !none);
    minio::creds::ChainedProvider chain({&none, &of_minio});
    s3::Client chained(Url(), &chain);
    OK(chained.BucketExists(args));
    s3::Client unset(Url(), &none);
    CHECK(!unset.BucketExists(args));
}

// Rows come page after page, in order; the error of a listing is a row.
static void Listing()
{
    s3::Client client(Url(), &keys);
    for (int i = 0; i < 25; i++) {
        OK(Put(client, (i % 5 == 0 ? "dir/" : "k") + std::to_string(100 + i),
               std::string(size_t(i), 'x')));
    }
    s3::ListObjectsArgs args;
    args.bucket = bucket;
    args.recursive = true;
    args.max_keys = 10;
    std::vector<std::string> names;
    for (auto row = client.ListObjects(args); row; row++) {
        const s3::Item item = *row;
        OK(item);
        CHECK(!item.is_prefix && item.last_modified && !item.etag.empty());
        CHECK(item.size == std::stoul(item.name.substr(item.name.size() - 2)));
        names.push_back(item.name);
    }
    CHECK(names.size() == 25 && std::is_sorted(names.begin(), names.end()));

    args.recursive = false;
    size_t prefixes = 0, keys_found = 0;
    auto rows = client.ListObjects(args);
    auto copy = rows;
    for (; rows; ++rows) {
        prefixes += rows->is_prefix && rows->name == "dir/" ? 1 : 0;
        keys_found += rows->is_prefix ? 0 : 1;
    }
    CHECK(prefixes == 1 && keys_found == 20);
    CHECK(copy && copy->name == "dir/"); // where it was

    args.prefix = "dir/1";
    args.max_keys = 2;
    size_t count = 0;
    for (auto row = client.ListObjects(args); row; row++) {
        count += minio::utils::StartsWith((*row).name, "dir/1") ? 1 : 100;
    }
    CHECK(count == 5);
    args.prefix = "nothing";
    CHECK(!client.ListObjects(args));

    args.bucket = bucket + "-none";
    auto failed = client.ListObjects(args);
    CHECK(failed && !*failed && (*failed).code == "NoSuchBucket");
    CHECK(!++failed);
}

static std::string Read(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}

// In the folder it is started in.
static void Files()
{
    s3::Client client(Url(), &keys);
    const std::string data = Pattern(6000000);
    std::ofstream("source", std::ios::binary) << data;
    s3::UploadObjectArgs up;
    up.bucket = bucket;
    up.object = "file";
    up.filename = "source";
    OK(client.UploadObject(up));
    up.filename = "not there";
    CHECK(!client.UploadObject(up));
    up.filename = ".";
    CHECK(!client.UploadObject(up));
    up.filename = std::string("source\0.txt", 11);
    CHECK(!client.UploadObject(up));

    s3::DownloadObjectArgs down;
    down.bucket = bucket;
    down.object = "file";
    down.filename = "copy";
    OK(client.DownloadObject(down));
    CHECK(Read("copy") == data);
    CHECK(!client.DownloadObject(down)); // it is there already
    OK(Put(client, "file", "short"));
    down.overwrite = true;
    OK(client.DownloadObject(down));
    CHECK(Read("copy") == "short");
    // What is no file is not replaced by one.
    CHECK(mkfifo("fifo", 0600) == 0);
    down.filename = "fifo";
    CHECK(!client.DownloadObject(down));
    struct stat about {
    };
    CHECK(lstat("fifo", &about) == 0 && S_ISFIFO(about.st_mode) && unlink("fifo") == 0);
    down.filename = "copy";
    down.object = "missing";
    const auto missing = client.DownloadObject(down);
    CHECK(!missing && missing.code == "NoSuchKey" && Read("copy") == "short");
    down.filename = "no folder/copy";
    CHECK(!client.DownloadObject(down));
}

// 8 threads with one client, 10 objects each: 80 puts and gets of 10,000 bytes.
static void Threads()
{
    s3::Client client(Url(), &keys);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++) {
        threads.emplace_back([&client, t] {
            for (int i = 0; i < 10; i++) {
                const std::string name = std::to_string(t) + "/" + std::to_string(i);
                std::string data(10000, static_cast<char>('a' + t)), back(10000, '#');
                OK(Put(client, name, data));
                s3::GetObjectArgs get;
                get.bucket = bucket;
                get.object = name;
                get.buf = back.data();
                get.size = back.size();
                auto later = client.GetObjectAsync(get);
                OK(later.get());
                CHECK(back == data);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

// Prints a link to an object that says hello.
static void Link()
{
    s3::Client client(Url(), &keys);
    OK(Put(client, "greeting", "hello"));
    s3::GetPresignedObjectUrlArgs args;
    args.bucket = bucket;
    args.object = "greeting";
    args.expiry_seconds = 600;
    const auto link = client.GetPresignedObjectUrl(args);
    OK(link);
    std::cout << link.url << std::endl;
    args.expiry_seconds = 1000000;
    CHECK(!client.GetPresignedObjectUrl(args));
}

// The server has no RDMA: the same calls go by HTTP and say so, or fail where RDMA is required.
static void Fallback()
{
    s3::Client client(Url(), &keys);
    auto stored = Put(client, "by http", "hello");
    OK(stored);
    CHECK(stored.transfer.transport == S3R_TRANSPORT_HTTP);
    CHECK(stored.transfer.reason == S3R_REASON_DECLINED && !stored.transfer.reason_text.empty());

    std::string back(100, '#');
    s3::GetObjectArgs get;
    get.bucket = bucket;
    get.object = "by http";
    get.buf = back.data();
    get.size = back.size();
    auto got = client.GetObject(get);
    OK(got);
    CHECK(got.transfer.transport == S3R_TRANSPORT_HTTP && back.substr(0, 6) == "hello#");

    get.transfer.require_rdma = true;
    got = client.GetObject(get);
    CHECK(!got && got.error_number == S3R_ERROR_RDMA_REQUIRED && got.code.empty());
    CHECK(got.transfer.reason == S3R_REASON_DECLINED);

    get.transfer.require_rdma = false;
    get.transfer.disable_rdma = true;
    got = client.GetObject(get);
    OK(got);
    CHECK(got.transfer.reason == S3R_REASON_OFF && got.transfer.requests == 1);
}

// Times and headers.
static void Values()
{
    using minio::utils::UtcTime;
    const UtcTime time(1772442307, 123456); // date -u -d @1772442307
    CHECK(time.ToISO8601UTC() == "2026-03-02T09:05:07.123Z");
    CHECK(time.ToHttpHeaderValue() == "Mon, 02 Mar 2026 09:05:07 GMT");
    CHECK(time.ToAmzDate() == "20260302T090507Z" && time.ToSignerDate() == "20260302");
    CHECK(UtcTime::FromHttpHeaderValue("Mon, 02 Mar 2026 09:05:07 GMT") == UtcTime(1772442307));
    CHECK(UtcTime::FromISO8601UTC("2026-03-02T09:05:07.123456Z") == time);
    CHECK(UtcTime::FromISO8601UTC("2026-03-02T09:05:07Z") == UtcTime(1772442307));
    CHECK(UtcTime(1772442307) < time && time > UtcTime(5) && !UtcTime() && UtcTime(5));
    for (const char *text : {"", "Mon, 02 Mar", "Mon, 02 Abc 2026 09:05:07 GMT",
                             "Mon, 02 Mar 2026 09:65:07 GMT", "Mon, x2 Mar 2026 09:05:07 GMT"}) {
        CHECK(!UtcTime::FromHttpHeaderValue(text));
    }
    for (const char *text : {"", "2026-03-02", "2026-13-02T09:05:07Z", "2026-03-02T09:05:07",
                             "2026-03-02T09:05:07.x23Z", "2026-03-02 09:05:07.123Z"}) {
        CHECK(!UtcTime::FromISO8601UTC(text));
    }
    CHECK(!UtcTime::FromISO8601UTC(nullptr) && !UtcTime::FromHttpHeaderValue(nullptr));

    minio::utils::Multimap map;
    CHECK(!map && map.GetFront("a").empty());
    map.Add("Alpha", "1");
    map.Add("ALPHA", "2");
    map.Add("beta", "3");
    CHECK(map && map.Contains("alpha") && map.Get("aLPHA").size() == 2 && map.Keys().size() == 2);
    CHECK(map.ToHttpHeaders().front() == "Alpha: 1");
}

int main(int argc, char **argv)
{
    const std::map<std::string, void (*)()> cases = {
        {"buckets", Buckets},   {"memory", Memory},     {"streams", Streams},
        {"stopping", Stopping}, {"errors", Errors},     {"providers", Providers},
        {"listing", Listing},   {"files", Files},       {"threads", Threads},
        {"link", Link},         {"fallback", Fallback}, {"values", Values}};
    CHECK(argc == 3 && cases.count(argv[1]) == 1);
    bucket = argv[2];
    cases.at(argv[1])();
    return 0;
}
