/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sockets that a forked child does not keep. Otherwise a sleeping child would keep its parent's connections and ports
 * open, and peers would not notice that the parent died. So in a child of fork() these descriptors become /dev/null:
 * the numbers stay in use, and closing them in the child does no harm. (exec and posix_spawn close them.)
 */
#ifndef UCCL_NIC_OWNFD_H
#define UCCL_NIC_OWNFD_H

/* As socket(2) and accept4(2), always with SOCK_CLOEXEC. To be closed by uccl_own_close(). */
int uccl_own_socket(int family, int type);
int uccl_own_accept(int listener, int flags);
/* From now on forked children lose the open descriptor `fd`, too. A child that was forked before this call keeps it. */
void uccl_own_take(int fd);
/* Close a descriptor of uccl_own_socket(), uccl_own_accept() or uccl_own_take(). */
void uccl_own_close(int fd);

#endif
