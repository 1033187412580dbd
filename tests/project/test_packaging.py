"""What is installed: the library alone, without its evaluation."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_module_of_the_library_mentions_the_package_of_the_evaluation():
    files = sorted((ROOT / "src").rglob("*.py"))
    assert len(files) > 100
    assert [path for path in files if re.search(r"anytimebp[-_.]evaluation", path.read_text(encoding="utf-8"))] == []


def test_the_wheel_holds_the_library_alone():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/anytimebp"]}
    assert [path.name for path in (ROOT / "src").iterdir() if path.suffix != ".egg-info"] == ["anytimebp"]
    wanted = settings["project"]["dependencies"]
    assert {re.split("[>=<]", name)[0] for name in wanted} == {"numpy", "numba", "click", "rich"}
