#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Two processes, each with a transfer engine of Mooncake: the first one writes 64 MiB to the second, reads them back, and
# writes scattered blocks in a batch, which lie in reverse order there. Both compare every byte. Prints
# "result check ok" at the end.
#
#   mooncake_check.py PROTOCOL [DEVICE]
import multiprocessing
import os
import sys

import numpy
from mooncake.engine import TransferEngine

SIZE = 64 << 20
BLOCKS, BLOCK = 256, 16384
LIMIT = 90


def must(rc, what):
    if rc:
        sys.exit(f"{what}: {rc}")


def pattern():
    return numpy.random.default_rng(1).integers(0, 256, SIZE, dtype=numpy.uint8)


def engine_open(memory, pipe):
    engine = TransferEngine()
    device = sys.argv[2] if len(sys.argv) > 2 else ""
    must(engine.initialize("127.0.0.1", "P2PHANDSHAKE", sys.argv[1], device), "initialize")
    must(engine.register_memory(memory.ctypes.data, SIZE), "register_memory")
    pipe.send((f"127.0.0.1:{engine.get_rpc_port()}", memory.ctypes.data))
    return engine, *pipe.recv()


def first(pipe):
    memory = pattern()
    engine, other, there = engine_open(memory, pipe)
    here = memory.ctypes.data
    must(engine.transfer_sync_write(other, here, there, SIZE), "write")
    memory[:] = 0
    must(engine.transfer_sync_read(other, here, there, SIZE), "read")
    if (memory != pattern()).any():
        sys.exit("what was read differs")
    blocks = range(BLOCKS)
    must(engine.batch_transfer_sync_write(other, [here + 2 * i * BLOCK for i in blocks],
                                          [there + (BLOCKS - 1 - i) * BLOCK for i in blocks], [BLOCK] * BLOCKS), "batch")
    pipe.send("written")
    pipe.recv()


def second(pipe):
    memory = numpy.zeros(SIZE, dtype=numpy.uint8)
    engine = engine_open(memory, pipe)
    pipe.recv()
    want = pattern()
    blocks = want[:2 * BLOCKS * BLOCK].reshape(BLOCKS, 2, BLOCK)[::-1, 0].copy()
    want[:BLOCKS * BLOCK] = blocks.reshape(-1)
    if (memory != want).any():
        sys.exit("what was written differs")
    pipe.send("compared")
    del engine


# Mooncake's threads do not end with it.
def run(side, pipe):
    try:
        side(pipe)
    except SystemExit as end:
        print(f"mooncake_check.py: {end.code}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def main():
    ends = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    sides = [context.Process(target=run, args=pair, daemon=True) for pair in zip((first, second), ends)]
    for side in sides:
        side.start()
    for side in sides:
        side.join(LIMIT)
    if any(side.exitcode != 0 for side in sides):
        sys.exit(f"processes ended with {[side.exitcode for side in sides]}")
    print("result check ok")


main()
