# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""
One rank of a small training by PyTorch's DistributedDataParallel over NCCL; util/nccl/nccl-ddp starts it, and compares.

    RANK=R WORLD_SIZE=N python util/nccl/ddp_train.py --device D --steps N --meet FILE --result FILE

Two trainings over different networks do the same, bit by bit: the model and all data come from fixed seeds, PyTorch takes
its deterministic algorithms, and two ranks add two numbers, which has only one order. Lines of the result: "loss STEP
NUMBER" (the mean of all ranks, with all its digits), "step SECONDS" (the median of the second half), "weights SHA256",
"versions TEXT".
"""
import argparse
import datetime
import hashlib
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

WIDTH, BATCH, INPUTS = 1024, 256, 64


def batch(seed, device):
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, INPUTS, generator=made)
    # A sum of so many is as wide as one of them.
    return x.to(device), torch.sin(x.sum(1, keepdim=True) / INPUTS**0.5).to(device)


def digest(model):
    all_bits = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        all_bits.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return all_bits.hexdigest()


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--device", type=int, required=True)
    args.add_argument("--steps", type=int, required=True)
    args.add_argument("--meet", required=True, help="a file that is not there yet, by which ranks find each other")
    args.add_argument("--result", required=True)
    args.add_argument("--patience", type=int, default=120, help="seconds that ranks wait for each other")
    args = args.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.set_device(args.device)
    device = torch.device("cuda", args.device)
    dist.init_process_group("nccl", init_method=f"file://{os.path.abspath(args.meet)}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=args.patience))
    torch.manual_seed(1)
    layers = [nn.Linear(INPUTS, WIDTH), nn.GELU()]
    for _ in range(3):
        layers += [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 1)).to(device)
    # Buckets of a few MB: several of them are on their way while gradients are still computed.
    model = nn.parallel.DistributedDataParallel(model, device_ids=[args.device], bucket_cap_mb=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0005, momentum=0.9)

    lines, seconds = [], []
    for step in range(1, args.steps + 1):
        x, y = batch(step * ranks + rank, device)
        torch.cuda.synchronize()
        began = time.perf_counter()
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        lines.append(f"loss {step} {mean.item() / ranks!r}")
    lines.append(f"step {statistics.median(seconds[len(seconds) // 2:]):.6f}")
    lines.append(f"weights {digest(model.module)}")
    lines.append(f"versions PyTorch {torch.__version__}, {torch.cuda.get_device_name(device)}")
    dist.barrier(device_ids=[args.device])
    dist.destroy_process_group()
    with open(args.result, "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


main()
