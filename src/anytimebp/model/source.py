"""The interface of factor kinds, with defaults.

A *source* gives the scores of a block of factors, and its class is their kind; `kinds/` has a module for each. Only
`log_values` is required. With all other defaults, a kind is treated as a table whose entries are asked for.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from anytimebp.model.kinds.dense import DenseSource

FloatArray: TypeAlias = npt.NDArray[np.float64]
IndexArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
States: TypeAlias = Sequence[IndexArray]

LIST_GAIN = 8.0
"""Entries of a table that are read in the time of one listed entry."""

Box: TypeAlias = tuple[slice, ...]
"""A product of ranges, one per axis."""

MOST_LINEAR = 700.0  # nats: range of joint scores up to which sums stay in linear arithmetic
LOG_SCORE, WHOLE = "log score", "whole number"
MAX_ARITY = 30  # axes of tables: NumPy before 2.0 allows 32 dimensions, and stacked tables take one more than the arity
ASKED_AT_ONCE = 2**17  # scores asked for at a time: some MB with the copies that rules make, some milliseconds


def cut(box: Box, most: int = ASKED_AT_ONCE) -> Iterator[Box]:
    """Cut a box into boxes of at most about `most` entries, along its first axes."""
    lengths = [position.stop - position.start for position in box]
    size = int(np.prod(lengths, dtype=np.float64))
    axis = next((k for k, n in enumerate(lengths) if n > 1), 0)
    if size <= most or lengths[axis] == 1:
        yield box
        return
    step = max(1, lengths[axis] * most // size)
    for start in range(box[axis].start, box[axis].stop, step):
        part = slice(start, min(start + step, box[axis].stop))
        yield from cut((*box[:axis], part, *box[axis + 1 :]), most)


class TableRange(NamedTuple):
    """The extent of finite log scores, per member of a source or per factor; NaN where it is not known.

    Attributes:
        log_max: Largest log score.
        log_min: Smallest finite log score.
        has_zero: Whether a hard zero occurs.
    """

    log_max: FloatArray
    log_min: FloatArray
    has_zero: BoolArray


def in_logs_if_many(extent: TableRange, states: States) -> TableRange:
    """Return the range, widened so that logs are used if sums over so many joint states may overflow a double."""
    if sum(math.log(len(given)) for given in states) <= MOST_LINEAR:
        return extent
    return extent._replace(log_min=extent.log_max - 2.0 * MOST_LINEAR)


def joint_states(sizes: FloatArray) -> FloatArray:
    """Return (factors,) numbers of joint states of domains of (factors, arity) sizes; inf beyond what doubles hold."""
    with np.errstate(over="ignore"):
        count: FloatArray = np.prod(sizes, axis=1)
    return count


class Naming(NamedTuple):
    """What errors call a factor and its variables."""

    factor: str
    variables: Sequence[str]


class Packed(NamedTuple):
    """A factor over given states as kernels sum it without a table, before its numbers are scaled.

    Attributes:
        sums: Which sums read it, see `kernels/structures.py`.
        range: Of its log scores.
        before: Whole numbers that come first.
        log_scores: The default first, where there is one.
        after: Whole numbers that come last.
        twice: Whether the scores come a second time, backwards.
        work: Entries that an update reads.
        kept: Arrays that some of the whole numbers are addresses of.
    """

    sums: str
    range: TableRange
    before: IndexArray
    log_scores: FloatArray
    after: IndexArray
    twice: bool
    work: int
    kept: tuple[IndexArray, ...] = ()

    def words(self, log_scale: float, *, in_logs: bool) -> FloatArray:
        """Return what kernels read, words of 8 bytes, with the scores divided by their largest, as logs or not."""
        scores = self.log_scores - log_scale
        if not in_logs:
            np.exp(scores, out=scores)
        backwards = scores[:0:-1] if self.twice else scores[:0]
        return np.concatenate([self.before.view(np.float64), scores, backwards, self.after.view(np.float64)])


class PackedRows(NamedTuple):
    """Many factors of a block as kernels sum them, packed at once; their scores are 0 or -inf, and need no scale.

    Attributes:
        rows: Which of the factors that were asked for.
        sums: As in `Packed`.
        words: (rows, words) whole numbers.
        work: (rows,) entries that an update reads.
        kept: Arrays that some of the words are addresses of.
    """

    rows: IndexArray
    sums: str
    words: IndexArray
    work: IndexArray
    kept: tuple[IndexArray, ...]


class Field(NamedTuple):
    """One of the numbers or arrays that a kind holds, under the name of the attribute and in files.

    Attributes:
        name: Of the attribute.
        holds: "i" or "f" for an array of such a dtype; LOG_SCORE or WHOLE for one number.
        what: What errors call it; its name if empty.
    """

    name: str
    holds: str
    what: str = ""


class FactorSource(ABC):
    """Scores of the factors of a block, which are all of one shape.

    Attributes:
        shape: Universe sizes of the variables, one per axis.
        n_members: 1 if all factors share their scores (tied). Only kinds with tables may have one member a factor.
        range: Extent of the scores, or None if it is not known without asking for all of them.
        tags: Names of the kind in .npz files; none if they cannot hold it. If there are several, `tag` is the one used.
        fields: What it holds.
        sums: Which sums kernels have for it (`kernels/structures.py`); None if a table must be made of it.
        is_rule: Whether a function of the user's is called for scores: it may be slow or fail, and no file holds it.
        has_log_message: Whether `log_message` sums without going through the joint states.
        lists_parts: Whether it is summed as a list over some of the states; over all of them, by its own `sums`.
        any_arity: Whether it may have more than MAX_ARITY variables; no table is made of it then.
    """

    __slots__ = ()
    shape: tuple[int, ...]
    n_members: int = 1
    range: TableRange | None = None
    tags: ClassVar[tuple[str, ...]] = ()
    fields: ClassVar[tuple[Field, ...]] = ()
    sums: ClassVar[str | None] = None
    is_rule: ClassVar[bool] = False
    has_log_message: ClassVar[bool] = False
    lists_parts: ClassVar[bool] = False
    any_arity: ClassVar[bool] = False

    # ---------------------------------------------------------------- scores
    @abstractmethod
    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states, one index array per axis."""

    def ask(self, member: int, states: States, naming: Callable[[], Naming] | None = None) -> FloatArray:
        """Do the same for a factor that errors call by `naming()`."""
        del naming  # scores that were checked when the factor was added are right
        return self.log_values(member, states)

    @property
    def tables(self) -> DenseSource | None:
        """The whole tables, if they are in memory: they are then read in place."""
        return None

    # ---------------------------------------------------------------- proposals and messages to states outside domains
    @property
    def proposes(self) -> bool:
        """Whether it names likely states of one variable, given likely states of the others."""
        return False

    def partners(self, states: States, axis: int, k: int, naming: Callable[[], Naming] | None = None) -> IndexArray:
        """Return at most `k` such states of the variable at `axis`, in ascending order, each once."""
        del states, axis, k, naming
        return np.empty(0, dtype=np.int64)

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return the log message of a factor to some states; called only if `has_log_message`.

        Args:
            others: States of the other variables, an index array per axis; ignored at `axis`.
            weights: Log weights of these states; ignored at `axis`.
            axis: Of the variable to which the message goes.
            states: Its states.
        """
        raise NotImplementedError

    # ---------------------------------------------------------------- sums without a table
    @property
    def room(self) -> int:
        """Numbers that one update needs room for, beside messages."""
        return 0

    def all_sums(self, *, cut: bool) -> list[str]:
        """Return the names of all sums that it may need; `cut` says whether some states may be left out."""
        own = [] if self.sums is None else [self.sums]
        return [*own, "list"] if cut and self.lists_parts else own

    def packed(self, states: States) -> Packed:
        """Return what kernels read to sum over the product of given states; needed of a kind that has `sums`."""
        raise NotImplementedError

    def packed_rows(self, sizes: IndexArray, first: IndexArray) -> PackedRows | None:
        """Return what kernels read of those of many factors that need not be packed one by one.

        Args:
            sizes: (factors, arity) of domains; one of all states has them in order.
            first: (factors, arity) the first state of each domain.
        """
        del sizes, first
        return None

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return (factors,) how many entries an update without a table reads, of (factors, arity) domain sizes."""
        return np.full(len(sizes), np.inf)

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return (factors,) the most words that `packed` makes of them."""
        return np.zeros(len(sizes))

    def gain(self, sizes: FloatArray) -> float | FloatArray:
        """Return how many entries of a table are read in the time of one of `update_entries`; 0 if that always wins."""
        del sizes
        return LIST_GAIN

    def is_whole(self, sizes: FloatArray) -> BoolArray:
        """Return (factors,) whether these are the sizes of whole universes."""
        whole: BoolArray = (sizes == np.array(self.shape)).all(axis=1)
        return whole

    def is_structured(self, sizes: FloatArray) -> BoolArray:
        """Return (factors,) whether an update needs no table: where a table is small or hardly sparse, it is better."""
        if self.sums is None:
            return np.zeros(len(sizes), dtype=np.bool_)
        if len(self.shape) > MAX_ARITY:
            return np.ones(len(sizes), dtype=np.bool_)
        structured: BoolArray = self.gain(sizes) * self.update_entries(sizes) < joint_states(sizes)
        return structured

    # ---------------------------------------------------------------- compiling
    @property
    def is_compiled(self) -> bool:
        """Whether it has something to compile before a run."""
        return False

    def prepare(self) -> None:
        """Compile it, without asking for a score; needed of a kind that `is_compiled`."""
        raise NotImplementedError

    # ---------------------------------------------------------------- files and other libraries
    @property
    def tag(self) -> str:
        """What files call the kind."""
        return self.tags[0]

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that it holds, by their names."""
        return {field.name: getattr(self, field.name) for field in self.fields if field.holds in "if"}

    def stated(self, member: int) -> dict[str, Any]:
        """Return the arguments of `add_factor` that state a member again; none if there are no such."""
        del member  # tied
        held = {field.name: getattr(self, field.name) for field in self.fields}
        held |= {name: read_only(values) for name, values in self.arrays.items()}
        return self.restated(self.tag, **held) if held else {}

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the arguments of `add_factors` that state what a source of this tag holds."""
        raise NotImplementedError


class Structure(Protocol):
    """What `add_factor` takes as a structure."""

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return where the scores come from, for universes of these sizes; `what` names the factor in errors."""
        ...


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view through which nobody changes the numbers."""
    view = values.view()
    view.flags.writeable = False
    return view
