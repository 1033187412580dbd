"""`exact` on graphs without loops that have structures: BP is exact there, and writes none of them out as a table."""

from __future__ import annotations

from anytimebp.domains.domains import domain_sizes
from anytimebp.exact.tree import is_forest
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import FORESTS, Task
from anytimebp.kernels.codes import SUM, TABLE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.tables.memory import factor_kinds, without_table

CHOICE = "belief propagation, which is exact as there are no loops, and writes no structure out as a table"


def forest_run(task: Task) -> AllStates | None:
    """Return a run of BP that is exact and sums over structures; None where there are loops, or only tables."""
    compiled = compiled_graph(task.graph)
    if compiled.has_tables_only or task.semiring != SUM or without_table(compiled):
        return None
    sizes = domain_sizes(compiled, task.options.observed)
    if not (factor_kinds(compiled, sizes) != TABLE).any():
        return None
    task.load(FORESTS)
    if not is_forest(compiled, sizes):
        return None
    task.load("bp")
    made = AllStates(task._replace(options=task.options.for_method("bp")))
    task.figures.choice = CHOICE
    return made
