"""Numba kernels: arrays and numbers in and out, status codes instead of exceptions, work in slices that can be resumed."""
