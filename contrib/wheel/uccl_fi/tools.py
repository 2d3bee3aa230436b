# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The provider's own programs (uccl_top and others) as commands of the Python environment."""

import os
import sys


def main():
    """Becomes the program of the name by which it was called."""
    name = os.path.basename(sys.argv[0])
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    os.execv(program, [name] + sys.argv[1:])
