"""Kernels compiled ahead of time: which groups a method needs, and that a group is loaded as a whole."""

import pytest

import anytimebp as abp
from anytimebp.cli.main import main
from anytimebp.inference.ahead import GROUPS, compile_group, groups_of
from anytimebp.inference.warm_up import FIRST_KERNELS


@pytest.mark.parametrize("method", abp.METHODS)
def test_every_method_has_groups_of_kernels(method):
    groups = groups_of(method)
    assert groups
    assert set(groups) <= set(GROUPS)


@pytest.mark.parametrize("group", ["bp", "exact", "residual"])
def test_after_compiling_a_group_its_kernels_are_loaded(group):
    assert compile_group(group) == group
    wanted = [kernel for kind in GROUPS[group] for kernel in FIRST_KERNELS.get(kind, ())]
    assert wanted
    assert all(getattr(kernel, "overloads", True) for kernel in wanted)


def test_warmup_names_each_group_that_is_done(capsys):
    assert main(["warmup", "--method", "bp", "--method", "exact", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert [line.split()[-1] for line in said.splitlines()] == ["bp", "exact"]


def test_warmup_refuses_a_method_that_does_not_exist(capsys):
    assert main(["warmup", "--method", "magic"]) == 2
    assert "magic" in capsys.readouterr().err
