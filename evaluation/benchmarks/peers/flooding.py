"""How many sweeps flooding (all messages at once) needs, for peers without a stopping rule."""

import numpy as np

MOST_SWEEPS = 1_000


def sweeps_to_settle(model, tolerance):
    """Return after how many sweeps no message moves by more than the tolerance, in nats; without damping."""
    tables = [np.exp(table - table.max()) for table in model.tables]
    scopes = model.scopes.tolist()
    prior = [np.exp(scores - scores.max()) for scores in model.unary]
    message = {(f, v): np.ones_like(prior[v]) for f, scope in enumerate(scopes) for v in scope}
    for sweep in range(1, MOST_SWEEPS + 1):
        belief = [weight.copy() for weight in prior]
        for (_, v), incoming in message.items():
            belief[v] *= incoming
        residual = 0.0
        for f, (scope, table) in enumerate(zip(scopes, tables, strict=True)):
            outgoing = _to_variables(table, [belief[v] / message[f, v] for v in scope])
            for v, new in zip(scope, outgoing, strict=True):
                residual = max(residual, np.ptp(np.log(new / message[f, v])))
                message[f, v] = new
        if residual <= tolerance:
            return sweep
    msg = f"flooding does not settle in {MOST_SWEEPS} sweeps"
    raise RuntimeError(msg)


def _to_variables(table, weights):
    """Return a factor's message to each of its variables, scaled to a largest entry of one."""
    found = []
    for target in range(table.ndim):
        message = table
        for axis in reversed(range(table.ndim)):
            if axis != target:
                message = np.tensordot(message, weights[axis], axes=(axis, 0))
        found.append(message / message.max())
    return found
