"""The weights of all blocks as one vector, which is what optimisers move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anytimebp.errors import ModelError, OptionError
from anytimebp.learn.example import Example
from anytimebp.model.source import FloatArray


class Blocks:
    """The blocks of some examples, in the order in which they first occur.

    Attributes:
        kinds: By name, how scores come from weights.
        shapes: By name, the shape of the weights.
        size: The number of all weights.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        """Find the blocks.

        Raises:
            ModelError: If a block is not the same in all examples, or there is none.
        """
        self.kinds: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        first: dict[str, tuple[int, tuple[int, ...]]] = {}
        for number, example in enumerate(examples):
            for term in example.terms:
                self.kinds.setdefault(term.name, term.kind)
                self.shapes.setdefault(term.name, term.weight_shape)
                where, shape = first.setdefault(term.name, (number, term.shape))
                here = self.kinds[term.name], self.shapes[term.name], shape
                if here != (term.kind, term.weight_shape, term.shape):
                    msg = (
                        f"block {term.name!r} has {term.kind} on factors of shape {term.shape} in example {number}, "
                        f"with weights of shape {term.weight_shape}, but {here[0]} on factors of shape {shape} in "
                        f"example {where}, with weights of shape {here[1]}"
                    )
                    raise ModelError(msg)
        if not self.shapes:
            msg = "no example has factors whose scores are to be learned: see `Example.add_factors`"
            raise ModelError(msg)
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        self._slices = {
            name: slice(int(end) - math.prod(self.shapes[name]), int(end))
            for name, end in zip(self.shapes, ends, strict=True)
        }
        self.size = int(ends[-1])

    def split(self, vector: FloatArray) -> dict[str, FloatArray]:
        """Return the weights of each block, as views of the vector."""
        return {name: vector[own].reshape(self.shapes[name]) for name, own in self._slices.items()}

    def joined(self, weights: Mapping[str, Any] | None, what: str) -> FloatArray:
        """Return the vector of some blocks' weights; 0 for the others.

        Raises:
            ModelError: If there is no such block, or the weights are of another shape.
        """
        vector = np.zeros(self.size)
        for name, given in (weights or {}).items():
            if name not in self.shapes:
                msg = f"{what}: there is no block {name!r}; there are {', '.join(map(repr, self.shapes))}"
                raise ModelError(msg)
            own = np.asarray(given, dtype=np.float64)
            if own.shape != self.shapes[name] or not np.isfinite(own).all():
                msg = f"{what}: block {name!r} needs finite numbers of shape {self.shapes[name]}, got {own.shape}"
                raise ModelError(msg)
            vector[self._slices[name]] = own.reshape(-1)
        return vector

    def penalties(self, l2: float | Mapping[str, float]) -> FloatArray:
        """Return the penalty of every weight, of one for all or of one a block.

        Raises:
            OptionError: If one is negative or of no block.
        """
        of = l2 if isinstance(l2, Mapping) else dict.fromkeys(self.shapes, l2)
        vector = np.zeros(self.size)
        for name, penalty in of.items():
            is_number = isinstance(penalty, int | float | np.number) and not isinstance(penalty, bool)
            if name not in self.shapes or not is_number or not 0.0 <= penalty < math.inf:
                msg = f"l2 must be a number of at least 0, or one for each block by name, got {l2!r}"
                raise OptionError(msg)
            vector[self._slices[name]] = penalty
        return vector
