"""Random models from a seed, stated twice: as dense log tables for the slow checks, and as a graph for the library.

A `Plan` is plain data and knows nothing of the library but how to put a graph together from it. Every table is the
truth by this file's own arithmetic: what a rule, a list or a structure means is written out here once more.
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

import anytimebp as abp

MOST_JOINT = 50_000  # joint states, beyond which a model is not enumerated
SHAPES = ("tree", "tree", "loops", "loops", "cycle", "star", "parallel", "grid", "wide")
ARITIES = (1, 1, 2, 2, 2, 2, 3, 3, 4)


@dataclass
class Block:
    """Factors of one call: `tables` holds one table for all scopes, or one for each."""

    scopes: list
    tables: list
    kind: str
    build: dict
    at_once: bool

    def table(self, k):
        return self.tables[k if len(self.tables) > 1 else 0]


@dataclass
class Plan:
    """A model: sizes of universes, labels, factors, and evidence as given and as log scores.

    A plain one has positive tables of small range, and unary scores that favour few states: the models that `adaptive`
    goes through with rounds on sparse domains.
    """

    seed: int
    shape: str
    is_plain: bool
    sizes: list
    labels: list
    blocks: list = field(default_factory=list)
    given: dict = field(default_factory=dict)
    scores: dict = field(default_factory=dict)

    @property
    def factors(self):
        """Scopes and dense log tables, in the order of the graph's factors."""
        return [(scope, block.table(k)) for block in self.blocks for k, scope in enumerate(block.scopes)]

    @property
    def n_joint(self):
        return float(np.prod(np.array(self.sizes, dtype=float)))

    @property
    def can_be_enumerated(self):
        return self.n_joint <= MOST_JOINT and len(self.sizes) <= 32

    def prior(self, variable):
        """Return the sum of a variable's unary tables and evidence."""
        total = np.array(self.scores.get(variable, np.zeros(self.sizes[variable])))
        for scope, table in self.factors:
            if scope == [variable]:
                total = total + table
        return total

    @property
    def is_forest(self):
        """Whether the factor graph has no cycle."""
        root = list(range(len(self.sizes)))

        def find(i):
            while root[i] != i:
                i = root[i]
            return i

        for scope, _ in self.factors:
            tops = {find(i) for i in scope}
            if len(tops) < len(scope):
                return False
            for top in tops:
                root[top] = min(tops)
        return True

    def graph(self):
        """Return a new graph."""
        graph = abp.FactorGraph()
        for i, labels in enumerate(self.labels):
            graph.add_variable(f"v{i}", labels)
        for block in self.blocks:
            if block.at_once:
                graph.add_factors(block.scopes, **block.build)
            else:
                graph.add_factor(block.scopes[0], **block.build)
        return graph

    def describe(self):
        """Return a few words on what is special about the model."""
        kinds = sorted({block.kind for block in self.blocks})
        return f"{self.shape}, sizes {self.sizes}, {kinds}, evidence on {sorted(self.scores)}"


# ------------------------------------------------------------ topology
def random_plan(seed):
    """Return the model of a seed."""
    rng = np.random.default_rng([seed, 0])
    shape = str(rng.choice(SHAPES))
    sizes, scopes = globals()[f"_{shape}"](rng)
    for _ in range(int(rng.integers(0, 3)) if rng.random() < 0.3 else 0):  # isolated, or with unary factors only
        sizes.append(int(rng.integers(1, 4)))
    order = rng.permutation(len(sizes))
    sizes = [sizes[i] for i in order]
    position = np.argsort(order)
    scopes = [[int(position[i]) for i in scope] for scope in scopes]
    is_plain = bool(rng.random() < 0.3)
    rate = 1.0 if is_plain else rng.choice([0.0, 0.5, 1.0])
    scopes += [[i] for i in range(len(sizes)) if rng.random() < rate]
    labels = [_labels(rng, n) for n in sizes]
    plan = Plan(seed, shape, is_plain, sizes, labels)
    _add_factors(plan, rng, scopes)
    _add_evidence(plan, rng)
    return plan


def _labels(rng, n):
    return [f"s{k}" for k in range(n)] if rng.random() < 0.3 else n


def _size(rng, most=7):
    return int(min(most, rng.choice([1, 2, 2, 2, 3, 3, 4, 5, 6, 7])))


def _limited(rng, count, most=7):
    """Return sizes of universes, equal ones or not, whose product can be enumerated."""
    equal, sizes, joint = rng.random() < 0.4, [], 1
    first = _size(rng, most)
    for _ in range(count):
        n = first if equal else _size(rng, most)
        n = n if joint * n <= MOST_JOINT else 1
        joint *= n
        sizes.append(n)
    return sizes


def _tree(rng):
    sizes, scopes = _limited(rng, int(rng.integers(1, 12))), []
    placed, waiting = [0], list(range(1, len(sizes)))
    while waiting:
        arity = min(int(rng.choice(ARITIES)), len(waiting) + 1)
        if arity == 1:
            scopes.append([int(rng.choice(placed))])
            placed.append(waiting.pop())  # the root of another tree
            continue
        new, waiting = waiting[: arity - 1], waiting[arity - 1 :]
        scope = [*new, int(rng.choice(placed))]
        rng.shuffle(scope)
        scopes.append([int(i) for i in scope])
        placed += new
    return sizes, scopes


def _loops(rng):
    sizes = _limited(rng, int(rng.integers(2, 8)))
    scopes = []
    for _ in range(int(rng.integers(1, 12))):
        arity = min(int(rng.choice(ARITIES)), len(sizes))
        scopes.append(rng.choice(len(sizes), arity, replace=False).tolist())
    return sizes, scopes


def _cycle(rng):
    sizes = _limited(rng, int(rng.integers(3, 9)))
    return sizes, [[i, (i + 1) % len(sizes)] for i in range(len(sizes))]


def _star(rng):
    """Return a hub of so many leaves that few have several states, unless the model is not to be enumerated."""
    n = int(rng.integers(17, 41))
    hub = _size(rng, 4)
    sizes = [hub, *_limited(rng, n, 3)] if rng.random() < 0.3 else [hub] + [1] * n
    for i in rng.choice(n, 8, replace=False).tolist():
        sizes[i + 1] = max(sizes[i + 1], int(rng.integers(1, 4)))
    if rng.random() < 0.3:
        sizes = [hub] + [int(rng.integers(1, 4)) for _ in range(n)]
    scopes = [[0, i] if rng.random() < 0.5 else [i, 0] for i in range(1, n + 1)]
    if rng.random() < 0.3:
        scopes.append(rng.choice(np.arange(1, n + 1), 2, replace=False).tolist())
    return sizes, scopes


def _parallel(rng):
    """Return few variables with many factors between them, so that some are hubs."""
    sizes = _limited(rng, int(rng.integers(2, 6)), 4)
    scopes = [
        rng.choice(len(sizes), min(len(sizes), int(rng.integers(2, 4))), replace=False).tolist()
        for _ in range(int(rng.integers(17, 30)))
    ]
    return sizes, scopes


def _wide(rng):
    """Return few variables of many states, whose tables are large against everything else."""
    sizes = [int(rng.integers(5, 8)) for _ in range(int(rng.integers(2, 6)))]
    scopes = [
        rng.choice(len(sizes), int(rng.integers(2, min(4, len(sizes)) + 1)), replace=False).tolist()
        for _ in range(int(rng.integers(1, 5)))
    ]
    return sizes, scopes


def _grid(rng):
    rows, columns = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    sizes = _limited(rng, rows * columns, 4)
    position = np.arange(rows * columns).reshape(rows, columns)
    lines = [*position.tolist(), *position.T.tolist()]
    return sizes, [list(pair) for line in lines for pair in pairwise(line)]


# ------------------------------------------------------------ factors
@dataclass
class Style:
    """How the scores of one model are drawn."""

    scale: float
    zeros: float
    rows: float
    ties: bool
    offset: float
    witness: list | None
    unary: float
    ways: tuple


def _style(rng, sizes, *, is_plain):
    if is_plain:
        scale, unary = float(rng.uniform(0.1, 3.0)), float(rng.uniform(1.0, 8.0))
        return Style(scale, 0.0, 0.0, bool(rng.random() < 0.1), 0.0, None, unary, ("log_table", "table", "rule"))
    ties = bool(rng.random() < 0.25)
    scale = float(10.0 ** rng.uniform(-1, 3)) if rng.random() < 0.7 else float(rng.uniform(0.1, 3.0))
    return Style(
        scale=max(scale, 1.0) if ties else scale,
        zeros=float(rng.choice([0.0, 0.0, 0.0, 0.1, 0.3, 0.6])),
        rows=float(rng.choice([0.0, 0.0, 0.0, 0.2])),
        ties=ties,
        offset=float(rng.choice([0.0, 0.0, 0.0, 10.0, 1e3, 1e6])),
        witness=[int(rng.integers(n)) for n in sizes] if rng.random() < 0.85 else None,
        unary=1.0,
        ways=tuple(_ways),
    )


def _scores(rng, style, shape, witness):
    """Return random log scores, at least one of them finite."""
    table = rng.normal(0.0, style.scale * (style.unary if len(shape) == 1 else 1.0), shape)
    if style.ties:
        table = np.round(table)
    finite = table.copy()
    table[rng.random(shape) < style.zeros] = -np.inf
    if rng.random() < style.rows:
        axis = int(rng.integers(len(shape)))
        table[tuple(int(rng.integers(n)) if k == axis else slice(None) for k, n in enumerate(shape))] = -np.inf
    if witness is not None:
        table[witness] = finite[witness]
    if not (table > -np.inf).any():
        some = tuple(int(rng.integers(n)) for n in shape)
        table[some] = finite[some]
    return table + rng.choice([0.0, style.offset, -style.offset])


def _add_factors(plan, rng, scopes):
    style = _style(rng, plan.sizes, is_plain=plan.is_plain)
    groups = {}
    for scope in scopes:
        groups.setdefault(tuple(plan.sizes[i] for i in scope), []).append(scope)
    for shape, members in groups.items():
        blocks = [members] if len(members) > 1 and rng.random() < 0.4 else [[scope] for scope in members]
        for block in blocks:
            plan.blocks.append(_block(rng, style, shape, block))
    rng.shuffle(plan.blocks)


def _block(rng, style, shape, scopes):
    """Return factors of one shape, in a random one of the ways to state them."""
    ways = ["log_table", "log_table", "table", "rule", "list", "listed_default"]
    if len(shape) > 1:
        ways += ["equality", "deterministic", "difference", "at_most_one"]
    at_once = len(scopes) > 1 or bool(rng.random() < 0.1)
    stacked = at_once and bool(rng.random() < 0.5)
    if stacked:
        ways = ["log_table", "table"]
    ways = [way for way in ways if way in style.ways]
    for _ in range(20):
        way = str(rng.choice(ways))
        made = [
            _ways[way](rng, style, shape, _witness(style, [scope] if stacked else scopes))
            for scope in (scopes if stacked else scopes[:1])
        ]
        if all(one is not None for one in made):
            break
    else:
        way, made = "log_table", [_log_table(rng, style, shape, None)]
    tables = [table for table, _ in made]
    build = made[0][1]
    if stacked:
        build = {way: np.stack([one[way] for _, one in made])}
    return Block(scopes, tables, way, build, at_once)


def _witness(style, scopes):
    """Return a joint state of the block's table that is to stay possible, if all its factors share one."""
    if style.witness is None:
        return None
    wanted = {tuple(style.witness[i] for i in scope) for scope in scopes}
    return wanted.pop() if len(wanted) == 1 else None


def _log_table(rng, style, shape, witness):
    table = _scores(rng, style, shape, witness)
    return table, {"log_table": table}


def _table(rng, style, shape, witness):
    table = _scores(rng, style, shape, witness)
    if abs(table[table > -np.inf]).max() > 300.0:
        return None
    potentials = np.exp(table)
    with np.errstate(divide="ignore"):
        return np.log(potentials), {"table": potentials}


def _rule(rng, style, shape, witness):
    table = _scores(rng, style, shape, witness)
    return table, {"rule": partial(_look_up, table)}


def _look_up(table, *states):
    return table[states]


def _list(rng, style, shape, witness):
    table = _scores(rng, style, shape, witness)
    listed = np.argwhere(table > -np.inf)
    build = {"entries": (listed, table[table > -np.inf])}
    if rng.random() < 0.3:
        build["default"] = -np.inf
    return table, build


def _listed_default(rng, style, shape, witness):
    table = _scores(rng, style, shape, witness)
    default = float(rng.normal(0.0, style.scale))
    default = round(default) if style.ties else default
    rest = rng.random(shape) < rng.choice([0.3, 0.8, 0.95])
    table[rest] = default
    listed = np.argwhere(~rest)
    if not len(listed):
        return None
    return table, {"entries": (listed, table[~rest]), "default": default}


def _default(rng, style):
    return -np.inf if rng.random() < 0.5 * (style.zeros > 0) else float(rng.normal(0.0, style.scale))


def _equality(rng, style, shape, witness):
    if len(set(shape)) > 1:
        return None
    default = _default(rng, style)
    if default == -np.inf and witness is not None and len(set(witness)) > 1:
        return None
    same = rng.normal(0.0, style.scale, shape[:1]) if rng.random() < 0.5 else float(rng.normal(0.0, style.scale))
    table = np.full(shape, default)
    for k in range(shape[0]):
        table[(k,) * len(shape)] = np.broadcast_to(same, shape[:1])[k]
    return table, {"structure": abp.Equality(same, default)}


def _deterministic(rng, style, shape, witness):
    default, score = _default(rng, style), float(rng.normal(0.0, style.scale))
    values = rng.integers(shape[-1], size=shape[:-1])
    if witness is not None:
        values[witness[:-1]] = witness[-1]
    table = np.full(shape, default)
    for others in np.ndindex(*shape[:-1]):
        table[(*others, values[others])] = score
    return table, {"structure": abp.Deterministic(partial(_look_up, values), score, default)}


def _difference(rng, style, shape, witness):
    if len(shape) != 2:
        return None
    default, n = _default(rng, style), int(rng.integers(1, sum(shape) + 2))
    kernel = _scores(rng, style, (n,), None)
    first = None if n % 2 and rng.random() < 0.5 else int(rng.integers(1 - shape[1] - 1, shape[0] + 1))
    start = -(n // 2) if first is None else first
    table = np.full(shape, default)
    for x, y in np.ndindex(*shape):
        if 0 <= x - y - start < n:
            table[x, y] = kernel[x - y - start]
    if not (table > -np.inf).any() or (witness is not None and table[witness] == -np.inf):
        return None
    return table, {"structure": abp.Difference(kernel, first, default)}


def _at_most_one(rng, style, shape, witness):
    if shape.count(1) > 1:
        return None
    one = bool(rng.random() < 0.5)
    states = [int(rng.integers(min(shape)))] * len(shape) if one else [int(rng.integers(n)) for n in shape]
    table = np.zeros(shape)
    for joint in np.ndindex(*shape):
        if sum(x == s for x, s in zip(joint, states, strict=True)) > 1:
            table[joint] = -np.inf
    if witness is not None and table[witness] == -np.inf:
        return None
    return table, {"structure": abp.AtMostOne(states[0] if one else states)}


_ways = {
    "log_table": _log_table,
    "table": _table,
    "rule": _rule,
    "list": _list,
    "listed_default": _listed_default,
    "equality": _equality,
    "deterministic": _deterministic,
    "difference": _difference,
    "at_most_one": _at_most_one,
}


# ------------------------------------------------------------ evidence
def _add_evidence(plan, rng):
    rate = float(rng.choice([0.0, 0.0, 0.15, 0.5]))
    scale = float(10.0 ** rng.uniform(-1, 2.5))
    for i, n in enumerate(plan.sizes):
        if rng.random() >= rate:
            continue
        names = list(range(n)) if isinstance(plan.labels[i], int) else plan.labels[i]
        kind = str(rng.choice(["label", "set", "scores"]))
        if kind == "label":
            state = int(rng.integers(n))
            allowed, value = {state}, names[state]
        elif kind == "set":
            allowed = set(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist())
            value = {names[k] for k in allowed}
        else:
            value = rng.normal(0.0, scale, n)
            value[rng.random(n) < rng.choice([0.0, 0.3])] = -np.inf
            value[int(rng.integers(n))] = float(rng.normal(0.0, scale))
            allowed = set(range(n))
        plan.given[f"v{i}" if rng.random() < 0.5 else i] = value
        plan.scores[i] = value if kind == "scores" else np.where(np.isin(np.arange(n), list(allowed)), 0.0, -np.inf)
