/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, offsets and numbers that programs were compiled with. Compiled against today's headers and
 * against the frozen ones, for each processor that there is a compiler for. */
#include <assert.h>
#include <miniocpp/c_api.h>
#include <s3r/client.h>
#include <s3rdma.h>

#define AT(type, member, off, size)                                                                \
    static_assert(offsetof(type, member) == (off) && sizeof(((type *)0)->member) == (size),        \
                  #type "." #member)

static_assert(sizeof(S3RdmaStatusC) == 16, "S3RdmaStatusC");
AT(S3RdmaStatusC, size, 0, 8);
AT(S3RdmaStatusC, ibv_status, 8, 4);

static_assert(sizeof(S3RdmaAsyncEventC) == 24, "S3RdmaAsyncEventC");
AT(S3RdmaAsyncEventC, async_handle, 0, 8);
AT(S3RdmaAsyncEventC, status, 8, 8);
AT(S3RdmaAsyncEventC, ibv_status, 16, 4);

static_assert(sizeof(S3RdmaConfig) == 48, "S3RdmaConfig");
AT(S3RdmaConfig, num_dcis, 0, 4);
AT(S3RdmaConfig, cq_depth, 4, 4);
AT(S3RdmaConfig, dc_key, 8, 8);
AT(S3RdmaConfig, timeout, 16, 1);
AT(S3RdmaConfig, hop_limit, 20, 4);
AT(S3RdmaConfig, max_wr, 24, 4);
AT(S3RdmaConfig, max_sge, 28, 4);
AT(S3RdmaConfig, retry_cnt, 32, 1);
AT(S3RdmaConfig, service_level, 36, 4);
AT(S3RdmaConfig, traffic_class, 40, 4);
AT(S3RdmaConfig, pkey_index, 44, 4);

static_assert(sizeof(S3RdmaHandle) == 8 && sizeof(S3RdmaBufHandle) == 8 &&
                  sizeof(S3RdmaClientHandle) == 8,
              "handles");

static_assert(MINIOCPP_ERR_GENERIC == -1 && MINIOCPP_ERR_RDMA_DECLINED == -2 &&
                  MINIOCPP_ERR_INVALID_ARG == -3,
              "libminiocpp's errors");

/* Numbers that are fixed for ever. */
#define IS(name, value) static_assert((name) == (value), #name)

IS(S3R_OK, 0);
IS(S3R_ERROR_NOMEM, -1);
IS(S3R_ERROR_INTERNAL, -2);
IS(S3R_ERROR_INVALID_ARGUMENT, -3);
IS(S3R_ERROR_BUSY, -4);
IS(S3R_ERROR_CANCELLED, -5);
IS(S3R_ERROR_ABORTED, -6);
IS(S3R_ERROR_UNSUPPORTED, -7);
IS(S3R_ERROR_TIMEOUT, -20);
IS(S3R_ERROR_HTTP, -21);
IS(S3R_ERROR_BAD_REPLY, -22);
IS(S3R_ERROR_RDMA_UNAVAILABLE, -23);
IS(S3R_ERROR_RDMA_REGISTER, -24);
IS(S3R_ERROR_RDMA_REQUIRED, -25);
IS(S3R_ERROR_RDMA_UNFENCED, -26);
IS(S3R_ERROR_BUFFER_TOO_SMALL, -27);
IS(S3R_ERROR_CHECKSUM, -28);
IS(S3R_ERROR_CHANGED, -29);
IS(S3R_ERROR_REMOTE, -100);
IS(S3R_ERROR_ACCESS_DENIED, -101);
IS(S3R_ERROR_INVALID_ACCESS_KEY, -102);
IS(S3R_ERROR_SIGNATURE, -103);
IS(S3R_ERROR_TIME_SKEWED, -104);
IS(S3R_ERROR_NO_SUCH_BUCKET, -105);
IS(S3R_ERROR_NO_SUCH_KEY, -106);
IS(S3R_ERROR_NO_SUCH_UPLOAD, -107);
IS(S3R_ERROR_NO_SUCH_VERSION, -108);
IS(S3R_ERROR_BUCKET_EXISTS, -109);
IS(S3R_ERROR_BUCKET_NOT_EMPTY, -110);
IS(S3R_ERROR_INVALID_BUCKET_NAME, -111);
IS(S3R_ERROR_KEY_TOO_LONG, -112);
IS(S3R_ERROR_PRECONDITION, -113);
IS(S3R_ERROR_NOT_MODIFIED, -114);
IS(S3R_ERROR_CONFLICT, -115);
IS(S3R_ERROR_INVALID_RANGE, -116);
IS(S3R_ERROR_ENTITY_TOO_LARGE, -117);
IS(S3R_ERROR_ENTITY_TOO_SMALL, -118);
IS(S3R_ERROR_INVALID_PART, -119);
IS(S3R_ERROR_INVALID_REQUEST, -120);
IS(S3R_ERROR_METHOD_NOT_ALLOWED, -121);
IS(S3R_ERROR_STORE_FULL, -122);
IS(S3R_ERROR_UNAVAILABLE, -123);
IS(S3R_TRANSPORT_NONE, 0);
IS(S3R_TRANSPORT_RDMA, 1);
IS(S3R_TRANSPORT_HTTP, 2);
IS(S3R_REASON_NONE, 0);
IS(S3R_REASON_OFF, 1);
IS(S3R_REASON_NO_DEVICE, 2);
IS(S3R_REASON_TOO_LARGE, 3);
IS(S3R_REASON_DECLINED, 4);
IS(S3R_REASON_REFUSED, 5);
IS(S3R_REASON_IGNORED, 6);
IS(S3R_REASON_FAILED, 7);
IS(S3R_REASON_BAD_REPLY, 8);
IS(S3R_REASON_SERVER, 9);
IS(S3R_REASON_SILENT, 10);
IS(S3R_REASON_LOST, 11);
IS(S3R_REASON_CHECKSUM, 12);
IS(S3R_REASON_THRESHOLD, 13);
IS(S3R_REASON_MIXED, 14);
IS(S3R_CREDENTIALS_STATIC, 0);
IS(S3R_CREDENTIALS_ENVIRONMENT, 1);
IS(S3R_CREDENTIALS_FILES, 2);
IS(S3R_CREDENTIALS_DEFAULT, 3);
IS(S3R_RDMA_AUTO, 0);
IS(S3R_RDMA_REQUIRED, 1);
IS(S3R_RDMA_OFF, 2);
