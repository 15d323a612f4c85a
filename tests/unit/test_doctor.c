// SPDX-License-Identifier: Apache-2.0
/* What s3rdma doctor says of machines that are not here: folders stand for their /sys and /proc. */
#include "cm.h"

#include "tools/doctor.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct machine {
    char root[64];
    struct doctor doctor;
    char said[4096]; /* "CHECK STATE TEXT\n" each */
};

static void tell(void *arg, const char *check, enum finding finding, const char *text)
{
    struct machine *m = arg;
    size_t len = strlen(m->said);
    snprintf(m->said + len, sizeof(m->said) - len, "%s %s %s\n", check, finding_name(finding),
             text);
}

static int set_up(void **state)
{
    struct machine *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    snprintf(m->root, sizeof(m->root), "/tmp/s3rdma-doctor-XXXXXX");
    assert_non_null(mkdtemp(m->root));
    m->doctor = (struct doctor){.root = m->root, .tell = tell, .arg = m};
    *state = m;
    return 0;
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    return remove(path);
}

static int tear_down(void **state)
{
    struct machine *m = *state;
    nftw(m->root, drop, 16, FTW_DEPTH | FTW_PHYS);
    free(m);
    return 0;
}

static void put(struct machine *m, const char *path, const void *bytes, size_t len)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", m->root, path);
    for (char *p = full + strlen(m->root) + 1; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(full, 0700);
            *p = '/';
        }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

static void line(struct machine *m, const char *path, const char *text)
{
    put(m, path, text, strlen(text));
}

#define PORT "/sys/class/infiniband/mlx5_0/ports/1/"
#define NO_GID "0000:0000:0000:0000:0000:0000:0000:0000\n"

static void make_adapter(struct machine *m, const char *state, const char *link)
{
    line(m, PORT "state", state);
    line(m, PORT "link_layer", link);
    line(m, PORT "rate", "400 Gb/sec (4X NDR)\n");
    line(m, "/sys/class/infiniband_verbs/abi_version", "6\n");
    line(m, PORT "gids/0", "fe80:0000:0000:0000:0000:0000:0a00:0001\n");
    line(m, PORT "gid_attrs/types/0", "RoCE v2\n");
    line(m, PORT "gids/1", NO_GID);
}

static void make_gpu(struct machine *m, const char *kernel)
{
    line(m, "/proc/driver/nvidia/version", "NVRM version: x\n");
    line(m, "/proc/sys/kernel/osrelease", kernel);
}

/* A PCI bridge whose ACS capability lies behind another one. */
static void make_bridge(struct machine *m, unsigned char control)
{
    unsigned char config[4096] = {0};
    const unsigned char first[] = {0x01, 0x00, 0x01, 0x20}; /* id 1, next at 0x200 */
    const unsigned char acs[] = {0x0d, 0x00, 0x01, 0x00, 0x1f, 0x00, control, 0x00};
    memcpy(config + 0x100, first, sizeof(first));
    memcpy(config + 0x200, acs, sizeof(acs));
    line(m, "/sys/bus/pci/devices/0000:00:01.0/class", "0x060400\n");
    put(m, "/sys/bus/pci/devices/0000:00:01.0/config", config, sizeof(config));
}

static void says(struct machine *m, const char *text)
{
    if (strstr(m->said, text) == NULL)
        fail_msg("no \"%s\" in:\n%s", text, m->said);
}

static void no_adapter_is_no_fault(void **state)
{
    struct machine *m = *state;
    assert_false(doctor_adapters(&m->doctor));
    doctor_gpu(&m->doctor, false);
    says(m, "devices note no RDMA adapter");
    assert_false(m->doctor.has_fix);
}

static void an_active_port_with_an_address_is_ok(void **state)
{
    struct machine *m = *state;
    make_adapter(m, "4: ACTIVE\n", "Ethernet\n");
    line(m, PORT "gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    line(m, PORT "gid_attrs/types/3", "RoCE v2\n");
    assert_true(doctor_adapters(&m->doctor));
    says(m, "ports ok mlx5_0 port 1: Ethernet, 400 Gb/sec");
    says(m, "gids ok mlx5_0 port 1: 2 GIDs, 1 that can be routed");
    assert_false(m->doctor.has_fix);
}

static void link_local_and_version_1_gids_are_not_enough_on_ethernet(void **state)
{
    struct machine *m = *state;
    make_adapter(m, "4: ACTIVE\n", "Ethernet\n");
    line(m, PORT "gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    line(m, PORT "gid_attrs/types/3", "IB/RoCE v1\n");
    doctor_adapters(&m->doctor);
    says(m, "gids fix mlx5_0 port 1 has 2 GIDs, none of RoCE v2");
    assert_true(m->doctor.has_fix);
}

static void link_local_is_enough_on_infiniband(void **state)
{
    struct machine *m = *state;
    make_adapter(m, "4: ACTIVE\n", "InfiniBand\n");
    doctor_adapters(&m->doctor);
    says(m, "gids ok");
    assert_false(m->doctor.has_fix);
}

static void a_port_without_gids_is_named(void **state)
{
    struct machine *m = *state;
    make_adapter(m, "4: ACTIVE\n", "Ethernet\n");
    line(m, PORT "gids/0", NO_GID);
    doctor_adapters(&m->doctor);
    says(m, "gids fix mlx5_0 port 1 has no GID");
}

static void no_active_port_at_all_is_a_fault(void **state)
{
    struct machine *m = *state;
    make_adapter(m, "1: DOWN\n", "InfiniBand\n");
    doctor_adapters(&m->doctor);
    says(m, "ports note mlx5_0 port 1 (InfiniBand) is 1: DOWN");
    says(m, "devices fix 1 adapters, and no port");
}

static void adapters_that_programs_cannot_reach_are_a_fault(void **state)
{
    struct machine *m = *state;
    char path[128];
    make_adapter(m, "4: ACTIVE\n", "InfiniBand\n");
    snprintf(path, sizeof(path), "%s/sys/class/infiniband_verbs/abi_version", m->root);
    assert_int_equal(unlink(path), 0);
    doctor_adapters(&m->doctor);
    says(m, "devices fix programs cannot reach");
}

static void peer_memory_or_a_new_kernel_serves_gpus(void **state)
{
    struct machine *m = *state;
    make_gpu(m, "6.8.0-31-generic\n");
    doctor_gpu(&m->doctor, true);
    says(m, "peermem note");
    says(m, "dma-buf ok");
    assert_false(m->doctor.has_fix);
    line(m, "/sys/module/nvidia_peermem/version", "1\n");
    line(m, "/proc/sys/kernel/osrelease", "5.4.0\n");
    doctor_gpu(&m->doctor, true);
    says(m, "peermem ok");
    says(m, "dma-buf ok this kernel is older");
    assert_false(m->doctor.has_fix);
}

static void neither_is_a_fault_where_there_is_an_adapter(void **state)
{
    struct machine *m = *state;
    make_gpu(m, "5.11.9\n");
    doctor_gpu(&m->doctor, true);
    says(m, "peermem fix");
    says(m, "dma-buf fix");
}

static void a_bridge_that_redirects_matters_with_gpu_and_adapter(void **state)
{
    struct machine *m = *state;
    make_bridge(m, 0x0c);
    doctor_gpu(&m->doctor, true);
    says(m, "acs note 1 PCI bridges (0000:00:01.0 first)");
    assert_false(m->doctor.has_fix);
    make_gpu(m, "6.1.0\n");
    doctor_gpu(&m->doctor, true);
    says(m, "acs fix 1 PCI bridges");
}

static void a_bridge_that_only_checks_sources_is_fine(void **state)
{
    struct machine *m = *state;
    make_bridge(m, 0x01);
    make_gpu(m, "6.1.0\n");
    doctor_gpu(&m->doctor, true);
    says(m, "acs ok no PCI bridge of 1");
}

static void what_only_root_may_read_is_said_to_be_so(void **state)
{
    struct machine *m = *state;
    make_bridge(m, 0x0c);
    put(m, "/sys/bus/pci/devices/0000:00:01.0/config", (char[64]){0}, 64);
    doctor_gpu(&m->doctor, true);
    says(m, "acs note 1 of 1 PCI bridges can only be judged by root");
}

static void ptrace_scopes_are_told_apart(void **state)
{
    struct machine *m = *state;
    static const char *const wanted[] = {"ptrace ok kernel", "ptrace ok kernel", "ptrace fix",
                                         "ptrace fix"};
    doctor_cma(&m->doctor);
    says(m, "ptrace ok no yama");
    for (int scope = 0; scope < 4; scope++) {
        char text[8];
        snprintf(text, sizeof(text), "%d\n", scope);
        line(m, "/proc/sys/kernel/yama/ptrace_scope", text);
        m->said[0] = '\0';
        m->doctor.has_fix = false;
        doctor_cma(&m->doctor);
        says(m, wanted[scope]);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(no_adapter_is_no_fault),
        T(an_active_port_with_an_address_is_ok),
        T(link_local_and_version_1_gids_are_not_enough_on_ethernet),
        T(link_local_is_enough_on_infiniband),
        T(a_port_without_gids_is_named),
        T(no_active_port_at_all_is_a_fault),
        T(adapters_that_programs_cannot_reach_are_a_fault),
        T(peer_memory_or_a_new_kernel_serves_gpus),
        T(neither_is_a_fault_where_there_is_an_adapter),
        T(a_bridge_that_redirects_matters_with_gpu_and_adapter),
        T(a_bridge_that_only_checks_sources_is_fine),
        T(what_only_root_may_read_is_said_to_be_so),
        T(ptrace_scopes_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
