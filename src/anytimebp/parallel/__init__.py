"""Many graphs, or one graph under many kinds of evidence, at once; and one graph in parts."""

from anytimebp.parallel.partitioned import PartitionedGraph, PartitionedResult, PartMarginals, write_parts
from anytimebp.parallel.ray_workers import RayExecutor, ray_executor
from anytimebp.parallel.splitting import Part

__all__ = [
    "Part",
    "PartMarginals",
    "PartitionedGraph",
    "PartitionedResult",
    "RayExecutor",
    "ray_executor",
    "write_parts",
]
