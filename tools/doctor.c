/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/doctor.h"

#include "base/limits.h"
#include "base/num.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MEMLOCK_MIN (1 * GIB)
#define CAP_IPC_LOCK_BIT (UINT64_C(1) << 14)

const char *finding_name(enum finding finding)
{
    return finding == FINDING_OK ? "ok" : finding == FINDING_NOTE ? "note" : "fix";
}

void doctor_say(struct doctor *d, const char *check, enum finding finding, const char *fmt, ...)
{
    char text[DOCTOR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    d->has_fix = d->has_fix || finding == FINDING_FIX;
    d->tell(d->arg, check, finding, text);
}

/* ---- files ---- */

/* The first line of a small file; false when there is none. */
static bool read_line(const struct doctor *d, const char *path, char *out, size_t size)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", d->root, path);
    CLEANUP(closep) int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (n < 0)
        return false;
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return true;
}

static bool exists(const struct doctor *d, const char *path)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", d->root, path);
    return access(full, F_OK) == 0;
}

/* fn(d, PATH/NAME, NAME) for each entry; how many there were. */
static int each(struct doctor *d, const char *path,
                void fn(struct doctor *d, const char *path, const char *name, void *arg), void *arg)
{
    char full[PATH_MAX], below[PATH_MAX];
    int count = 0;
    snprintf(full, sizeof(full), "%s%s", d->root, path);
    DIR *dir = opendir(full);
    if (dir == NULL)
        return 0;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        int n = snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof(below))
            continue;
        fn(d, below, e->d_name, arg);
        count++;
    }
    closedir(dir);
    return count;
}

/* ---- adapters ---- */

struct ports {
    const char *device;
    int active, down;
    bool is_ethernet;
    int gids, routable;
};

/* "fe80:0000:...": link-local; all zeroes: empty. A RoCE v1 entry cannot cross a router. */
static void count_gid(struct doctor *d, const char *path, const char *name, void *arg)
{
    struct ports *p = arg;
    char gid[64], type[32] = "", type_path[PATH_MAX];
    size_t head = strlen(path) - strlen(name) - strlen("gids/");
    if (!read_line(d, path, gid, sizeof(gid)) || strspn(gid, "0:") == strlen(gid))
        return;
    p->gids++;
    snprintf(type_path, sizeof(type_path), "%.*sgid_attrs/types/%s", (int)head, path, name);
    bool has_type = read_line(d, type_path, type, sizeof(type));
    bool is_v2 = !has_type || strstr(type, "v2") != NULL;
    p->routable += !p->is_ethernet || (is_v2 && strncmp(gid, "fe80:", 5) != 0);
}

static void judge_gids(struct doctor *d, const struct ports *p, const char *port)
{
    if (p->gids == 0)
        doctor_say(d, "gids", FINDING_FIX,
                   "%s port %s has no GID: in a container, give it the adapter's network interface "
                   "(host networking, or a secondary network)",
                   p->device, port);
    else if (p->routable == 0)
        doctor_say(d, "gids", FINDING_FIX,
                   "%s port %s has %d GIDs, none of RoCE v2 with an address: give its network "
                   "interface an IP address",
                   p->device, port, p->gids);
    else
        doctor_say(d, "gids", FINDING_OK, "%s port %s: %d GIDs, %d that can be routed", p->device,
                   port, p->gids, p->routable);
}

static void look_at_port(struct doctor *d, const char *path, const char *name, void *arg)
{
    struct ports *p = arg;
    char file[PATH_MAX], state[64] = "unknown", link[64] = "unknown", rate[64];
    snprintf(file, sizeof(file), "%.4000s/state", path);
    read_line(d, file, state, sizeof(state));
    snprintf(file, sizeof(file), "%.4000s/link_layer", path);
    bool has_link = read_line(d, file, link, sizeof(link));
    snprintf(file, sizeof(file), "%.4000s/rate", path);
    bool has_rate = read_line(d, file, rate, sizeof(rate));
    p->is_ethernet = has_link && strcmp(link, "Ethernet") == 0;
    if (strstr(state, "ACTIVE") == NULL) {
        p->down++;
        doctor_say(d, "ports", FINDING_NOTE, "%s port %s (%s) is %s: %s", p->device, name, link,
                   state,
                   p->is_ethernet ? "look at the cable, and set its network interface up"
                                  : "look at the cable, and whether a subnet manager runs");
        return;
    }
    p->active++;
    doctor_say(d, "ports", FINDING_OK, "%s port %s: %s, %s", p->device, name, link,
               has_rate ? rate : "rate unknown");
    p->gids = p->routable = 0;
    snprintf(file, sizeof(file), "%.4000s/gids", path);
    each(d, file, count_gid, p);
    judge_gids(d, p, name);
}

static void look_at_adapter(struct doctor *d, const char *path, const char *name, void *arg)
{
    struct ports *all = arg;
    char ports[PATH_MAX];
    struct ports p = {.device = name};
    snprintf(ports, sizeof(ports), "%.4000s/ports", path);
    each(d, ports, look_at_port, &p);
    all->active += p.active;
}

bool doctor_adapters(struct doctor *d)
{
    struct ports all = {0};
    int count = each(d, "/sys/class/infiniband", look_at_adapter, &all);
    if (count == 0)
        doctor_say(d, "devices", FINDING_NOTE,
                   "no RDMA adapter here: cma serves within this host, ofi:tcp between hosts");
    else if (all.active == 0)
        doctor_say(d, "devices", FINDING_FIX, "%d adapters, and no port of them is ACTIVE", count);
    else
        doctor_say(d, "devices", FINDING_OK, "%d adapters, %d ACTIVE ports", count, all.active);
    if (count > 0 && !exists(d, "/sys/class/infiniband_verbs/abi_version"))
        doctor_say(d, "devices", FINDING_FIX,
                   "programs cannot reach the adapters: modprobe ib_uverbs; in a container pass "
                   "/dev/infiniband on");
    return count > 0;
}

/* ---- memory ---- */

static bool may_lock_anything(const struct doctor *d)
{
    char line[256], full[PATH_MAX];
    bool may = false;
    snprintf(full, sizeof(full), "%s/proc/self/status", d->root);
    FILE *f = fopen(full, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        const char *digits = line + strcspn(line, "\t") + 1;
        uint64_t caps;
        if (strncmp(line, "CapEff:", 7) == 0 && strlen(line) > 8 &&
            num_parse_hex(digits, strcspn(digits, "\n"), 1, 16, &caps))
            may = (caps & CAP_IPC_LOCK_BIT) != 0;
    }
    if (f != NULL)
        fclose(f);
    return may;
}

void doctor_memlock(struct doctor *d, bool has_adapter)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    bool is_enough = limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= MEMLOCK_MIN;
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_say(d, "memlock", FINDING_OK, "unlimited");
    else if (is_enough || may_lock_anything(d))
        doctor_say(d, "memlock", FINDING_OK, "%llu MiB%s",
                   (unsigned long long)(limit.rlim_cur / MIB),
                   is_enough ? "" : ", and the right to lock more (CAP_IPC_LOCK)");
    else
        doctor_say(d, "memlock", has_adapter ? FINDING_FIX : FINDING_NOTE,
                   "%llu KiB may be locked, which an adapter needs for every buffer: ulimit -l "
                   "unlimited, in /etc/security/limits.conf, or LimitMEMLOCK=infinity of the "
                   "service; docker run --ulimit memlock=-1. cma and ofi:tcp need none",
                   (unsigned long long)(limit.rlim_cur / KIB));
}

/* ---- GPUs ---- */

/* dma-buf memory regions came with Linux 5.12. */
static bool has_dma_buf(const struct doctor *d)
{
    char release[64];
    struct utsname u;
    if (!read_line(d, "/proc/sys/kernel/osrelease", release, sizeof(release))) {
        if (uname(&u) != 0)
            return false;
        snprintf(release, sizeof(release), "%.63s", u.release);
    }
    uint64_t major, minor;
    size_t n = strspn(release, "0123456789");
    if (release[n] != '.' || !num_parse_dec(release, n, 1000, &major) ||
        !num_parse_dec(release + n + 1, strspn(release + n + 1, "0123456789"), 1000, &minor))
        return false;
    return major > 5 || (major == 5 && minor >= 12);
}

struct bridges {
    int count, unread, redirecting;
    char name[32];
};

static uint32_t le32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* PCI Express extended capability 0x000d: control at +6; bits 2 and 3 send peers' requests and
 * completions up to the root instead of across. */
static bool is_redirecting(const unsigned char *config, size_t len)
{
    size_t at = 0x100;
    for (int hops = 0; hops < 64 && at >= 0x100 && at + 8 <= len; hops++) {
        uint32_t head = le32(config + at);
        if ((head & 0xffff) == 0x000d)
            return (config[at + 6] & 0x0c) != 0;
        at = head >> 20;
    }
    return false;
}

static void look_at_bridge(struct doctor *d, const char *path, const char *name, void *arg)
{
    struct bridges *b = arg;
    char file[PATH_MAX], class[16] = "";
    unsigned char config[4096];
    snprintf(file, sizeof(file), "%.4000s/class", path);
    if (!read_line(d, file, class, sizeof(class)) || strncmp(class, "0x0604", 6) != 0)
        return;
    b->count++;
    snprintf(file, sizeof(file), "%s%.3000s/config", d->root, path);
    CLEANUP(closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? pread(fd, config, sizeof(config), 0) : -1;
    if (len <= 256) {
        b->unread++; /* the kernel shows the rest to root only */
    } else if (is_redirecting(config, (size_t)len)) {
        if (b->redirecting++ == 0)
            snprintf(b->name, sizeof(b->name), "%.31s", name);
    }
}

static void look_at_acs(struct doctor *d, bool is_needed)
{
    struct bridges b = {0};
    each(d, "/sys/bus/pci/devices", look_at_bridge, &b);
    if (b.redirecting > 0)
        doctor_say(d, "acs", is_needed ? FINDING_FIX : FINDING_NOTE,
                   "%d PCI bridges (%s first) send traffic between a GPU and an adapter up to the "
                   "root complex (ACS): where transfers of GPU memory are slow or fail, switch ACS "
                   "off in the firmware, or on such bridges with setpci",
                   b.redirecting, b.name);
    else if (b.unread > 0)
        doctor_say(d, "acs", FINDING_NOTE,
                   "%d of %d PCI bridges can only be judged by root: it matters for GPU memory",
                   b.unread, b.count);
    else
        doctor_say(d, "acs", FINDING_OK, "no PCI bridge of %d sends peers' traffic to the root",
                   b.count);
}

void doctor_gpu(struct doctor *d, bool has_adapter)
{
    bool has_gpu = exists(d, "/proc/driver/nvidia/version") || exists(d, "/sys/module/nvidia");
    bool has_peermem = exists(d, "/sys/module/nvidia_peermem");
    if (!has_gpu) {
        doctor_say(d, "peermem", FINDING_OK, "no NVIDIA driver here: nothing to look at");
    } else if (has_peermem) {
        doctor_say(d, "peermem", FINDING_OK, "nvidia_peermem is loaded");
    } else {
        bool is_fine = has_dma_buf(d) || !has_adapter;
        doctor_say(d, "peermem", is_fine ? FINDING_NOTE : FINDING_FIX,
                   "nvidia_peermem is not loaded%s: modprobe nvidia_peermem",
                   is_fine ? "; it is needed where dma-buf cannot be had" : "");
    }
    if (has_gpu)
        doctor_say(d, "dma-buf", has_dma_buf(d) || has_peermem ? FINDING_OK : FINDING_FIX, "%s",
                   has_dma_buf(d) ? "the kernel knows it; the driver must be the open one (its "
                                    "version line in /proc/driver/nvidia/version says Open)"
                   : has_peermem  ? "this kernel is older than 5.12: nvidia_peermem is used"
                                  : "this kernel is older than 5.12: update it, or load "
                                    "nvidia_peermem");
    look_at_acs(d, has_gpu && has_adapter);
}

/* ---- cma ---- */

static void look_at_seccomp(struct doctor *d)
{
    char from[8] = "s3rdma", to[8] = "";
    const struct iovec local = {to, sizeof(to)}, remote = {from, sizeof(from)};
    ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (n == (ssize_t)sizeof(to) && memcmp(from, to, sizeof(to)) == 0)
        doctor_say(d, "seccomp", FINDING_OK, "process_vm_readv is permitted");
    else
        doctor_say(d, "seccomp", FINDING_FIX,
                   "process_vm_readv: %s: cma cannot work; in a container run with --cap-add "
                   "SYS_PTRACE or another --security-opt seccomp profile",
                   strerrordesc_np(errno));
}

void doctor_cma(struct doctor *d)
{
    char scope[16] = "";
    bool has_yama = read_line(d, "/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope));
    if (!has_yama || scope[0] == '0')
        doctor_say(d, "ptrace", FINDING_OK, "%s",
                   has_yama ? "kernel.yama.ptrace_scope is 0" : "no yama here");
    else if (scope[0] == '1')
        doctor_say(
            d, "ptrace", FINDING_OK,
            "kernel.yama.ptrace_scope is 1: clients of cma permit their server by themselves");
    else
        doctor_say(d, "ptrace", FINDING_FIX, "kernel.yama.ptrace_scope is %s: %s", scope,
                   scope[0] == '2'
                       ? "cma needs CAP_SYS_PTRACE for the server, or sysctl "
                         "kernel.yama.ptrace_scope=1"
                       : "cma cannot work until the next start with a lower one; use ofi:tcp");
    look_at_seccomp(d);
}
