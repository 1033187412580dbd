"""Packages that warn while they are imported; without them nothing here is collected."""

import warnings
from importlib import import_module
from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pgmpy") and find_spec("pyagrum") else ["test_*.py"]

if not collect_ignore_glob:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("pgmpy.inference", "pgmpy.models", "pgmpy.readwrite", "pyagrum"):
            import_module(name)
