/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_server.h - an HTTP server in a test's own process, which knows one object and no RDMA: a
 * request with a token is declined. Keys that mean something: "missing" (404), "strange" (a code
 * nobody knows), "busy" (503), "silent" (no answer), "along" (declined with the object in the
 * body), "last" (the next request on its connection is taken and not answered). Its threads have
 * the test's memory: to be stopped before anything is judged that they could hold. */
#ifndef S3R_TESTS_TINY_SERVER_H
#define S3R_TESTS_TINY_SERVER_H

#define TINY_OBJECT "0123456789"
#define TINY_LEN 10

int tiny_server_start(void);
void tiny_server_stop(void);
const char *tiny_server_authority(void);
int tiny_server_requests(void);
/* Connections that are open, and the most there were at a time. */
int tiny_server_open(void);
int tiny_server_most_open(void);
const char *tiny_server_crc(void);
#define TINY_CRC tiny_server_crc()

#endif
