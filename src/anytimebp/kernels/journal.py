"""What changed since the last consistent state, so that it can be had back; and what changed in this round."""

from anytimebp.kernels.jit import kernel

EPOCH, N_SAVED, ROUND, N_TOUCHED, N_GROWN = 0, 1, 2, 3, 4  # places in `journal.counts`


@kernel()
def note(layout, bp, journal, factor):
    """Keep a factor's messages as they are, unless that was done since the last consistent state."""
    counts = journal.counts
    if journal.factor_round[factor] != counts[ROUND]:
        journal.factor_round[factor] = counts[ROUND]
        journal.touched_factor[counts[N_TOUCHED]] = factor
        counts[N_TOUCHED] += 1
    if journal.factor_epoch[factor] == counts[EPOCH]:
        return
    journal.factor_epoch[factor] = counts[EPOCH]
    journal.saved_factor[counts[N_SAVED]] = factor
    counts[N_SAVED] += 1
    journal.saved_total[factor] = bp.factor_total[factor]
    for edge in range(layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]):
        journal.saved_scale[edge] = bp.edge_scale[edge]
        journal.saved_min[edge] = bp.edge_min[edge]
        start, size = bp.edge_slot_start[edge], journal.settled_size[layout.edge_variable[edge]]
        kept, message = journal.saved_message[start : start + size], bp.message[start : start + size]
        for v in range(size):
            kept[v] = message[v]


@kernel()
def note_growth(journal, variable):
    """Take note that a variable's domain is about to grow."""
    counts = journal.counts
    if journal.variable_epoch[variable] != counts[EPOCH]:
        journal.variable_epoch[variable] = counts[EPOCH]
        journal.grown_variable[counts[N_GROWN]] = variable
        counts[N_GROWN] += 1


@kernel()
def begin_round(journal):
    journal.counts[ROUND] += 1
    journal.counts[N_TOUCHED] = 0


@kernel()
def settle(bp, journal):
    """Make the state as it is the last consistent one."""
    counts = journal.counts
    for k in range(counts[N_GROWN]):
        variable = journal.grown_variable[k]
        journal.settled_size[variable] = bp.domain_size[variable]
    counts[EPOCH] += 1
    counts[N_SAVED] = counts[N_GROWN] = 0
