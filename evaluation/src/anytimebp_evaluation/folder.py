"""The folder that an evaluation is written to: raw results, figures, pages, and what they were measured with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anytimebp import FormatError, OptionError
from anytimebp.formats.whole_file import whole_file
from anytimebp_evaluation.machine import machine
from anytimebp_evaluation.packed import is_there
from anytimebp_evaluation.plans import Plan
from anytimebp_evaluation.raw import RawFile

PACKAGES = ("numpy", "numba", "anytimebp")


class ResultsFolder:
    """A folder with results.

    Args:
        path: Made unless it is there.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder."""
        self.path = path
        self.data = path / "results"
        try:
            self.data.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise FormatError(path, "this is a file; --out takes a folder") from None

    @property
    def page(self) -> Path:
        """Where the summary is."""
        return self.path / "RESULTS.md"

    def raw(self, plan: Plan) -> RawFile:
        """Return the raw results of an experiment.

        Raises:
            OptionError: If those that are there were measured with other settings.
        """
        path = self.data / f"{plan.name}.csv"
        self.check_settings(plan.name, path, plan.settings())
        known = self.about(plan.name)["families"]
        changed = [name for name in plan.families if known.get(name, plan.scores(name)) != plan.scores(name)]
        if changed:
            msg = (
                f"{self.path} holds results of {plan.name} with another family {changed[0]!r} "
                f"({known[changed[0]]}, not {plan.scores(changed[0])}); give another folder with --out"
            )
            raise OptionError(msg)
        return RawFile(path)

    def check_settings(self, name: str, path: Path, settings: str) -> None:
        """Raise OptionError if there are raw results of other settings."""
        there = self.about(name)["settings"]
        if is_there(path) and not there:
            raise FormatError(path, f"{self._about_path(name).name}, which says how this was measured, is not there")
        if is_there(path) and there != settings:
            msg = (
                f"{self.path} holds results of {name} with other settings ({there}, not {settings}); "
                "give another folder with --out"
            )
            raise OptionError(msg)

    def about(self, name: str) -> dict[str, Any]:
        """Return with what settings, when and on what machines an experiment was measured."""
        path = self._about_path(name)
        if not path.exists():
            return {"settings": "", "families": {}, "measured": []}
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            return {
                "settings": str(about["settings"]),
                "families": {str(name): str(scores) for name, scores in about.get("families", {}).items()},
                "measured": [str(line) for line in about["measured"]],
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError(path, f"this is not what an experiment writes ({error})") from None

    def note_machine(self, name: str, settings: str, families: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write down that something is being measured now, here.

        Args:
            name: The experiment.
            settings: What must be the same for all of its results.
            families: How the scores of each family are drawn.
        """
        before = self.about(name)
        measured, here = before["measured"], machine(*PACKAGES)
        about = {
            "settings": settings,
            "families": before["families"] | dict(families),
            "measured": measured if any(line.startswith(here) for line in measured) else [*measured, here],
        }
        with whole_file(self._about_path(name)) as file:
            file.write(json.dumps(about, indent=2).encode() + b"\n")

    def _about_path(self, name: str) -> Path:
        return self.data / f"{name}.json"
