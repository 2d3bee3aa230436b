# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""
A checked MPI program for mpi4py: messages of many sizes around a ring, a sum, an exchange of all with all. Rank 0 prints
"result check ok" when every byte is right; what is wrong ends the job.

    mpiexec -n RANKS python util/programs/mpi_check.py
"""
from array import array

from mpi4py import MPI

SIZES = (0, 1, 8, 63, 4096, 4097, 65536, 1 << 20, 5000001)
NUMBERS = 1000000

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size


def pattern(sender, size):
    block = bytes((sender * 31 + i * 7) & 0xFF for i in range(1021))
    return (block * (size // len(block) + 1))[:size]


for size in SIZES:
    got = bytearray(b"\xee") * size
    left = (rank - 1) % ranks
    comm.Sendrecv(pattern(rank, size), dest=(rank + 1) % ranks, recvbuf=got, source=left)
    if got != pattern(left, size):
        raise SystemExit(f"rank {rank}: {size} bytes from {left} arrived wrong")

mine = array("q", range(rank, rank + NUMBERS))
total = array("q", bytes(8 * NUMBERS))
comm.Allreduce(mine, total)
base = ranks * (ranks - 1) // 2
if total != array("q", (base + ranks * i for i in range(NUMBERS))):
    raise SystemExit(f"rank {rank}: the sum is wrong")

if comm.alltoall([(rank, to) for to in range(ranks)]) != [(peer, rank) for peer in range(ranks)]:
    raise SystemExit(f"rank {rank}: the exchange is wrong")

if all(comm.allgather(True)) and rank == 0:
    print(f"result check ok ranks={ranks} bytes={sum(SIZES)}", flush=True)
