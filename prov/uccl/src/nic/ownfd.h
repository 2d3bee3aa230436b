/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sockets that no forked child keeps. A child that sleeps would hold its parent's connections and ports open, and hide
 * from all peers that the parent is dead. So in a child of fork() these descriptors become /dev/null: the numbers stay
 * taken, and to close them there does no harm. (exec closes them, as all of ours; posix_spawn does so, too.)
 */
#ifndef UCCL_NIC_OWNFD_H
#define UCCL_NIC_OWNFD_H

/* As socket() and accept4(), always with SOCK_CLOEXEC. */
int uccl_own_socket(int family, int type);
int uccl_own_accept(int listener, int flags);
/* From now on it is one of them; a fork between its opening and this keeps it. */
void uccl_own_take(int fd);
/* Close one of them. */
void uccl_own_close(int fd);

#endif
