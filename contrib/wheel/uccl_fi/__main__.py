# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""python -m uccl_fi: print the variables that make MPI use the uccl provider, or run a command with them."""

import argparse
import json
import os
import shlex
import sys

import uccl_fi


def run(command, variables):
    """Becomes the command. This Python's own programs come first, as its mpiexec belongs to the MPI installed beside us."""
    environ = dict(os.environ, **variables)
    environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environ.get("PATH", os.defpath)])
    try:
        os.execvpe(command[0], command, environ)
    except OSError as e:
        print(f"uccl_fi: {command[0]}: {e.strerror}", file=sys.stderr)
        return 127 if isinstance(e, FileNotFoundError) else 126


def main():
    parser = argparse.ArgumentParser(
        prog="python -m uccl_fi",
        description="Print the variables that make MPI use the uccl provider, or run a command with them.",
        epilog='for a shell: eval "$(python -m uccl_fi)"; for one command: '
        "python -m uccl_fi run mpiexec -n 2 python program.py",
    )
    parser.add_argument("--json", action="store_true", help="print them as a JSON object")
    parser.add_argument("--no-shm", action="store_true", help="MPICH: no shared memory between processes of one host")
    parser.add_argument("--version", action="version", version=uccl_fi.__version__)
    parser.add_argument("run", nargs="?", choices=["run"], help="run the command that follows")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="command and its arguments")
    args = parser.parse_args()
    variables = uccl_fi.environment(shared_memory=not args.no_shm)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if args.run:
        if not command:
            parser.error("run what?")
        return run(command, variables)
    if args.json:
        print(json.dumps(variables, indent=2))
        return 0
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
