"""The tests stand where what they test stands."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "tests/unit"
LIBRARY = ROOT / "src/anytimebp"
FILES = sorted(UNIT.rglob("test_*.py"))


def test_every_folder_of_unit_tests_is_one_of_the_library():
    folders = {file.parent.relative_to(UNIT) for file in FILES}
    assert len(folders) > 10
    assert [folder for folder in sorted(folders) if not (LIBRARY / folder / "__init__.py").is_file()] == []


def test_unit_tests_outside_all_folders_are_of_modules_outside_all_folders():
    assert [file for file in UNIT.glob("*.py") if not (LIBRARY / file.name.removeprefix("test_")).is_file()] == []


def test_no_two_files_of_tests_have_one_name():
    folders = (ROOT / "tests", ROOT / "evaluation/tests")
    names = Counter(file.name for folder in folders for file in folder.rglob("test_*.py"))
    assert len(names) > len(FILES)
    assert [name for name, count in names.items() if count > 1] == []
