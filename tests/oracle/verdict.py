"""What must hold of one answer, checked against the dense tables of a plan; every check returns complaints.

A complaint is a pair: what kind it is, in a few words, and the figures. The inside of a snapshot is looked at in one
place only (`messages`): messages from variables to factors, and the beliefs that go with them.
"""

import copy
from dataclasses import dataclass

import numpy as np

import anytimebp as abp
from anytimebp.exact.readout import CliqueMarginals
from oracle.slow_bp import log_sum

NO_PROBABILITY = 1e-13  # beliefs under this have no probability left; their messages may go on falling
UNDERFLOW = 600.0  # nats under the largest weight, from where a weight may be 0 without any harm
READABLE = 1e-290  # beliefs above this are normal numbers, with all digits


@dataclass
class Messages:
    """What a snapshot says of its messages, by this file's own names.

    Attributes:
        domains: The states of each variable that take part.
        beliefs: Of each variable, over its domain.
        to_factor: By (factor, variable): log messages over the domain; of factors of two variables or more.
    """

    domains: list
    beliefs: list
    to_factor: dict


def messages(plan, snapshot):
    """Return the messages of a snapshot that was made with factor marginals; None where it has none."""
    found = snapshot.factor_marginals
    if not found:
        return None
    inner = found._marginals
    domains, beliefs, to_factor = [], [], {}
    for i, n in enumerate(plan.sizes):
        domain = inner.domain(i)
        domains.append(np.arange(n) if domain is None else np.asarray(domain))
        beliefs.append(np.asarray(inner[i])[domains[-1]])
    for f, (scope, _) in enumerate(plan.factors if not isinstance(found, CliqueMarginals) else []):  # which has none
        for axis, i in enumerate(scope if len(scope) > 1 else []):
            start = found._slot_start[found._factor_edge[f] + axis]
            to_factor[f, i] = np.array(found._log_weight[start : start + len(domains[i])])
    return Messages(domains, beliefs, to_factor)


# ------------------------------------------------------------ the slow truth
def supported(plan, domains=None):
    """Return, by variable, which states messages can reach: those that no factor excludes, however often it is asked.

    Belief propagation from positive messages ends with zeros on exactly the others; a variable without any state left
    means that messages vanish.
    """
    alive = [plan.prior(i) > -np.inf for i in range(len(plan.sizes))]
    for i, domain in enumerate(domains or []):
        alive[i] &= np.isin(np.arange(plan.sizes[i]), domain)
    changed = True
    while changed:
        changed = False
        for scope, table in plan.factors:
            possible = table > -np.inf
            for axis, i in enumerate(scope):
                possible = possible & alive[i].reshape(_along(axis, len(scope)))
            for axis, i in enumerate(scope):
                left = possible.any(axis=tuple(k for k in range(len(scope)) if k != axis))
                changed |= bool((left != alive[i]).any())
                alive[i] = left
    return alive


def enumerated(plan, domains=None):
    """Return exact marginals and log Z of a plan on domains; None where no joint state is possible."""
    joint, n = np.zeros(plan.sizes), len(plan.sizes)
    for scope, table in plan.factors:
        shape = [1] * n
        for axis in scope:
            shape[axis] = plan.sizes[axis]
        joint = joint + table.transpose(np.argsort(scope)).reshape(shape)
    for i, scores in plan.scores.items():
        joint = joint + np.asarray(scores).reshape(_along(i, n))
    for i, domain in enumerate(domains or []):
        inside = np.isin(np.arange(plan.sizes[i]), domain)
        joint = joint + np.where(inside, 0.0, -np.inf).reshape(_along(i, n))
    peak = joint.max()
    if peak == -np.inf:
        return None
    weight = np.exp(joint - peak)
    total = weight.sum()
    return [weight.sum(axis=tuple(k for k in range(n) if k != i)) / total for i in range(n)], peak + np.log(total)


def _along(axis, n):
    return [-1 if k == axis else 1 for k in range(n)]


def _range(values):
    return float(values.max() - values.min()) if len(values) else 0.0


def rounding(plan):
    """Return the nats that rounding may cost: a few times the last digit of the largest sum of scores."""
    largest = sum(float(np.abs(table[table > -np.inf]).max()) for _, table in plan.factors)
    largest += sum(float(np.abs(s[s > -np.inf]).max()) for s in plan.scores.values())
    return 1e-12 + 1e-14 * largest


# ------------------------------------------------------------ checks
def check_figures(plan, snapshot):
    """Check what must hold of every snapshot, settled or not."""
    found = []
    for i, n in enumerate(plan.sizes):
        marginal = snapshot.marginals[i]
        if marginal.shape != (n,) or not np.isfinite(marginal).all():
            found.append(("marginals not finite", f"v{i}: {marginal}"))
        elif (marginal < 0.0).any() or abs(marginal.sum() - 1.0) > 1e-9:
            found.append(("marginals no distribution", f"v{i}: {marginal}, sum {marginal.sum()}"))
        elif marginal[np.asarray(plan.scores.get(i, np.zeros(n))) == -np.inf].any():
            found.append(("marginals against evidence", f"v{i}: {marginal} under {plan.scores[i]}"))
    if snapshot.work != sum(snapshot.work_parts.values()) or min(snapshot.work_parts.values()) < 0:
        found.append(("work is not its parts", f"{snapshot.work} of {snapshot.work_parts}"))
    sizes = np.asarray(snapshot.domain_sizes)
    if (sizes < 1).any() or (sizes > plan.sizes).any():
        found.append(("domain sizes", f"{sizes} of {plan.sizes}"))
    if np.isnan(snapshot.max_residual) or snapshot.max_residual < 0.0:
        found.append(("residual is no number", f"{snapshot.max_residual}"))
    if snapshot.consistent and not np.isfinite(snapshot.log_z) and np.isfinite(snapshot.unexplored_mass):
        waits = snapshot.method == "adaptive" and snapshot.unexplored_mass == 1.0
        found += [] if waits else [("log Z not finite", f"{snapshot.log_z}")]
    return found + _check_estimate(snapshot) + _check_factor_marginals(plan, snapshot)


def _check_estimate(snapshot):
    estimate = snapshot.estimated_error
    if np.isnan(estimate) or estimate < 0.0:
        return [("estimate is no number", f"{estimate}")]
    may_move = snapshot.max_residual > 0.0 and (snapshot.domain_sizes > 1).any()
    if estimate == 0.0 and not snapshot.consistent and may_move:
        return [("estimate 0 though unsettled", f"residual {snapshot.max_residual}")]
    return []


def _check_factor_marginals(plan, snapshot):
    found, is_possible = [], all(alive.any() for alive in supported(plan))
    for f, (scope, table) in enumerate(plan.factors if snapshot.factor_marginals else []):
        try:
            joint = snapshot.factor_marginals[f]
        except abp.InconsistentModelError as error:  # a run that was stopped before it could say so
            found += [("factor marginals of a possible model refused", str(error))] if is_possible else []
            continue
        if joint.shape != table.shape or not np.isfinite(joint).all():
            found.append(("factor marginals not finite", f"factor {f} {scope}: {joint.tolist()}"))
        elif (joint < 0.0).any() or abs(joint.sum() - 1.0) > 1e-9 or joint[table == -np.inf].any():
            found.append(("factor marginals no distribution", f"factor {f} {scope}: {joint.tolist()}"))
    return found


def check_fixed_point(plan, snapshot):
    """Check that the messages of a consistent snapshot are at a fixed point on their domains, by a dense pass."""
    inside = messages(plan, snapshot)
    if snapshot.method == "exact":
        return []  # there are no messages
    if inside is None or [len(domain) for domain in inside.domains] != snapshot.domain_sizes.tolist():
        return []  # settled on fewer states than messages reach: what the others say stands still
    if not all(np.isfinite(b).all() for b in inside.beliefs):
        return []  # said elsewhere
    slack, allowed = rounding(plan), snapshot.tolerance * 1.0001 + rounding(plan)
    alive = supported(plan, inside.domains)
    if not all(a.any() for a in alive):
        return [("settled though no joint state is possible", plan.describe())]
    found, log_z = [], 0.0
    sent = {}
    for f, (scope, table) in enumerate(plan.factors):
        if len(scope) > 1:
            new, log_total = _sent(table[np.ix_(*[inside.domains[i] for i in scope])], scope, inside, f)
            sent.update(new)
            log_z += log_total
    for i, domain in enumerate(inside.domains):
        edges = [key for key in inside.to_factor if key[1] == i]
        belief, prior, live = inside.beliefs[i], plan.prior(i)[domain], alive[i][domain]
        heard = prior + sum((sent[key] for key in edges), np.zeros(len(domain)))
        log_z += float(log_sum(heard, 0)) - sum(float(log_sum(inside.to_factor[key] + sent[key], 0)) for key in edges)
        found += _check_variable(i, belief, prior, live, heard, edges, inside, sent, allowed, slack)
        found += _check_residuals(edges, belief, inside, sent, allowed, len(edges))
    doubt = 1e-9 + 10 * slack + 2.0 * len(sent) * snapshot.tolerance
    waits = np.isnan(snapshot.log_z)
    if not found and not waits and abs(log_z - snapshot.log_z) > doubt + 1e-12 * abs(log_z):
        found.append(("log Z is not the Bethe estimate", f"{snapshot.log_z} for {log_z}"))
    return found


def _sent(table, scope, inside, f):
    """Return the messages that a factor would send, and the log of its total."""
    incoming = [inside.to_factor[f, i] for i in scope]
    new = {}
    for axis, i in enumerate(scope):
        terms = table
        for other, weight in enumerate(incoming):
            if other != axis:
                terms = terms + weight.reshape(_along(other, len(scope)))
        new[f, i] = log_sum(terms, tuple(k for k in range(len(scope)) if k != axis))
    return new, float(log_sum(new[f, scope[0]] + incoming[0], 0))


def _check_variable(i, belief, prior, live, heard, edges, inside, sent, allowed, slack):
    """Check that beliefs are those of the messages, and that zeros are where they must be."""
    found = []
    for key in edges:
        others = heard - np.where(np.isfinite(sent[key]), sent[key], 0.0)
        wrong = live & (inside.to_factor[key] == -np.inf) & (others > others.max() - UNDERFLOW)
        if wrong.any():
            found.append(("a possible state is shut out", f"v{i} to factor {key[0]}: {inside.to_factor[key]}"))
    if (belief[~live] > NO_PROBABILITY).any():
        found.append(("an impossible state has a belief", f"v{i}: {belief}, possible {live}"))
    if found:
        return found
    readable = (belief > READABLE) & live
    weights = sum((inside.to_factor[key] for key in edges), np.zeros(len(belief)))[readable]
    readable[readable] = np.isfinite(weights)
    weights = weights[np.isfinite(weights)]
    off = _range(weights - (len(edges) - 1) * np.log(belief[readable]) - prior[readable])
    if off > 1e-9 + 100 * slack * max(1, len(edges)):
        found.append(("beliefs are not those of the messages", f"v{i}: by {off} nats"))
    expected = np.exp(heard - log_sum(heard, 0))
    if abs(expected - belief).max() > 1e-10 + slack + 2.0 * len(edges) * allowed:
        found.append(("one more pass moves a marginal", f"v{i}: {belief} to {expected}"))
    return found


def _check_residuals(edges, belief, inside, sent, allowed, degree):
    """Check that no message would move by more than the tolerance, where there is probability left."""
    found = []
    counts = belief > NO_PROBABILITY
    for key in edges:
        with np.errstate(invalid="ignore", divide="ignore"):
            change = (sent[key] - (np.log(belief) - inside.to_factor[key]))[counts]
        moved = _range(change) if np.isfinite(change).all() else np.inf
        if moved > allowed + 1e-14 * degree:
            found.append(("a message moves by more than the tolerance", f"{key}: {moved:.6g} for {allowed:.6g} nats"))
    return found


def check_consistent(plan, snapshot):
    """Check marginals of factors against those of variables, and everything against enumeration where it is exact."""
    found, doubt = [], 1e-9 + 10 * rounding(plan) + 4.0 * snapshot.tolerance
    inside = messages(plan, snapshot)
    if inside is None or [len(domain) for domain in inside.domains] != snapshot.domain_sizes.tolist():
        return []
    for f, (scope, _) in enumerate(plan.factors):
        joint = snapshot.factor_marginals[f]
        for axis, i in enumerate(scope if len(scope) > 1 else []):
            alone = joint.sum(axis=tuple(k for k in range(len(scope)) if k != axis))[inside.domains[i]]
            if not abs(alone - inside.beliefs[i]).max() <= doubt:
                found.append(("factor marginals contradict marginals", f"factor {f}, v{i}: {alone}"))
    if (plan.is_forest or snapshot.method == "exact") and plan.can_be_enumerated:
        found += _check_exact(plan, snapshot, inside)
    return found


def _check_exact(plan, snapshot, inside):
    exact = enumerated(plan, inside.domains)
    if exact is None:
        return [("settled though no joint state is possible", plan.describe())]
    marginals, log_z = exact
    doubt = 1e-7 + 10 * rounding(plan) + 10.0 * len(inside.to_factor) * snapshot.tolerance
    found = [
        ("marginals are not exact", f"v{i}: {inside.beliefs[i]} for {m[d]}")
        for i, (m, d) in enumerate(zip(marginals, inside.domains, strict=True))
        if not abs(m[d] - inside.beliefs[i]).max() <= doubt
    ]
    if not abs(log_z - snapshot.log_z) <= doubt and not np.isnan(snapshot.log_z):
        found.append(("log Z is not exact", f"{snapshot.log_z} for {log_z}"))
    return found


def check_snapshot(plan, snapshot):
    """Make all checks of one snapshot."""
    found = check_figures(plan, snapshot)
    if snapshot.consistent and not found:
        found = check_consistent(plan, snapshot) + check_fixed_point(plan, snapshot)
    return found


class Kept:
    """A snapshot and what it said when it was made."""

    def __init__(self, snapshot):
        """Ask a copy for everything, so that the snapshot itself is asked for the first time later on."""
        self.snapshot = snapshot
        self.before = self._figures(copy.copy(snapshot))

    @staticmethod
    def _figures(snapshot):
        factors = snapshot.factor_marginals
        return {
            "marginals": b"".join(np.asarray(m).tobytes() for m in snapshot.marginals.values()),
            "factor marginals": b"".join(_joint(factors, f) for f in range(len(factors))),
            "domain sizes": snapshot.domain_sizes.tolist(),
            "work": dict(snapshot.work_parts),
            "estimated error": repr(snapshot.estimated_error),
            "unexplored mass": repr(snapshot.unexplored_mass),
            "log Z": repr(snapshot.log_z),
        }

    def changes(self):
        """Return complaints of what has changed since."""
        after = self._figures(self.snapshot)
        return [
            ("a snapshot changed afterwards", f"{name}: {self.before[name]!r:.100} to {after[name]!r:.100}")
            for name in after
            if after[name] != self.before[name]
        ]


def _joint(factors, f):
    """Return the bytes of a factor's marginal; nothing where no joint state of it is possible."""
    try:
        return factors[f].tobytes()
    except abp.InconsistentModelError:
        return b""
