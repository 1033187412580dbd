"""Damping, patience with rounds that do not settle, estimates of the error."""
