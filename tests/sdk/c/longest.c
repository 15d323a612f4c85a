/* SPDX-License-Identifier: Apache-2.0 */
/* longest BUCKET BYTES: a stream of so many bytes whose length is not told, in the shortest pieces,
 * as the key `k`. Endpoint and keys come from the environment. Prints what became of it. */
#include "content.h"

#include <s3r/client.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE ((uint64_t)5 << 20)

static int64_t give(void *arg, void *buf, size_t size)
{
    uint64_t *left = arg, n = *left < size ? *left : size;
    (void)buf; /* what the bytes are does not matter here */
    *left -= n;
    return (int64_t)n;
}

int main(int argc, char **argv)
{
    struct s3r_config *config = s3r_config_new();
    struct s3r_options *options = s3r_options_new();
    struct s3r_result *result = s3r_result_new();
    struct s3r_client *client = NULL;
    if (argc != 3)
        return 2;
    uint64_t left = number(argv[2]);
    s3r_config_set_credentials(config, S3R_CREDENTIALS_ENVIRONMENT, NULL);
    s3r_options_set_pieces(options, PIECE, 2);
    s3r_options_set_rdma(options, S3R_RDMA_REQUIRED);
    int e = s3r_client_new(config, result, &client);
    s3r_config_free(config);
    if (e == S3R_OK)
        e = s3r_put_stream(client, argv[1], "k", S3R_UNKNOWN, give, &left, options, result);
    printf("{\"error\": \"%s\", \"message\": \"%s\", \"left\": %llu}\n", s3r_error_name(e),
           s3r_result_message(result), (unsigned long long)left);
    s3r_client_free(client);
    s3r_options_free(options);
    s3r_result_free(result);
    return 0;
}
