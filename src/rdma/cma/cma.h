/* SPDX-License-Identifier: Apache-2.0 */
/* cma.h - one host, one user: the server copies with process_vm_writev and process_vm_readv.
 * Does:     both halves of the provider `cma`; tokens are cma1.
 * Not here: the table in which they meet (table.h), other processes' tables (peer.h).
 * Units:    bytes.
 * Owns:     one window table per process, there while an owner is open.
 * Threads:  any.
 * Errors:   as provider.h; S3R_E_RDMA_UNAVAILABLE also when the kernel refuses a copy (the text
 *           says whether yama's ptrace_scope, seccomp or the user is the likely reason).
 * Limits:   OWNER_WINDOWS_MAX windows per process.
 *
 * Who can reach whom: the kernel lets a process copy from and to another when it might debug it,
 * that is, when both have the same user, or it has CAP_SYS_PTRACE. Windows are therefore no
 * protection against a hostile program of the same user, which can read all of the owner's memory
 * anyway; they are what keeps an honest server to what it was given. The server on its side serves
 * only processes of its own user, and believes nothing that it reads in their tables.
 *
 * With yama's ptrace_scope 1, a process may be copied from and to by its ancestors only, unless it
 * says otherwise: opening the owner's half then calls prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY).
 * The server's pid is not known then, so nothing narrower would do; for this process it puts back
 * what holds on kernels without yama, and it happens only when the user named the device `cma`.
 *
 * A pid that is used again: the server looks the process up, by its directory in /proc and not by
 * its number, right before each piece. What is left is a process that dies, and whose number is
 * given to another of the same user, between that look and the copy, a few microseconds in which
 * the kernel would have to hand out all other numbers first. */
#ifndef S3R_RDMA_CMA_CMA_H
#define S3R_RDMA_CMA_CMA_H

#include "rdma/provider.h"

extern const struct mover_ops cma_mover_ops;
extern const struct owner_ops cma_owner_ops;

#endif
