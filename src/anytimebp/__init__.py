"""Marginals of discrete factor graphs whose variables have many states.

What runs a model (and loads Numba) or converts one is imported when it is first used; stating one needs NumPy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anytimebp.errors import (
    AnytimeBPError,
    DistributionWarning,
    DroppedWarning,
    EvidenceError,
    FormatError,
    InconsistentModelError,
    InternalError,
    KernelCacheWarning,
    MemoryLimitError,
    ModelError,
    ModelWarning,
    NotConvergedWarning,
    OptionError,
    RuleError,
    UncertainResultWarning,
    UnconnectedVariableWarning,
    UnknownFactorError,
    UnknownStateError,
    UnknownVariableError,
)
from anytimebp.model.graph import FactorGraph
from anytimebp.model.kinds.at_most_one import AtMostOne
from anytimebp.model.kinds.bitwise import And, Or
from anytimebp.model.kinds.cardinality import Cardinality
from anytimebp.model.kinds.deterministic import Deterministic
from anytimebp.model.kinds.difference import Difference
from anytimebp.model.kinds.equality import Equality
from anytimebp.model.kinds.field_check import FieldCheck
from anytimebp.model.kinds.low_rank import LowRank
from anytimebp.model.kinds.modular_sum import ModularSum
from anytimebp.model.kinds.noisy_or import NoisyOr
from anytimebp.model.kinds.xor import Xor
from anytimebp.model.summary import GraphSummary
from anytimebp.model.variable import Variable
from anytimebp.results.map_result import MapMoment, MapResult, MapTrace
from anytimebp.results.samples import Samples
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason
from anytimebp.results.trace import Moment, Trace

if TYPE_CHECKING:
    from anytimebp.api import infer
    from anytimebp.formats.files import read_evidence, read_marginals, read_model, write_marginals, write_model
    from anytimebp.formats.networkx_graphs import from_networkx, to_networkx
    from anytimebp.formats.pgmpy_models import from_pgmpy
    from anytimebp.formats.pyagrum_models import from_pyagrum
    from anytimebp.inference.best_state import infer_map
    from anytimebp.inference.inference import Inference
    from anytimebp.inference.methods import METHODS
    from anytimebp.inference.recording import Every
    from anytimebp.inference.sampling import sample
    from anytimebp.inference.session import Session
    from anytimebp.paper.policy import GrowthPolicy, GrowthView
    from anytimebp.paper.rankings import DynamicGrowth, FixedGrowth, RandomGrowth
    from anytimebp.parallel.many import infer_many
    from anytimebp.report.page import write_report
    from anytimebp.report.plot import plot_run

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "And",
    "AnytimeBPError",
    "AtMostOne",
    "Cardinality",
    "Deterministic",
    "Difference",
    "DistributionWarning",
    "DroppedWarning",
    "DynamicGrowth",
    "Equality",
    "Every",
    "EvidenceError",
    "FactorGraph",
    "FieldCheck",
    "FixedGrowth",
    "FormatError",
    "GraphSummary",
    "GrowthPolicy",
    "GrowthView",
    "InconsistentModelError",
    "Inference",
    "InternalError",
    "KernelCacheWarning",
    "LowRank",
    "MapMoment",
    "MapResult",
    "MapTrace",
    "MemoryLimitError",
    "ModelError",
    "ModelWarning",
    "ModularSum",
    "Moment",
    "NoisyOr",
    "NotConvergedWarning",
    "OptionError",
    "Or",
    "RandomGrowth",
    "Result",
    "RuleError",
    "Samples",
    "Session",
    "Snapshot",
    "StopReason",
    "Trace",
    "UncertainResultWarning",
    "UnconnectedVariableWarning",
    "UnknownFactorError",
    "UnknownStateError",
    "UnknownVariableError",
    "Variable",
    "Xor",
    "__version__",
    "from_networkx",
    "from_pgmpy",
    "from_pyagrum",
    "infer",
    "infer_many",
    "infer_map",
    "plot_run",
    "read_evidence",
    "read_marginals",
    "read_model",
    "sample",
    "to_networkx",
    "write_marginals",
    "write_model",
    "write_report",
]

_LATER = {
    "infer": "anytimebp.api",
    "infer_map": "anytimebp.inference.best_state",
    "Inference": "anytimebp.inference.inference",
    "METHODS": "anytimebp.inference.methods",
    "Every": "anytimebp.inference.recording",
    "sample": "anytimebp.inference.sampling",
    "Session": "anytimebp.inference.session",
    "from_networkx": "anytimebp.formats.networkx_graphs",
    "from_pgmpy": "anytimebp.formats.pgmpy_models",
    "from_pyagrum": "anytimebp.formats.pyagrum_models",
    "to_networkx": "anytimebp.formats.networkx_graphs",
    "DynamicGrowth": "anytimebp.paper.rankings",
    "FixedGrowth": "anytimebp.paper.rankings",
    "GrowthPolicy": "anytimebp.paper.policy",
    "GrowthView": "anytimebp.paper.policy",
    "RandomGrowth": "anytimebp.paper.rankings",
    "infer_many": "anytimebp.parallel.many",
    "plot_run": "anytimebp.report.plot",
    "read_evidence": "anytimebp.formats.files",
    "read_marginals": "anytimebp.formats.files",
    "read_model": "anytimebp.formats.files",
    "write_marginals": "anytimebp.formats.files",
    "write_model": "anytimebp.formats.files",
    "write_report": "anytimebp.report.page",
}


def __getattr__(name: str) -> Any:
    """Import the rest when it is first asked for."""
    if name in {"learn", "parallel"}:
        return import_module(f"anytimebp.{name}")
    if name in _LATER:
        found = globals()[name] = getattr(import_module(_LATER[name]), name)
        return found
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)
