/* SPDX-License-Identifier: Apache-2.0 */
/* nosync.c - preloaded in front of the server for the power-cut test's negative control: says that
 * all is safe and does nothing. A power cut must then lose what the server had acknowledged; were
 * it not so, the test would not test the syncs. */
#include <stddef.h>
#include <sys/types.h>

int fsync(int fd);
int fdatasync(int fd);
int syncfs(int fd);
int sync_file_range(int fd, off_t offset, off_t len, unsigned flags);
int msync(void *start, size_t len, int flags);

int fsync(int fd)
{
    return 0;
}

int fdatasync(int fd)
{
    return 0;
}

int syncfs(int fd)
{
    return 0;
}

int sync_file_range(int fd, off_t offset, off_t len, unsigned flags)
{
    return 0;
}

int msync(void *start, size_t len, int flags)
{
    return 0;
}
