"""Every public name has a docstring with an example, and the examples are right."""

import doctest
import inspect

import numpy as np
import pytest

import anytimebp as abp

NO_EXAMPLE = {"METHODS", "__version__"}
NAMES = [name for name in abp.__all__ if name not in NO_EXAMPLE]
WORDS = doctest.NORMALIZE_WHITESPACE


def is_exception(name):
    found = getattr(abp, name)
    return inspect.isclass(found) and issubclass(found, Exception)


@pytest.mark.parametrize("name", [name for name in NAMES if not is_exception(name)])
def test_a_public_name_has_an_example_that_is_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in {"plot_run", "from_networkx", "to_networkx"}:
        pytest.importorskip("matplotlib" if name == "plot_run" else "networkx")
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(getattr(abp, name)), {"abp": abp, "np": np}, name, None, None
    )
    assert test.examples
    failed = []
    doctest.DocTestRunner(optionflags=WORDS).run(test, out=failed.append)
    assert not failed, "".join(failed)


@pytest.mark.parametrize("name", [name for name in NAMES if is_exception(name)])
def test_an_exception_says_what_it_means(name):
    assert len(getattr(abp, name).__doc__.splitlines()[0]) > 20
