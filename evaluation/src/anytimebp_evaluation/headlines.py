"""The summary on top of the page: what holds of the paper's observations, in a line each, with its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from anytimebp_evaluation.claims import GRID_CLAIMS, RESIDUAL_CLAIMS
from anytimebp_evaluation.contenders import CONTENDERS
from anytimebp_evaluation.markdown import times
from anytimebp_evaluation.published import DOMAINS_AT, JOINT_AT, JOINT_GAIN, JOINT_GAIN_OVER_RBP
from anytimebp_evaluation.runs import Cost, Runs
from anytimebp_evaluation.tolerances import best_gains
from anytimebp_evaluation.verdicts import COUNTINGS, judge_all

LOOSE = 1e-3  # the tolerance of rounds with which gains are of the paper's size
IDEA = (
    "**The idea holds.** A run that is stopped has consistent marginals on its domains, its error falls as domains "
    "grow, and every growing method ends at the marginals of BP."
)
WHAT_DECIDES = (
    "**What decides** is how many states carry the belief, and how far rounds settle. The paper states neither; see "
    "*What the paper leaves open*."
)
GAINING = ("peaked", "sharp", "strong")  # families of grids on which a few states hold the belief


def headlines(runs: Mapping[str, Runs]) -> list[str]:
    """Return the summary of experiments that have been measured, by name; empty if one of them is missing."""
    if not {"grids", "tolerance", "domains", "joint-ie"} <= runs.keys():
        return []
    lines = [
        _on_residuals(runs),
        *_on_grids(runs["grids"]),
        _on_tolerance([runs[name] for name in ("tolerance", "tolerance-small") if name in runs]),
        _on_domains(runs["domains"]),
        _on_joint(runs["joint-ie"]),
        WHAT_DECIDES,
    ]
    return ["## Summary", "\n".join(f"- {line}" for line in lines)]


def _on_residuals(runs: Mapping[str, Runs]) -> str:
    if "residuals" not in runs:
        return IDEA
    families = runs["residuals"].families()
    judged = [verdicts for claim, verdicts in judge_all(runs["residuals"], RESIDUAL_CLAIMS) if "lower" in claim.text]
    held = sum(bool(verdict.holds) for verdicts in judged for verdict in verdicts)
    return f"{IDEA} On {held} of {len(families)} families, its residuals are lower than those of BP at the same work."


def _on_grids(runs: Runs) -> list[str]:
    plan, families = runs.plan, [family for family in runs.families() if family in GAINING]

    def span(name: str, figure: Callable[[Cost], float]) -> str:
        known = [family for family in families if name in runs.contenders(family, plan.sizes[0])]
        return _span(figure(runs.cost(family, plan.sizes[0], name, plan.error)) for family in known)

    def less(name: str) -> str:
        return span(name, lambda cost: cost.less_work.mean)

    own = span("fixed", lambda cost: cost.less_own_work.mean)
    slower = {name: span(name, lambda cost: 1.0 / cost.faster.mean) for name in ("fixed", "dynamic")}
    more = span("rbp-ahead", lambda cost: 1.0 / cost.less_work.mean)
    work = (
        f"**Work, tight rounds.** On 10 x 10 grids with 100 states ({', '.join(families)}), to L2 {plan.error:g} and "
        f"with rounds that settle to {plan.tolerance:g}, Fixed reads {less('fixed')} times less than BP in random "
        f"order ({own} without its one-off priorities), and Dynamic {less('dynamic')} times less. The paper has 12 and "
        "4.5 times, in time."
    )
    time = (
        f"**Time.** Adding one state at a time saves no time here: on the same grids, Fixed takes {slower['fixed']} "
        f"and Dynamic {slower['dynamic']} times as long as BP. Our BP reads tables at the speed of memory, and every "
        "state that joins costs bookkeeping. Adding states in batches does save time: `adaptive` is "
        f"{span('adaptive', lambda cost: cost.faster.mean)} times as fast as BP, with {less('adaptive')} times less "
        "work."
    )
    rbp = (
        f"**RBP slower than BP.** With look-ahead, as in the paper's formula, RBP does {more} times the work of BP, "
        f"which explains what the paper reports. Our RBP, without look-ahead, does {less('rbp')} times less work than "
        "BP."
    )
    return [work, time, *_on_claims(runs), rbp]


def _on_claims(runs: Runs) -> list[str]:
    """Return on how many families the observations of the paper hold."""
    n = len(runs.families())
    held: dict[tuple[str, str], int] = Counter(
        (claim.text.split(":")[0], verdict.axis)
        for claim, verdicts in judge_all(runs, GRID_CLAIMS)
        for verdict in verdicts
        if verdict.holds
    )

    def count(text: str, axis: str) -> int:
        return sum(number for (claim, on), number in held.items() if claim.startswith(text) and on == axis)

    time, work, own = COUNTINGS.values()
    ahead, behind = "Fixed is still ahead", "Dynamic overtakes"
    return [
        (
            "**TruncBP and Random.** As in the paper, the error of TruncBP stops falling above the wanted one "
            f"({count('TruncBP', '')} of {n} families), and Random needs the most work of the growing methods "
            f"({count('Random falls', work)} of {n}). Its good start in the paper is seen on "
            f"{count('Random starts', work)} of {n}; one sweep of BP already removes most of the error."
        ),
        (
            "**Fixed or Dynamic.** Fixed reaches the wanted error before Dynamic, as in the paper, on "
            f"{count(ahead, time)} of {n} families by time, on {count(ahead, work)} by work, and on "
            f"{count(ahead, own)} by work without its one-off priorities. Dynamic overtakes it in the end on "
            f"{count(behind, time)}, {count(behind, work)} and {count(behind, own)}. On the others, one of them leads "
            "throughout, or neither does."
        ),
    ]


def _on_tolerance(sweeps: Iterable[Runs]) -> str:
    best = best_gains(list(sweeps), LOOSE).items()
    shown = " and ".join(f"{times(mean)} times by {CONTENDERS[name].label} ({where})" for name, (where, mean) in best)
    return (
        f"**Work, loose rounds.** With rounds that settle to {LOOSE:g}, gains in work are of the paper's size: up to "
        f"{shown}, without the one-off priorities of Fixed. See *The round tolerance*."
    )


def _on_domains(runs: Runs) -> str:
    wanted = dict.fromkeys((runs.plan.sizes[0], DOMAINS_AT, runs.plan.sizes[-1]))
    sizes = [size for size in wanted if size in runs.sizes("peaked")]
    less = _listed(times(runs.cost("peaked", size, "dynamic", runs.plan.error).less_work.mean) for size in sizes)
    faster = _listed(times(runs.cost("peaked", size, "adaptive", runs.plan.error).faster.mean) for size in sizes)
    return (
        f"**The number of states.** On peaked 5 x 5 grids with {_listed(map(str, sizes))} states, Dynamic reads {less} "
        f"times less than BP, and `adaptive` is {faster} times as fast. On flat grids all states are needed, and "
        "nothing is gained."
    )


def _on_joint(runs: Runs) -> str:
    cost = {name: runs.cost("peaked", JOINT_AT, name, runs.plan.error) for name in ("dynamic", "adaptive")}
    return (
        f"**Joint extraction.** According to the paper's table, Dynamic is {JOINT_GAIN:g} times as fast as BP and "
        f"{JOINT_GAIN_OVER_RBP:g} times as fast as RBP with {JOINT_AT} entities. On our peaked models it does "
        f"{times(cost['dynamic'].less_work.mean)} times less work and takes {times(1.0 / cost['dynamic'].faster.mean)} "
        f"times as long as BP; `adaptive` is {times(cost['adaptive'].faster.mean)} times as fast."
    )


def _span(gains: Iterable[float]) -> str:
    """Return the smallest and the largest of some gains."""
    known = sorted(gains)
    if not known:
        return "-"
    low, high = times(known[0]), times(known[-1])
    return low if low == high else f"{low} to {high}"


def _listed(texts: Iterable[str]) -> str:
    *some, last = texts
    return f"{', '.join(some)} and {last}" if some else last
