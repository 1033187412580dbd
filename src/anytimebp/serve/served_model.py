"""The model that is served, and what a page asks of its shape: names, states, and neighbourhoods."""

from __future__ import annotations

from typing import Any

from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.graph import FactorGraph
from anytimebp.report.wording import short_text, shown_labels
from anytimebp.serve.problems import printable

MOST_FOUND = 200  # variables or states of one search
MOST_LOOKED_AT = 500_000  # labels that one search looks at
MOST_SHOWN, FIRST_RING = 60, 24  # variables of a neighbourhood, and those next to its centre
MOST_FACTORS = 200  # of a neighbourhood
MOST_ASKED = 2_000  # factors of one variable that are looked at


class ServedModel:
    """A model that many clients look at.

    Attributes:
        graph: The model.
        variables: Of the graph.
        n_states: Of all variables.
        figures: Its size.
    """

    def __init__(self, graph: FactorGraph, name: str) -> None:
        """Compile the graph, and fold the case of all names."""
        self.graph, self.variables = graph, graph.variables
        self._arrays = compiled_graph(graph).arrays
        self._folded = [each.casefold() for each in graph.variables.names()]
        self.n_states = int(graph.variables.sizes().sum())
        summary = graph.summary()
        self.figures: dict[str, Any] = {
            "name": printable(name),
            "variables": summary.n_variables,
            "factors": summary.n_factors,
            "states": self.n_states,
            "largest_universe": summary.universe_max,
            "components": summary.n_components,
            "is_forest": summary.is_forest,
        }

    def described(self, index: int) -> dict[str, Any]:
        """Return a variable as it is listed."""
        variables = self.variables
        return {
            "index": index,
            "name": self.name_of(index),
            "n_states": variables.size(index),
            "n_factors": self._degree(index),
        }

    def name_of(self, index: int) -> str:
        """Return a name that can be encoded, whole: it is what evidence is given by."""
        return printable(self.variables.name(index))

    def _degree(self, index: int) -> int:
        start = self._arrays.variable_edge_start
        return int(start[index + 1] - start[index])

    def found(self, text: str, after: int, limit: int) -> tuple[list[dict[str, Any]], int | None]:
        """Return variables whose names contain a text, and where to go on, None at the end.

        A name that is the text itself comes first.
        """
        folded, exact = text.casefold(), self.variables.find(text) if text else None
        indices = [exact] if exact is not None and after == 0 else []
        index = after
        while index < len(self._folded) and len(indices) < limit:
            if folded in self._folded[index] and index != exact:
                indices.append(index)
            index += 1
        rest = next((k for k in range(index, len(self._folded)) if folded in self._folded[k] and k != exact), None)
        return [self.described(index) for index in indices], rest

    def states(self, index: int, text: str, after: int, limit: int) -> tuple[list[dict[str, Any]], int | None]:
        """Return states of a variable whose labels contain a text, and where to go on, None at the end."""
        labels, folded = self.variables[index].labels, text.casefold()
        found: list[int] = []
        if isinstance(labels, range) and text.isascii() and text.isdigit() and len(text) < 15 and after == 0:  # noqa: PLR2004
            found = [int(text)] if int(text) in labels else []
        end = min(len(labels), after + MOST_LOOKED_AT)
        state = after
        while state < end and len(found) < limit:
            if folded in str(labels[state]).casefold() and (not found or state != found[0]):
                found.append(state)
            state += 1
        return self.labelled(index, found), state if state < len(labels) else None

    def labelled(self, index: int, states: list[int]) -> list[dict[str, Any]]:
        """Return states with their labels as text."""
        texts = self.label_texts(index, states)
        return [{"state": state, "label": text} for state, text in zip(states, texts, strict=True)]

    def label_texts(self, index: int, states: list[int]) -> list[str]:
        """Return labels as text."""
        labels = self.variables[index].labels
        return [printable(text) for text in shown_labels([labels[state] for state in states])]

    # ------------------------------------------------------------ neighbourhoods
    def neighbourhood(self, centre: int, limit: int) -> dict[str, Any]:
        """Return the variables nearest to one, ring by ring, and the factors between them."""
        place, ring, is_cut = {centre: 0}, [centre], False
        while ring and len(place) < limit:
            outer: list[int] = []
            most = min(limit, len(place) + FIRST_RING) if len(place) == 1 else limit
            for variable in ring:
                for factor in self._factors(variable):
                    for other in self._scope(factor):
                        if other not in place and len(place) < most:
                            place[other] = len(place)
                            outer.append(other)
            ring = outer
        scopes: dict[tuple[int, ...], int] = {}  # one line for all factors of the same variables
        for variable in place:
            for factor in self._factors(variable):
                scope = self._scope(factor)
                inside = tuple(sorted({place[other] for other in scope if other in place}))
                is_cut = is_cut or len(inside) < len(scope)
                if len(inside) > 1 and (inside in scopes or len(scopes) < MOST_FACTORS):
                    scopes[inside] = len(scope)
        return {
            "variables": [self.described(index) | {"name": short_text(self.name_of(index))} for index in place],
            "factors": [{"variables": list(scope), "arity": arity} for scope, arity in scopes.items()],
            "is_cut": is_cut,
        }

    def _factors(self, variable: int) -> list[int]:
        arrays, start = self._arrays, self._arrays.variable_edge_start
        edges = arrays.variable_edge[start[variable] : min(start[variable + 1], start[variable] + MOST_ASKED)]
        found: list[int] = arrays.edge_factor[edges].tolist()
        return found

    def _scope(self, factor: int) -> list[int]:
        arrays, start = self._arrays, self._arrays.factor_edge_start
        found: list[int] = arrays.edge_variable[start[factor] : start[factor + 1]].tolist()
        return found[:MOST_ASKED]
