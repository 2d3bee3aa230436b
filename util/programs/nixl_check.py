#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Two processes, each with a NIXL agent of its LIBFABRIC backend, write to each other's main memory and read from it, with
# a notification for each transfer, and compare every byte. Prints "result check ok" at the end.
#
#   nixl_pair.py [--rounds N] [--sizes 'BYTES ...']
import argparse
import multiprocessing
import sys
import time

import numpy
from nixl_cu12 import nixl_agent, nixl_agent_config

LIMIT = 60


def pattern(seed, size):
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)


class Side:
    def __init__(self, name, peer, pipe, largest):
        self.name, self.peer, self.pipe = name, peer, pipe
        self.agent = nixl_agent(name, nixl_agent_config(backends=["LIBFABRIC"]))
        # What the peer writes and reads, and what this side writes from and reads into.
        self.open = numpy.zeros(largest, dtype=numpy.uint8)
        self.own = numpy.zeros(largest, dtype=numpy.uint8)
        for memory in self.open, self.own:
            self.agent.register_memory([(memory.ctypes.data, largest, 0, "")], "DRAM")
        self.notes = []
        pipe.send((self.agent.get_agent_metadata(), self.open.ctypes.data))
        metadata, self.there = pipe.recv()
        self.agent.add_remote_agent(metadata)

    def meet(self, what):
        self.pipe.send(what)
        if self.pipe.recv() != what:
            raise RuntimeError("the other side is elsewhere")

    def transfer(self, operation, size, note):
        here = self.agent.get_xfer_descs([(self.own.ctypes.data, size, 0)], "DRAM")
        there = self.agent.get_xfer_descs([(self.there, size, 0)], "DRAM")
        handle = self.agent.initialize_xfer(operation, here, there, self.peer, note)
        state = self.agent.transfer(handle)
        end = time.monotonic() + LIMIT
        while state == "PROC" and time.monotonic() < end:
            state = self.agent.check_xfer_state(handle)
        self.agent.release_xfer_handle(handle)
        if state != "DONE":
            raise RuntimeError(f"{operation} of {size} bytes: {state}")

    def noted(self, note):
        end = time.monotonic() + LIMIT
        while not self.notes and time.monotonic() < end:
            self.notes += self.agent.get_new_notifs().get(self.peer, [])
        if self.notes != [note]:
            raise RuntimeError(f"notifications {self.notes}, not {note}")
        self.notes = []

    def same(self, memory, seed, size, what):
        if not numpy.array_equal(memory[:size], pattern(seed, size)) or memory[size:].any():
            raise RuntimeError(f"{what} of {size} bytes: wrong bytes")
        memory[:size] = 0

    def round(self, number, size, me):
        mine, its = 4 * number + me, 4 * number + 1 - me
        self.own[:size] = pattern(mine, size)
        self.transfer("WRITE", size, b"write %d" % number)
        self.own[:size] = 0
        self.noted(b"write %d" % number)
        self.same(self.open, its, size, "write")
        self.open[:size] = pattern(mine + 2, size)
        self.meet("to be read")
        self.transfer("READ", size, b"read %d" % number)
        self.same(self.own, its + 2, size, "read")
        self.noted(b"read %d" % number)
        self.meet("was read")
        self.open[:size] = 0
        self.meet("next")


def run(me, pipe, sizes, rounds):
    names = ["one", "two"]
    side = Side(names[me], names[1 - me], pipe, max(sizes))
    for number in range(rounds):
        for place, size in enumerate(sizes):
            side.round(number * len(sizes) + place, size, me)
    side.agent.remove_remote_agent(names[1 - me])
    del side


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--rounds", type=int, default=10)
    args.add_argument("--sizes", default="1 1000 65536 1000000 16777216")
    args = args.parse_args()
    sizes = [int(size) for size in args.sizes.split()]
    processes = multiprocessing.get_context("spawn")
    pipes = processes.Pipe()
    other = processes.Process(target=run, args=(1, pipes[1], sizes, args.rounds), daemon=True)
    other.start()
    pipes[1].close()
    run(0, pipes[0], sizes, args.rounds)
    other.join(LIMIT)
    if other.exitcode != 0:
        sys.exit("the other process failed")
    print("result check ok:", 2 * args.rounds * len(sizes), "writes and as many reads")


if __name__ == "__main__":
    main()
