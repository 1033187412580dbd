"""`log_partition`: log Z as a function of PyTorch, whose derivative is the expected counts. Needs PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from anytimebp.api import infer
from anytimebp.errors import ModelError, OptionError
from anytimebp.model.factor import FactorKey
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray
from anytimebp.optional import load_optional
from anytimebp.results.expected_counts import stacks
from anytimebp.results.snapshot import Result

__all__ = ["log_partition"]

OURS = ("factor_marginals", "targets", "callback", "progress")  # options of `infer` that have no meaning here


def log_partition(graph: FactorGraph, log_tables: Mapping[FactorKey | range, Any], **options: Any) -> Any:
    """Return log Z of a graph whose factors have other scores, as a tensor of no axes.

    Where belief propagation is not exact, this is its Bethe estimate. Its derivative with respect to a table is how
    often each joint state is expected, which is exact at a fixed point of belief propagation. There is no second
    derivative.

    Args:
        graph: The model; it is not changed. Factors that are not in `log_tables` keep their scores.
        log_tables: By index or name of a factor, or by range of factors that were added by one call: a tensor of log
            scores of the shape of the factor, which all of them share; or one for each, stacked. It may be on any
            device; inference runs on the processor, in double precision.
        **options: Of `infer`, such as `method`, `evidence` and `tolerance`.

    Examples:
        >>> import torch  # doctest: +SKIP
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(2, 3)
        >>> factor = graph.add_factor([0, 1], log_table=np.zeros((3, 3)))
        >>> table = torch.zeros(3, 3, requires_grad=True)  # doctest: +SKIP
        >>> log_partition(graph, {0: table}).backward()  # doctest: +SKIP
        >>> float(table.grad.sum())  # doctest: +SKIP
        1.0
    """
    unknown = [name for name in OURS if name in options]
    if unknown:
        msg = f"log_partition: the option {unknown[0]!r} of `infer` has no meaning here"
        raise OptionError(msg)

    def solve(tables: list[FloatArray], *, is_derived: bool) -> tuple[float, list[FloatArray]]:
        own, changed = copy.copy(graph), []
        for key, table in zip(log_tables, tables, strict=True):
            changed.append(own.take_log_table(key, table))
        result = infer(own, factor_marginals=is_derived, **options)
        if not is_derived:
            return float(result.log_z), []
        every = zip(changed, tables, strict=True)
        return float(result.log_z), [_counts(own, result, factors, table) for factors, table in every]

    _check_apart(graph, log_tables)
    return _function().apply(solve, *log_tables.values())


def _counts(graph: FactorGraph, result: Result, factors: range, table: FloatArray) -> FloatArray:
    """Return the derivative of log Z by a table that some factors share, or by a stack of one each."""
    arity = len(graph.factor_scope(factors.start))
    if table.ndim == arity:
        return result.expected_log_table(factors)
    return np.concatenate([own for _, own in stacks(result.factor_marginals, factors)])


def _check_apart(graph: FactorGraph, log_tables: Mapping[FactorKey | range, Any]) -> None:
    """Raise ModelError if two tables are for the same factor: the second would replace the first."""
    seen: dict[int, FactorKey | range] = {}
    for key in log_tables:
        block, offset = graph.locate(key.start if isinstance(key, range) else key)
        count = len(key) if isinstance(key, range) else 1
        first = block.first if block.source.n_members == 1 else block.first + offset
        factors = range(first, first + (len(block.scopes) if block.source.n_members == 1 else count))
        for factor in factors:
            if factor in seen:
                msg = f"log_partition: factor {factor} gets a table by {seen[factor]!r} and by {key!r}"
                raise ModelError(msg)
            seen[factor] = key


@cache
def _function() -> Any:
    """Return the class that PyTorch calls."""
    torch = load_optional("torch")

    class LogPartition(torch.autograd.Function):  # type: ignore[name-defined, misc]
        """Calls `solve` on the way forward, which gives the derivative, too."""

        @staticmethod
        def forward(context: Any, solve: Callable[..., tuple[float, list[FloatArray]]], *tables: Any) -> Any:
            """Return log Z."""
            arrays = [table.detach().cpu().double().numpy() for table in tables]
            log_z, counts = solve(arrays, is_derived=any(context.needs_input_grad))
            context.save_for_backward(*[table.new_tensor(own) for table, own in zip(tables, counts, strict=False)])
            return tables[0].new_tensor(log_z) if tables else torch.tensor(log_z)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(context: Any, outer: Any) -> Any:
            """Return the derivative by every table, times that of what was made of log Z."""
            return (None, *[outer * own for own in context.saved_tensors])

    return LogPartition
