/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rows.h"

#include "store/le.h"

#include <assert.h>
#include <string.h>

void row_begin(struct row_key *row, char table)
{
    row->data[0] = (unsigned char)table;
    row->len = 1;
}

void row_add(struct row_key *row, const void *bytes, size_t len)
{
    assert(len <= sizeof(row->data) - row->len);
    if (len)
        memcpy(row->data + row->len, bytes, len);
    row->len += len;
}

void row_add_zero(struct row_key *row)
{
    row_add(row, "", 1);
}

void row_bucket(struct row_key *row, const char *name)
{
    row_begin(row, ROW_BUCKET);
    row_add(row, name, strlen(name));
}

void row_of_bucket(struct row_key *row, char table, const char *bucket)
{
    row_begin(row, table);
    row_add(row, bucket, strlen(bucket) + 1);
}

void row_object(struct row_key *row, const struct store_key *key)
{
    row_of_bucket(row, ROW_OBJECT, key->bucket);
    row_add(row, key->key, key->key_len);
}

void row_upload(struct row_key *row, char table, const struct store_key *key, const char *id)
{
    row_of_bucket(row, table, key->bucket);
    row_add(row, key->key, key->key_len);
    row_add_zero(row);
    row_add(row, id, strlen(id));
}

void row_part(struct row_key *row, const char *id, uint32_t number)
{
    unsigned char be[4];
    row_begin(row, ROW_PART);
    row_add(row, id, strlen(id) + 1);
    be32_store(be, number);
    row_add(row, be, sizeof(be));
}

void row_file(struct row_key *row, char table, uint64_t file_id)
{
    unsigned char be[8];
    row_begin(row, table);
    be64_store(be, file_id);
    row_add(row, be, sizeof(be));
}

void row_single(struct row_key *row, const char *name)
{
    row_begin(row, ROW_SINGLE);
    row_add(row, name, strlen(name));
}

void row_after_prefix(struct row_key *row)
{
    while (row->len && row->data[row->len - 1] == 0xff)
        row->len--;
    assert(row->len); /* the table's letter is no 0xff */
    row->data[row->len - 1]++;
}
