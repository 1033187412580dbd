"""The loop: slices of updates, budgets, interrupts, damping and snapshots."""
