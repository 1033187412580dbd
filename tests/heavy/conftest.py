"""Packages that warn while they are imported; without them nothing here is collected."""

import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

NETWORKS = ("pgmpy.inference", "pgmpy.models", "pgmpy.readwrite", "pyagrum") if find_spec("pgmpy") else ()
RAY = ("ray",) if find_spec("ray") else ()
TORCH = ("torch",) if find_spec("torch") else ()
MODULES = {"test_ray.py": RAY, "test_ray_parts.py": RAY, "test_torch.py": TORCH}
"""By the file that needs them; all other files need those of networks."""

_needed = {path.name: MODULES.get(path.name, NETWORKS) for path in Path(__file__).parent.glob("test_*.py")}
if not find_spec("pyagrum"):
    _needed = {name: modules if name in MODULES else () for name, modules in _needed.items()}
collect_ignore = [name for name, modules in _needed.items() if not modules]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for module in {module for modules in _needed.values() for module in modules}:
        import_module(module)
