/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/moves.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/num.h"
#include "tools/place.h"
#include "tools/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int move_piece_len(const struct cli *cli, uint64_t len, struct diag *diag, size_t *ret_piece_len)
{
    uint64_t piece = cli->o.part_len > 0 ? cli->o.part_len : CREW_PART_LEN;
    uint64_t least = (len + LIMIT_PARTS_MAX - 1) / LIMIT_PARTS_MAX;
    if (least > piece && cli->o.part_len > 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "an object has at most %d parts: --part-size %llu or more is needed",
                         LIMIT_PARTS_MAX, (unsigned long long)least);
    *ret_piece_len = (size_t)(least > piece ? align_up(least, MIB) : piece);
    return 0;
}

bool move_may_go_on(int error)
{
    return error == S3R_E_CANCELLED || exit_code(error) == EXIT_DENIED ||
           error_http_status(error) >= 500;
}

static char *joined(const char *head, const char *a, const char *b)
{
    struct text text;
    text_init(&text, SHOW_LEN_MAX);
    text_str(&text, head);
    show_add(&text, a);
    if (a[0] != '\0' && a[strlen(a) - 1] != '/')
        text_char(&text, '/');
    show_add(&text, b);
    return text_take(&text);
}

char *near_text(const struct near_place *place)
{
    return joined("", place->shown, place->name);
}

char *far_text(const char *bucket, const char *key)
{
    return joined("s3://", bucket, key);
}

/* ---- removals ---- */

struct errand {
    struct job job;
    char *from; /* for people */
    char *bucket, *key, *name;
    int root;
};

static void errand_free(struct job *j)
{
    struct errand *e = (struct errand *)j;
    free(e->from);
    free(e->bucket);
    free(e->key);
    free(e->name);
    free(e);
}

static int errand_end(struct job *j, struct hand *h, int error)
{
    return error;
}

static int remove_far_begin(struct job *j, struct hand *h)
{
    struct errand *e = (struct errand *)j;
    if (hand_cli(h)->o.is_dry_run)
        return 0;
    struct client_result result = {0};
    int error = client_delete(hand_cli(h)->client, e->bucket, e->key, &j->diag, &result);
    hand_moved(h, j, &result);
    client_result_fini(&result);
    return error;
}

static int remove_near_begin(struct job *j, struct hand *h)
{
    struct errand *e = (struct errand *)j;
    if (hand_cli(h)->o.is_dry_run)
        return 0;
    return place_remove(e->root, e->name, &j->diag);
}

static const struct job_kind remove_far_kind = {"remove", remove_far_begin, NULL, errand_end,
                                                errand_free};
static const struct job_kind remove_near_kind = {"remove", remove_near_begin, NULL, errand_end,
                                                 errand_free};

int remove_far(struct crew *crew, const struct far_place *place)
{
    struct errand *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return S3R_E_NOMEM;
    *e = (struct errand){
        .from = far_text(place->bucket, place->key),
        .bucket = strdup(place->bucket),
        .key = strdup(place->key),
        .root = -1,
    };
    e->job = (struct job){.kind = &remove_far_kind, .from = e->from};
    if (e->from == NULL || e->bucket == NULL || e->key == NULL) {
        errand_free(&e->job);
        return S3R_E_NOMEM;
    }
    crew_add(crew, &e->job);
    return 0;
}

int remove_near(struct crew *crew, const struct near_place *place)
{
    struct errand *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return S3R_E_NOMEM;
    *e =
        (struct errand){.from = near_text(place), .name = strdup(place->name), .root = place->root};
    e->job = (struct job){.kind = &remove_near_kind, .from = e->from};
    if (e->from == NULL || e->name == NULL) {
        errand_free(&e->job);
        return S3R_E_NOMEM;
    }
    crew_add(crew, &e->job);
    return 0;
}
