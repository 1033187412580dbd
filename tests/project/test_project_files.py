"""The files around the library name the same versions, what is stated is what is tried, and a clone is small."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 6_000_000  # of all files of a fresh clone together: what everybody downloads who wants to change a line
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads(text("pyproject.toml"))["project"]


def bounds(lines):
    return {need.name: need for need in map(Requirement, lines)}


def lowest(python):
    """Return what the constraints pin for a version of Python."""
    needs = [Requirement(line) for line in text(".github/lowest.txt").splitlines() if not line.startswith("#")]
    return {
        need.name: need for need in needs if need.marker is None or need.marker.evaluate({"python_version": python})
    }


def test_every_python_that_is_stated_is_tried(project):
    stated = [kind.rsplit(" ", 1)[1] for kind in project["classifiers"] if re.search(r"Python :: 3\.\d+$", kind)]
    tried = re.search(r"python: \[(.*)\]", text(".github/workflows/test.yml"))[1]
    assert stated == list(PYTHONS)
    assert tried == ", ".join(f'"{python}"' for python in PYTHONS)
    assert project["requires-python"] == f">={PYTHONS[0]}"


def test_the_lowest_versions_that_are_tried_are_those_that_are_stated(project):
    stated = bounds(project["dependencies"])
    tried = lowest(PYTHONS[0])
    assert tried.keys() == stated.keys()
    for name, need in stated.items():
        lower = next(part.version for part in need.specifier if part.operator == ">=")
        assert re.fullmatch(rf"=={re.escape(lower)}(\.0)*", str(tried[name].specifier)), name


@pytest.mark.parametrize("python", PYTHONS)
def test_every_pin_is_a_version_that_is_stated(project, python):
    stated = bounds(project["dependencies"])
    pins = lowest(python)
    assert pins.keys() == stated.keys()
    for name, pin in pins.items():
        (part,) = pin.specifier
        assert part.operator == "=="
        assert part.version in stated[name].specifier


def test_numba_is_bounded_from_above(project):
    assert any(part.operator == "<" for part in bounds(project["dependencies"])["numba"].specifier)


def test_the_ruff_before_a_commit_is_one_that_is_stated(project):
    stated = bounds(project["optional-dependencies"]["dev"])["ruff"]
    found = re.search(r"ruff-pre-commit\n    rev: v(\S+)", text(".pre-commit-config.yaml"))
    assert found[1] in stated.specifier


def test_the_version_to_cite_is_the_current_one(project):
    assert f"\nversion: {project['version']}\n" in text("CITATION.cff")
    assert f"\nlicense: {project['license']}\n" in text("CITATION.cff")


def test_a_fresh_clone_is_small():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    if listed.returncode:
        pytest.skip("this is not a clone")
    sizes = {name: (ROOT / name).stat().st_size for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    largest = sorted(sizes, key=sizes.__getitem__)[-5:]
    assert len(sizes) > 400
    assert sum(sizes.values()) < MOST_BYTES, f"the largest files are {largest}"
