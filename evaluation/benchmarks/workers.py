"""Processes that measure one version of the library each, so that versions can take turns within the same minute."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anytimebp as abp


class Worker:
    """A process that answers a line of JSON with a line of JSON, with one version of the library.

    Args:
        script: What it runs.
        source: The `src` folder of its version; None for the version that is running here.
    """

    def __init__(self, script, source=None):
        """Start it."""
        source = source or str(Path(abp.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(
            [sys.executable, str(script)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **asked):
        """Have something measured."""
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            msg = "the worker has ended"
            raise RuntimeError(msg)
        return json.loads(line)

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()
