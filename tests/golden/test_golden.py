"""Answers of today's code, kept in a file: marginals, log Z, how runs end, which states join when, and errors.

See `record.py` for when the file may be made anew.
"""

import functools

import pytest

import anytimebp as abp
from golden import runs


@functools.cache
def kept():
    return runs.load()


def parameter(case):
    return pytest.param(case, id=str(case), marks=[pytest.mark.compiled] if case.is_long else [])


@pytest.mark.parametrize("case", [parameter(case) for case in runs.all_cases()])
def test_the_answer_is_the_one_that_is_kept(case):
    graph = abp.FactorGraph()
    found = runs.answer(case, graph)
    changed = runs.differences(kept()[str(case)], found, runs.states_of(graph))
    assert not changed, "\n".join(changed)


def test_every_answer_that_is_kept_belongs_to_a_run():
    assert kept().keys() == set(map(str, runs.all_cases()))
