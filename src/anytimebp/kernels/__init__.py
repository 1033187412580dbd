"""Numba kernels: arrays and numbers in and out, status codes instead of exceptions, slices that can be resumed."""
