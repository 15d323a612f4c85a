/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/pages.h"
#include "client/client.h"
#include "tools/cli.h"
#include "tools/doctor.h"
#include "tools/file.h"
#include "tools/json.h"
#include "tools/probe.h"
#include "tools/show.h"
#include "tools/sides.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIAL_LEN (1 * MIB)
#define SKEW_NOTE_S 5
#define SKEW_FIX_S 60 /* at LIMIT_SKEW_S servers refuse every request */

struct visit {
    struct cli *cli;
    struct doctor doctor;
    struct side at; /* where an object may be put for a moment; `text` NULL: nowhere */
};

static void tell(void *arg, const char *check, enum finding finding, const char *text)
{
    const struct cli *cli = arg;
    const struct field fields[] = {FIELD_T("check", check), FIELD_T("state", finding_name(finding)),
                                   FIELD_T("text", text)};
    if (cli->o.is_json)
        json_print(false, fields, ARRAY_LEN(fields));
    else if (!cli->o.is_quiet || finding == FINDING_FIX)
        show_line(stdout, "%-4s  %-9s %s", finding_name(finding), check, text);
    fflush(stdout);
}

/* ---- rails ---- */

static void try_device(struct visit *v, const char *name, bool is_wanted)
{
    struct probe probe = {.name = name};
    const char *shown = name[0] != '\0' ? name : "adapters";
    probe_run(&probe);
    if (probe.is_usable)
        doctor_say(&v->doctor, "loopback", FINDING_OK, "%s: 64 KiB moved within this process; %s",
                   shown, probe.rail);
    else
        doctor_say(&v->doctor, "loopback", is_wanted ? FINDING_FIX : FINDING_NOTE, "%s: %s", shown,
                   probe.why);
}

/* Those that are in use, each for itself, then the others that there could be. */
static void try_devices(struct visit *v, bool has_adapter)
{
    static const char *const others[] = {"cma", "ofi:tcp"};
    const char *list = v->cli->o.device != NULL ? v->cli->o.device : getenv("S3RDMA_DEVICE");
    char name[256];
    bool is_off = list != NULL && strcmp(list, "off") == 0;
    if (is_off)
        doctor_say(&v->doctor, "loopback", FINDING_NOTE, "RDMA is switched off (device is off)");
    for (const char *p = list; p != NULL && *p != '\0' && !is_off;) {
        size_t len = strcspn(p, ",");
        snprintf(name, sizeof(name), "%.*s", (int)len, p);
        try_device(v, name, true);
        p += len + (p[len] == ',');
    }
    if (list == NULL && has_adapter)
        try_device(v, "", true);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (list == NULL || !device_is_listed(list, others[i]))
            try_device(v, others[i], false);
}

/* ---- the server ---- */

/* The clock of a reply's Date header, against ours in the middle of the request. */
static void judge_clock(struct visit *v, const char *date, int64_t middle_ms)
{
    int64_t server_s;
    if (date == NULL || !clock_parse_http(date, &server_s)) {
        doctor_say(&v->doctor, "clock", FINDING_NOTE, "the server's replies have no Date");
        return;
    }
    /* Date has whole seconds. */
    long long skew = (long long)(server_s - middle_ms / 1000);
    enum finding finding = llabs(skew) >= SKEW_FIX_S   ? FINDING_FIX
                           : llabs(skew) > SKEW_NOTE_S ? FINDING_NOTE
                                                       : FINDING_OK;
    if (finding == FINDING_OK)
        doctor_say(&v->doctor, "clock", finding, "within %d s of the server's", SKEW_NOTE_S);
    else
        doctor_say(&v->doctor, "clock", finding,
                   "the server's is %lld s %s: requests are refused from %d s on; let both follow "
                   "NTP (timedatectl set-ntp true)",
                   llabs(skew), skew > 0 ? "ahead" : "behind", LIMIT_SKEW_S);
}

/* An object that is not there: the answer says whether somebody is, and whether he knows us. */
static bool greet(struct visit *v)
{
    const char *bucket = v->at.text != NULL ? v->at.address.bucket : "s3rdma-doctor";
    struct client_result result = {0};
    struct client_page page = {0};
    struct diag diag = {0};
    int64_t before_ms = clock_wall_ms();
    int e = client_stat(v->cli->client, bucket, "s3rdma-doctor", &diag, &result);
    int64_t middle_ms = before_ms + (clock_wall_ms() - before_ms) / 2;
    if (result.status != 0)
        judge_clock(v, headers_get(&result.headers, "date"), middle_ms);
    client_result_fini(&result);
    diag_clear(&diag);
    e = client_bucket_list(v->cli->client, &diag, &page);
    if (e == 0)
        doctor_say(&v->doctor, "server", FINDING_OK, "%s answers and knows the access key",
                   v->cli->endpoint);
    else if (exit_code(e) == EXIT_NO_SERVER)
        doctor_say(&v->doctor, "server", FINDING_FIX, "%s: %s: is it running, and the port open?",
                   v->cli->endpoint, diag_text(&diag, e));
    else
        doctor_say(&v->doctor, "server", FINDING_FIX, "%s: %s: look at the credentials",
                   v->cli->endpoint, diag_text(&diag, e));
    client_page_fini(&page);
    return e == 0;
}

/* Up from the first half of the pages and down into the second. */
static int there_and_back(struct visit *v, const char *key, char *pages, struct diag *diag,
                          struct client_result *up, struct client_result *down)
{
    const char *bucket = v->at.address.bucket;
    struct client *c = v->cli->client;
    struct client_result gone = {0};
    struct client_memory memory = {.ptr = pages, .len = TRIAL_LEN};
    random_bytes(pages, TRIAL_LEN);
    int e = client_put(c, bucket, key, &memory, NULL, diag, up);
    memory.ptr = pages + TRIAL_LEN;
    if (e == 0)
        e = client_get(c, bucket, key, CLIENT_WHOLE, &memory, NULL, diag, down);
    if (e == 0 && memcmp(pages, pages + TRIAL_LEN, TRIAL_LEN) != 0)
        e = diag_fail(diag, S3R_E_BAD_DIGEST, "other bytes came back than went there");
    struct diag ignored = {0};
    ignore_stop(true);
    int removed = client_delete(c, bucket, key, &ignored, &gone);
    ignore_stop(false);
    client_result_fini(&gone);
    return e != 0 ? e : removed;
}

static void tell_direction(struct visit *v, const char *what, const struct client_result *r)
{
    if (r->transport == CLIENT_RDMA)
        doctor_say(&v->doctor, "transfer", FINDING_OK, "%s: 1 MiB by RDMA (%s), %.1f ms", what,
                   r->provider, (double)r->elapsed_ns / 1e6);
    else
        doctor_say(&v->doctor, "transfer",
                   r->reason == CLIENT_REASON_OFF ? FINDING_NOTE : FINDING_FIX,
                   "%s: 1 MiB by HTTP and not by RDMA: %s (%s)", what, r->why,
                   client_reason_name(r->reason));
}

static void try_transfer(struct visit *v)
{
    struct client_result up = {0}, down = {0};
    struct diag diag = {0};
    char prefix[LIMIT_KEY_LEN_MAX + 2], key[2 * LIMIT_KEY_LEN_MAX];
    if (v->at.text == NULL) {
        doctor_say(&v->doctor, "transfer", FINDING_NOTE,
                   "not tried: s3rdma doctor s3://BUCKET puts an object there and removes it");
        return;
    }
    side_prefix(&v->at, prefix);
    snprintf(key, sizeof(key), "%ss3rdma-doctor-%016" PRIx64, prefix, random_u64());
    char *pages = pages_alloc(2 * TRIAL_LEN);
    int e = pages != NULL ? there_and_back(v, key, pages, &diag, &up, &down) : S3R_E_NOMEM;
    if (e == 0) {
        tell_direction(v, "to the server", &up);
        tell_direction(v, "back", &down);
    } else {
        doctor_say(&v->doctor, "transfer", FINDING_FIX, "%s", diag_text(&diag, e));
    }
    client_result_fini(&up);
    client_result_fini(&down);
    if (e != S3R_E_RDMA_UNFENCED)
        pages_free(pages, 2 * TRIAL_LEN);
}

static void visit_server(struct visit *v)
{
    struct diag diag = {0};
    int e = cli_try_connect(v->cli, &diag);
    if (v->cli->is_nowhere)
        doctor_say(&v->doctor, "server", FINDING_NOTE,
                   "none is named: --endpoint or AWS_ENDPOINT_URL says which");
    else if (e != 0)
        doctor_say(&v->doctor, "server", FINDING_FIX, "%s", diag_text(&diag, e));
    else if (greet(v))
        try_transfer(v);
}

int cmd_doctor(struct cli *cli)
{
    struct visit v = {.cli = cli, .doctor = {.root = "", .tell = tell, .arg = cli}, .at.root = -1};
    if (cli->o.arg_count > 1) {
        int code = side_parse(cli->o.args[1], &v.at);
        if (code != EXIT_OK)
            return code;
        if (!v.at.is_far)
            return usage_error("doctor takes s3://BUCKET[/PREFIX], where an object may be put");
    }
    bool has_adapter = doctor_adapters(&v.doctor);
    doctor_memlock(&v.doctor, has_adapter);
    doctor_gpu(&v.doctor, has_adapter);
    doctor_cma(&v.doctor);
    try_devices(&v, has_adapter);
    if (!is_stopped())
        visit_server(&v);
    side_finip(&v.at);
    return is_stopped() ? EXIT_STOPPED : v.doctor.has_fix ? EXIT_FAILED : EXIT_OK;
}
