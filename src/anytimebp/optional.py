"""Packages that few users need: imported when they are first used, and who lacks one is told which extra brings it."""

from importlib import import_module
from typing import Any


def missing_package(package: str, extra: str) -> str:
    """Return how to get a package, or several: by name, or in a clone, as this library is on no package index."""
    return f'this needs {" and ".join(package.split())}: pip install {package} (or, in a clone, ".[{extra}]")'


def load_optional(module: str, extra: str | None = None) -> Any:
    """Return a module of an optional package, or say how to get it.

    Args:
        module: As in an import statement.
        extra: The extra of this library that installs it; by default it is called like the package.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is there, but something that it needs itself is not
            raise
        msg = missing_package(package, extra or package)
        raise ModuleNotFoundError(msg, name=package) from None
