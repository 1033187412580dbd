"""Processes in which no kernel is loaded yet: forks of one that has imported the library and has run nothing.

Importing Numba and the kernels takes longer than most scripts that need such a process.
"""

import json
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

PARENT = """
import json, os, sys, tempfile, traceback
import numba
from unit.inference.test_warm_up import signatures

numba.njit(lambda x: x + 1.0)(1.0)  # starts the compiler
assert not any(signatures().values())  # imports all kernels
print(json.dumps(None), flush=True)
for line in sys.stdin:
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            code = 1
            try:
                exec(json.loads(line), {"__name__": "__main__"})
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        print(json.dumps([code, said.read().decode()]), flush=True)
"""


class NewProcesses:
    """Runs scripts, each in a process of its own."""

    def __init__(self):
        """Start the process that is forked."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=TESTS, **pipes)
        assert json.loads(self._parent.stdout.readline()) is None

    def __call__(self, script):
        """Run a script; fail if it does."""
        print(json.dumps(script), file=self._parent.stdin, flush=True)
        code, said = json.loads(self._parent.stdout.readline())
        assert code == 0, said

    def close(self):
        """End the process."""
        with self._parent:
            self._parent.stdin.close()


class ColdProcesses:
    """The same where forks are not safe: a new interpreter for each script."""

    def __call__(self, script):
        """Run a script; fail if it does."""
        done = subprocess.run([sys.executable, "-c", script], cwd=TESTS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def close(self):
        """Nothing is left open."""


def new_processes():
    """Return what runs scripts in new processes on this system."""
    return NewProcesses() if sys.platform == "linux" else ColdProcesses()  # forks of macOS may crash
