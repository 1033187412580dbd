"""Many graphs, or one graph under many kinds of evidence, at once."""

from anytimebp.parallel.ray_workers import RayExecutor, ray_executor

__all__ = ["RayExecutor", "ray_executor"]
