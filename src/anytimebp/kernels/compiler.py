"""What kernels leave out of Numba's compiler: it spends over a quarter of its time on what they do not need.

Of every function, Numba makes a library with machine code and a wrapper for Python. But a kernel that another one calls
is optimised again as a part of it, and nobody runs it by itself. So it is only translated to LLVM's language
(PartCompiler); what calls it links that in, and optimises all of it once.

This leans on inner parts of Numba: the library that code is put in, and when it is finished.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags


class _KernelFlags(Flags):
    """Flags that are quick to compare: Numba does so with every operator that it looks up, a tenth of its time."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KernelFlags) and bool(self._values == other._values)

    def __hash__(self) -> int:
        return 0  # as flags may change; Numba's own is the same for all, too


class KernelCompiler(Compiler):
    """The compiler of kernels that Python calls, or that are called by address."""

    def __init__(
        self, typing: Any, target: Any, library: Any, arguments: Any, result: Any, flags: Any, variables: Any
    ) -> None:
        """Do as Numba's own, with other flags."""
        super().__init__(typing, target, library, arguments, result, _KernelFlags(flags), variables)


class PartCompiler(KernelCompiler):
    """The compiler of kernels that other kernels call by name."""

    def define_pipelines(self) -> Any:
        """Return the usual passes; they end in a library of ours."""
        state = self.state
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _PartLibrary(JITCodeLibrary):
    """A kernel in LLVM's language, for others to link in. Nothing in it has an address."""

    @property
    def codegen(self) -> _NoEnvironment:
        return _NoEnvironment()

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        """Leave it to what links this in."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _NoEnvironment:
    """In place of what tells compiled code where its Python objects are. Kernels have none."""

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: there is no code yet."""
