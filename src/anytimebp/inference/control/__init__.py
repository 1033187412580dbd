"""Damping, limits of rounds that do not settle, estimates of the error."""
