"""Runs: the loop, budgets, snapshots."""
