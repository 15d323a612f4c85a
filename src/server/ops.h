/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h - the table of S3 operations, and the handlers in the ops_*.c files.
 * Does:     finds the operation of a request; says what is not offered.
 * Not here: a request's life (request.h).
 * Units:    none.
 * Owns:     nothing.
 * Threads:  any for the lookup; handlers as struct op says.
 * Errors:   S3R_E_UNSUPPORTED, S3R_E_METHOD_NOT_ALLOWED, and the codes of unset subresources.
 * Limits:   none. */
#ifndef S3R_SERVER_OPS_H
#define S3R_SERVER_OPS_H

#include "server/request.h"

/* By method, target, query and headers. */
int op_find(const struct request *r, struct diag *diag, const struct op **ret_op) MUST_CHECK;

int op_backup(struct request *r);
int op_list_buckets(struct request *r);
int op_create_bucket(struct request *r);
int op_head_bucket(struct request *r);
int op_delete_bucket(struct request *r);
int op_get_location(struct request *r);
int op_get_versioning(struct request *r);
int op_get_acl(struct request *r);
int op_put_acl(struct request *r);
int op_list_objects(struct request *r);
int op_list_objects_v2(struct request *r);
int op_list_uploads(struct request *r);
int op_delete_objects(struct request *r);
int op_get_attributes(struct request *r);
int op_get_object(struct request *r);
int op_get_object_now(struct request *r);
int op_head_object(struct request *r);
int op_put_object_prepare(struct request *r);
int op_put_object(struct request *r);
int op_copy_object(struct request *r);
int op_delete_object(struct request *r);
int op_create_upload(struct request *r);
int op_upload_part_prepare(struct request *r);
int op_upload_part(struct request *r);
int op_upload_part_copy(struct request *r);
int op_complete_upload(struct request *r);
int op_abort_upload(struct request *r);
int op_list_parts(struct request *r);

#endif
