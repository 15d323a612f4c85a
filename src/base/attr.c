/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void freep(void *pointer_to_pointer)
{
    void *p;
    memcpy(&p, pointer_to_pointer, sizeof p);
    free(p);
}

void closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
