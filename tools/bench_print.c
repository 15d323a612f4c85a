/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_print.h"

#include "base/limits.h"
#include "tools/json.h"
#include "tools/show.h"

#include <inttypes.h>
#include <stdio.h>

static void print_size(uint64_t size, char out[24])
{
    static const struct {
        uint64_t unit;
        const char *name;
    } units[] = {{MIB, "MiB"}, {KIB, "KiB"}, {1, "B"}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (size % units[i].unit == 0) {
            snprintf(out, 24, "%" PRIu64 " %s", size / units[i].unit, units[i].name);
            return;
        }
}

void bench_print_head(const struct cli *cli)
{
    if (!cli->o.is_json)
        printf("procs      size call by        GB/s     ops/s    p50 us    p90 us    p99 us"
               "  CPU s/GB  of HTTP\n");
}

static void print_json(const struct bench_row *r)
{
    const struct field fields[] = {
        FIELD_T("op", "bench"),
        FIELD_N("processes", r->processes),
        FIELD_N("size", r->size),
        FIELD_T("call", r->call == BENCH_PUT ? "put" : "get"),
        FIELD_T("by", r->is_rdma ? "rdma" : "http"),
        FIELD_T("provider", r->provider[0] != '\0' ? r->provider : NULL),
        FIELD_T("error", r->error != 0 ? error_name(r->error) : NULL),
        FIELD_T("why", r->error != 0 ? r->why : NULL),
        FIELD_N("ops", r->ops),
        FIELD_R("seconds", r->seconds),
        FIELD_R("gb_per_s", r->gb_per_s),
        FIELD_R("ops_per_s", r->ops_per_s),
        FIELD_R("p50_us", r->p50_us),
        FIELD_R("p90_us", r->p90_us),
        FIELD_R("p99_us", r->p99_us),
        FIELD_R("cpu_s_per_gb", r->cpu_s_per_gb),
        FIELD_R("of_http", r->of_http),
    };
    json_print(false, fields, ARRAY_LEN(fields) - (r->of_http > 0 ? 0 : 1));
}

void bench_print_row(const struct cli *cli, const struct bench_row *r)
{
    char size[24], ratio[24] = "";
    if (cli->o.is_json) {
        print_json(r);
        return;
    }
    print_size(r->size, size);
    printf("%5u %9s %-4s %-4s ", r->processes, size, r->call == BENCH_PUT ? "PUT" : "GET",
           r->is_rdma ? "RDMA" : "HTTP");
    if (r->error != 0) {
        show_line(stdout, "failed: %s", r->why);
        return;
    }
    if (r->of_http > 0)
        snprintf(ratio, sizeof(ratio), "%.2f", r->of_http);
    printf("%9.3f %9.1f %9.0f %9.0f %9.0f %9.2f %8s\n", r->gb_per_s, r->ops_per_s, r->p50_us,
           r->p90_us, r->p99_us, r->cpu_s_per_gb, ratio);
    fflush(stdout);
}
