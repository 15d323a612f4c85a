/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli.h"
#include "tools/json.h"
#include "tools/probe.h"
#include "tools/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_probe(const struct cli *cli, const struct probe *p, bool is_named)
{
    const char *name = p->name[0] != '\0' ? p->name : "adapters";
    if (cli->o.is_json) {
        const struct field fields[] = {
            FIELD_T("device", name),
            FIELD_T("state", p->is_usable ? "usable" : "unusable"),
            FIELD_B("in_use", is_named),
            FIELD_T("rail", p->rail[0] != '\0' ? p->rail : NULL),
            FIELD_T("why", p->why[0] != '\0' ? p->why : NULL),
        };
        json_print(false, fields, ARRAY_LEN(fields));
        return;
    }
    show_line(stdout, "%-20s %-9s %s%s%s", name, p->is_usable ? "usable" : "unusable", p->rail,
              p->rail[0] != '\0' && p->why[0] != '\0' ? "; " : "", p->why);
}

/* Those of the list. EXIT_FAILED when none of them can be used. */
static int probe_list(const struct cli *cli, const char *list)
{
    bool has_usable = false;
    char name[256];
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ",");
        if (len >= sizeof(name))
            return usage_error("a device's name has at most %zu characters", sizeof(name) - 1);
        memcpy(name, p, len);
        name[len] = '\0';
        struct probe probe = {.name = name};
        probe_run(&probe);
        has_usable = has_usable || probe.is_usable;
        print_probe(cli, &probe, true);
        p += len;
        if (*p == '\0')
            return has_usable ? EXIT_OK : EXIT_FAILED;
    }
}

int cmd_devices(struct cli *cli)
{
    const char *list = cli->o.device != NULL ? cli->o.device : getenv("S3RDMA_DEVICE");
    const char *where = cli->o.device != NULL ? "--device" : "S3RDMA_DEVICE";
    if (list != NULL && strcmp(list, "off") == 0) {
        printf("RDMA is switched off (%s is off)\n", where);
        list = NULL;
    }
    bool is_text = !cli->o.is_json && !cli->o.is_quiet;
    if (list != NULL && is_text)
        printf("in use (%s):\n", where);
    else if (is_text)
        printf("in use, as nothing is named: every adapter with an ACTIVE port:\n");
    int code = probe_list(cli, list != NULL ? list : "");
    static const char *const candidates[] = {"cma", "ofi:tcp"};
    if (is_text)
        printf("others that S3RDMA_DEVICE or --device can name here:\n");
    for (size_t i = 0; i < ARRAY_LEN(candidates) && code != EXIT_USAGE; i++) {
        if (device_is_listed(list, candidates[i]))
            continue;
        struct probe probe = {.name = candidates[i]};
        probe_run(&probe);
        print_probe(cli, &probe, false);
    }
    return code;
}
