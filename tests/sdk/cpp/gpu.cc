// SPDX-License-Identifier: Apache-2.0
// gpu BUCKET: miniocpp/client.h with memory of a GPU, or of what stands in for one as libcuda.so.1.
#include <miniocpp/client.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <string>

namespace s3 = minio::s3;

static void Check(bool is_right, const std::string &what)
{
    if (!is_right) {
        std::cerr << what << std::endl;
        std::exit(1);
    }
}

template <typename Function> static Function *Driver(const char *name)
{
    static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    Check(library != nullptr, "libcuda.so.1");
    void *const symbol = dlsym(library, name);
    Check(symbol != nullptr, name);
    return reinterpret_cast<Function *>(symbol);
}

using Pointer = unsigned long long;

static char *Allocate(std::size_t size)
{
    Pointer ptr = 0;
    Check(Driver<int(Pointer *, std::size_t)>("cuMemAlloc_v2")(&ptr, size) == 0, "device memory");
    return reinterpret_cast<char *>(static_cast<std::uintptr_t>(ptr));
}

static char *Seen(char *memory)
{
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    return static_cast<char *>(Driver<void *(Pointer)>("stand_in_shadow")(at));
}

int main(int argc, char **argv)
{
    Check(argc == 2, "gpu BUCKET");
    const std::size_t size = (1 << 20) + 5;
    const std::string data(size, 'g');
    char *const from = Allocate(size), *const to = Allocate(size);
    std::memcpy(Seen(from), data.data(), size);
    minio::creds::EnvAwsProvider keys;
    s3::Client client(s3::BaseUrl(std::getenv("S3RDMA_TEST_ENDPOINT"), false, "us-east-1"), &keys);

    s3::PutObjectArgs put;
    put.bucket = argv[1];
    put.object = "gpu";
    put.buf = from;
    put.size = size;
    const auto stored = client.PutObject(put);
    Check(static_cast<bool>(stored), stored.Error().String());

    s3::GetObjectArgs get;
    get.bucket = argv[1];
    get.object = "gpu";
    get.buf = to;
    get.size = size;
    const auto got = client.GetObject(get);
    Check(static_cast<bool>(got), got.Error().String());
    Check(std::memcmp(Seen(to), data.data(), size) == 0, "other bytes came back");
    return 0;
}
