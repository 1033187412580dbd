"""Adds compiled kernels to a wheel, if the environment says where they are (`make wheel`)."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface[Any]):
    """Puts the folder that ANYTIMEBP_COMPILED names beside the kernels. Machines that they do not fit ignore them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Name the folder to the builder."""
        folder = os.environ.get("ANYTIMEBP_COMPILED")
        if folder and self.target_name == "wheel":
            build_data["force_include"][folder] = "anytimebp/kernels/compiled"
