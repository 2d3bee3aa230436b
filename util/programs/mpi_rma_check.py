# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""
A checked MPI program for one-sided communication, for mpi4py: puts and gets of many sizes between fences and under locks,
sums that all ranks add to one place, tickets by fetch-and-op and a lock by compare-and-swap. Rank 0 prints "result check
ok" when every byte is right; what is wrong ends the job.

    mpiexec -n RANKS python util/programs/mpi_rma_check.py
"""
from array import array

from mpi4py import MPI

SIZES = (1, 8, 1000, 4096, 65536, 1 << 20)
ROUNDS = 20

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
left, right = (rank - 1) % ranks, (rank + 1) % ranks


def pattern(owner, size):
    block = bytes((owner * 37 + i * 11) & 0xFF for i in range(1021))
    return (block * (size // len(block) + 1))[:size]


def check(right_so, what):
    if not right_so:
        raise SystemExit(f"rank {rank}: {what} is wrong")


def window(size):
    memory = bytearray(size)
    return MPI.Win.Create(memory, 1, MPI.INFO_NULL, comm), memory


def put_between_fences(size):
    win, memory = window(size)
    data = pattern(rank, size)  # MPI reads it until the fence
    win.Fence()
    win.Put(data, right)
    win.Fence()
    check(memory == pattern(left, size), f"a put of {size} bytes")
    got = bytearray(size)
    win.Get(got, right)
    win.Fence()
    check(got == pattern(rank, size), f"a get of {size} bytes")
    win.Free()


def put_under_locks(size):
    """Each rank writes to its own part of each window, and reads it back before the target has been told."""
    win, memory = window(size * ranks)
    win.Lock_all()
    for to in range(ranks):
        data = pattern(rank + to, size)
        win.Put(data, to, rank * size)
        win.Flush(to)
        got = bytearray(size)
        win.Get(got, to, rank * size)
        win.Flush(to)
        check(got == data, f"{size} bytes under a lock")
    win.Unlock_all()
    comm.Barrier()
    win.Lock(rank)
    for source in range(ranks):
        check(memory[source * size:(source + 1) * size] == pattern(source + rank, size), f"a part of {size} bytes")
    win.Unlock(rank)
    win.Free()


def sums():
    numbers = 5000
    memory = array("q", bytes(8 * numbers))
    win = MPI.Win.Create(memory, 8, MPI.INFO_NULL, comm)
    data = array("q", range(rank, rank + numbers))
    win.Fence()
    for to in range(ranks):
        win.Accumulate(data, to, op=MPI.SUM)
    win.Fence()
    check(memory == array("q", (ranks * (ranks - 1) // 2 + ranks * i for i in range(numbers))), "a sum")
    win.Free()


def tickets():
    """All take numbers from one counter: each number is taken once."""
    memory = array("q", [0])
    win = MPI.Win.Create(memory if rank == 0 else None, 8, MPI.INFO_NULL, comm)
    mine, one = [], array("q", [1])
    win.Lock_all()
    for _ in range(ROUNDS):
        got = array("q", [0])
        win.Fetch_and_op(one, got, 0, op=MPI.SUM)
        win.Flush(0)
        mine.append(got[0])
    win.Unlock_all()
    taken = sorted(sum(comm.allgather(mine), []))
    check(taken == list(range(ROUNDS * ranks)), "a ticket")
    win.Free()


def swaps():
    """A lock made of compare-and-swap guards a number that is read and written."""
    memory = array("q", [0, 0])
    win = MPI.Win.Create(memory if rank == 0 else None, 8, MPI.INFO_NULL, comm)
    free, busy = array("q", [0]), array("q", [rank + 1])
    win.Lock_all()
    for _ in range(ROUNDS):
        was = array("q", [1])
        while was[0]:
            win.Compare_and_swap(busy, free, was, 0, 0)
            win.Flush(0)
        number = array("q", [0])
        win.Get(number, 0, 1)
        win.Flush(0)
        number[0] += 1
        win.Put(number, 0, 1)
        win.Flush(0)
        win.Compare_and_swap(free, busy, was, 0, 0)
        win.Flush(0)
        check(was[0] == rank + 1, "the holder of the lock")
    win.Unlock_all()
    comm.Barrier()
    win.Lock_all()
    number = array("q", [0])
    win.Get(number, 0, 1)
    win.Unlock_all()
    check(number[0] == ROUNDS * ranks, "the guarded number")
    win.Free()


for nbytes in SIZES:
    put_between_fences(nbytes)
    put_under_locks(nbytes)
sums()
tickets()
swaps()
if all(comm.allgather(True)) and rank == 0:
    print(f"result check ok ranks={ranks} bytes={sum(SIZES)}", flush=True)
