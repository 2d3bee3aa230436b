#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Processes, each with a NIXL agent of its LIBFABRIC backend, write to each other's main memory and read from it, with a
# notification for each transfer, and compare every byte. Each pair does so in turn. A transfer has many descriptors:
# blocks that lie elsewhere on the other side. With --kill another process dies before that, while the first one
# writes to it: the first one must not take that write for done, and what it does with others goes on. Prints "result check ok" at the end.
#
#   nixl_check.py [--agents N] [--rounds N] [--sizes 'BYTES ...'] [--descriptors N] [--kill]
import argparse
import itertools
import multiprocessing
import os
import signal
import sys
import time

import numpy
from nixl_cu12 import nixl_agent, nixl_agent_config
from nixl_cu12._bindings import nixlBackendError

LIMIT = 60
GONE = 5  # s, in which a write to a peer that is gone may end
STEP = 977  # a prime: block i lies at place i * STEP of the other side


def pattern(seed, size):
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)


class Agent:
    def __init__(self, me):
        self.nixl = nixl_agent(str(me), nixl_agent_config(backends=["LIBFABRIC"]))
        self.notes = {}
        self.memory = []

    # Kept as long as the agent: under tcp NIXL knows a registration by its address.
    def register(self, size):
        memory = numpy.zeros(size, dtype=numpy.uint8)
        self.nixl.register_memory([(memory.ctypes.data, size, 0, "")], "DRAM")
        self.memory.append(memory)
        return memory

    def note(self, peer):
        for of, notes in self.nixl.get_new_notifs().items():
            self.notes.setdefault(of, []).extend(notes)
        return self.notes.get(peer, [])


class Side:
    def __init__(self, agent, peer, pipe, largest, descriptors):
        self.agent, self.peer, self.pipe, self.descriptors = agent, peer, pipe, descriptors
        # What the peer writes and reads, and what this side writes from and reads into.
        self.open, self.own = agent.register(largest), agent.register(largest)
        pipe.send((agent.nixl.get_agent_metadata(), self.open.ctypes.data))
        metadata, self.there = pipe.recv()
        agent.nixl.add_remote_agent(metadata)

    def meet(self, what):
        self.pipe.send(what)
        if self.pipe.recv() != what:
            raise RuntimeError("the other side is elsewhere")

    # The places of the blocks of a transfer on this side and on the other, and the length of a block.
    def blocks(self, size):
        count = self.descriptors if size % self.descriptors == 0 else 1
        return range(count), [i * STEP % count for i in range(count)], size // count

    def start(self, operation, size, note):
        here, there, length = self.blocks(size)
        nixl, descs = self.agent.nixl, []
        for base, places in (self.own.ctypes.data, here), (self.there, there):
            descs.append(nixl.get_xfer_descs([(base + place * length, length, 0) for place in places], "DRAM"))
        handle = nixl.initialize_xfer(operation, *descs, self.peer, note)
        return handle, nixl.transfer(handle)

    def transfer(self, operation, size, note, limit=LIMIT):
        handle, state = self.start(operation, size, note)
        end = time.monotonic() + limit
        while state == "PROC" and time.monotonic() < end:
            state = self.agent.nixl.check_xfer_state(handle)
        self.agent.nixl.release_xfer_handle(handle)
        return state

    def done(self, operation, size, note):
        state = self.transfer(operation, size, note)
        if state != "DONE":
            raise RuntimeError(f"{operation} of {size} bytes: {state}")

    def noted(self, note):
        end = time.monotonic() + LIMIT
        while not self.agent.note(self.peer) and time.monotonic() < end:
            pass
        if self.agent.notes.pop(self.peer, []) != [note]:
            raise RuntimeError(f"the notification {note} did not come")

    # `elsewhere`: the blocks came from one side to the other.
    def same(self, memory, seed, size, what, elsewhere):
        _, places, length = self.blocks(size)
        want = pattern(seed, size).reshape(-1, length)
        got = memory[:size].reshape(-1, length)
        if not numpy.array_equal(got[places] if elsewhere == "there" else got, want[places] if elsewhere == "here" else want):
            raise RuntimeError(f"{what} of {size} bytes: wrong bytes")
        if memory[size:].any():
            raise RuntimeError(f"{what} of {size} bytes: bytes behind it")
        memory[:size] = 0

    def round(self, number, size, first):
        mine, its = 4 * number + first, 4 * number + 1 - first
        self.own[:size] = pattern(mine, size)
        self.done("WRITE", size, b"write %d" % number)
        self.own[:size] = 0
        self.noted(b"write %d" % number)
        self.same(self.open, its, size, "write", "there")
        self.open[:size] = pattern(mine + 2, size)
        self.meet("to be read")
        self.done("READ", size, b"read %d" % number)
        self.same(self.own, its + 2, size, "read", "here")
        self.noted(b"read %d" % number)
        self.meet("was read")
        self.open[:size] = 0
        self.meet("next")

    # The peer's process ends while this side writes to it. NIXL 1.4 logs the error of the provider, and the transfer stays
    # under way for ever; 1.5 raises it.
    def killed(self, size):
        self.meet("to be killed")
        end = time.monotonic() + LIMIT
        try:
            while self.transfer("WRITE", size, b"", GONE) == "DONE":
                if time.monotonic() > end:
                    raise RuntimeError("writes to a peer that was killed are done")
        except nixlBackendError as error:
            print("a write to a peer that was killed:", error)


def die(pipe, largest):
    side = Side(Agent("killed"), "0", pipe, largest, 1)
    side.meet("to be killed")
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def run(me, pipes, args, sizes, doomed=None):
    agent = Agent(me)
    if doomed:
        Side(agent, "killed", doomed, max(sizes), 1).killed(max(sizes))
    for peer, pipe in pipes.items():
        side = Side(agent, str(peer), pipe, max(sizes), args.descriptors)
        for number in range(args.rounds):
            for place, size in enumerate(sizes):
                side.round(number * len(sizes) + place, size, int(me > peer))
        agent.nixl.remove_remote_agent(str(peer))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--agents", type=int, default=2)
    args.add_argument("--rounds", type=int, default=10)
    args.add_argument("--sizes", default="1 1000 65536 1000000 16777216")
    args.add_argument("--descriptors", type=int, default=1)
    args.add_argument("--kill", action="store_true")
    args = args.parse_args()
    sizes = [int(size) for size in args.sizes.split()]
    processes = multiprocessing.get_context("spawn")
    pipes = {me: {} for me in range(args.agents)}
    for one, two in itertools.combinations(pipes, 2):
        pipes[one][two], pipes[two][one] = processes.Pipe()
    others = [processes.Process(target=run, args=(me, pipes[me], args, sizes), daemon=True) for me in range(1, args.agents)]
    for other in others:
        other.start()
    doomed = None
    if args.kill:
        doomed, its = processes.Pipe()
        processes.Process(target=die, args=(its, max(sizes)), daemon=True).start()
    run(0, pipes[0], args, sizes, doomed)
    for other in others:
        other.join(LIMIT)
        if other.exitcode != 0:
            sys.exit("another process failed")
    pairs = args.agents * (args.agents - 1)
    print("result check ok:", pairs * args.rounds * len(sizes), "writes and as many reads")


if __name__ == "__main__":
    main()
