"""How kernels are compiled, how they see tables that live outside the workspace, and how they call by address."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CellType, FunctionType
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import populate_array

from anytimebp.kernels.compiler import KernelCompiler, PartCompiler
from anytimebp.kernels.disk_cache import compile_callback, keep_on_disk
from anytimebp.kernels.held_signals import hold_signals, let_signals_in

UNCOMPILED: bool = getattr(numba.config, "DISABLE_JIT", 0) == 1
"""Whether kernels run as plain Python (NUMBA_DISABLE_JIT=1)."""

Function = TypeVar("Function", bound=Callable[..., Any])

FAST = frozenset({"reassoc", "contract", "nsz", "arcp"})
"""Sums may be reordered. `nnan` and `ninf` are left out: they would let the compiler drop our checks of both."""

FAST_WITHOUT_NAN = FAST | {"nnan"}
"""For loops that cannot meet NaN. `larger` and `smaller` (`arithmetic.py`) have their maxima and minima vectorised."""


CONSTANTS = ("model/factor.py", "model/kinds/dense.py")
"""Modules outside this folder whose constants kernels are compiled with."""


def _digest_of_kernels() -> str:
    """Return a fingerprint of all kernels, and of the constants in them."""
    folder = Path(__file__).parent
    files = [*sorted(folder.glob("*.py")), *(folder.parent / name for name in CONSTANTS)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


DIGEST = _digest_of_kernels()


def _keyed(function: Function) -> Function:
    """Return the function with the fingerprint of all kernels among its free variables.

    Numba's disk cache goes by a function's own code and free variables, and would not notice that a callee in another
    file has changed. Such a function is for the compiler alone: Python itself could not run it.
    """
    if UNCOMPILED:
        return function
    code = function.__code__.replace(co_freevars=("digest",))
    keyed: Any = FunctionType(code, function.__globals__, function.__name__, closure=(CellType(DIGEST),))
    keyed.__doc__, keyed.__module__, keyed.__qualname__ = function.__doc__, function.__module__, function.__qualname__
    return keyed  # type: ignore[no-any-return]


def kernel(
    fastmath: frozenset[str] = frozenset(), *, inline: bool = False, merge: bool = False
) -> Callable[[Function], Function]:
    """Compile for any thread, with the result kept on disk where a folder for it can be written.

    Args:
        fastmath: What the compiler may assume of floating-point numbers.
        inline: For a line or two that stand in inner loops.
        merge: For functions with one caller: compiled as a part of it. Everything that a function calls is optimised
            again together with it, so every level of calls less saves a second or two of compiling.
    """

    def compile_it(function: Function) -> Function:
        options: dict[str, Any] = {
            "nogil": True,
            "_nrt": False,  # nothing is allocated, so there is nothing to count references to
            "no_cfunc_wrapper": True,
            "error_model": "numpy",
            "fastmath": set(fastmath),
            "forceinline": inline,
            "inline": "always" if merge else "never",
        }
        function = _keyed(function)
        if UNCOMPILED:
            return numba.njit(**options)(function)  # type: ignore[no-any-return]
        made = numba.njit(pipeline_class=KernelCompiler, **options)(function)
        keep_on_disk(made, function)
        options |= {"no_cpython_wrapper": True}
        _take_in_as_part(made, cache(lambda: numba.njit(pipeline_class=PartCompiler, **options)(function)))
        return made  # type: ignore[no-any-return]

    return compile_it


def _take_in_as_part(made: Any, part: Callable[[], Any]) -> None:
    """Have kernels that call a kernel by its name take in another version of it, a part that is nothing by itself.

    Args:
        made: The kernel. Numba asks it for these two members where others call it.
        part: Returns the other version; called where one compiles.
    """

    def get_call_template(arguments: Any, named: Any) -> Any:
        let_signals_in()
        return part().get_call_template(arguments, named)

    made.get_call_template = get_call_template
    made.get_overload = lambda signature: part().get_overload(signature)


class Callback(NamedTuple):
    """A function that kernels call by its address, and what keeps it there."""

    address: int
    owner: object


_C_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int64)

if UNCOMPILED:

    def table_view(address: int, size: int) -> np.ndarray:
        """Return the float64 numbers at an address as an array."""
        return np.ctypeslib.as_array((ctypes.c_double * size).from_address(int(address)))

    def index_view(address: int, size: int) -> np.ndarray:
        """Return the int64 numbers at an address as an array."""
        return np.ctypeslib.as_array((ctypes.c_int64 * size).from_address(int(address)))

    def fetch(numbers: np.ndarray, position: int) -> None:
        """Do nothing: it would not change anything but the time."""

    def borrow(arrays: Any) -> Any:
        """Return the arrays as they are."""
        return arrays

    def address_of(made: Any, *arguments: Any) -> int:  # noqa: ARG001
        """Return 0: the function is called by its name."""
        return 0

    def by_address(function: Any, *results: str) -> Any:  # noqa: ARG001
        """Return what calls a function; the address does not matter."""
        return lambda _address, arguments: function(*arguments)

    def callback(function: Callable[[int], None]) -> Callback:
        """Return a function of one whole number as something that `call` can call."""
        made = _C_FUNCTION(function)
        return Callback(ctypes.cast(made, ctypes.c_void_p).value or 0, made)

    def call(address: int, argument: int) -> None:
        """Call the function at an address."""
        _C_FUNCTION(int(address))(int(argument))

else:

    class Borrowed(types.Type):
        """A named tuple of arrays that somebody up the stack holds: one pointer, no owners.

        Every access to an array with an owner counts references with atomic operations, which cost several times what
        a message between variables of ten states costs. And a tuple of thirty arrays handed over by value is two
        hundred arguments, on which the compiler spends most of its time.
        """

        def __init__(self, record: Any) -> None:
            """Stand for a named tuple of this type."""
            self.record = record
            super().__init__(name=f"Borrowed({record})")

    @register_model(Borrowed)
    class _BorrowedModel(models.PrimitiveModel):
        def __init__(self, manager: Any, kind: Any) -> None:
            pointee = manager.lookup(kind.record).get_value_type()
            super().__init__(manager, kind, pointee.as_pointer())

    @infer_getattr
    class _BorrowedFields(AttributeTemplate):
        key = Borrowed

        def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
            fields = kind.record.fields
            return kind.record[fields.index(name)] if name in fields else None

    @lower_getattr_generic(Borrowed)
    def _read_field(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
        position = kind.record.fields.index(name)
        field = builder.load(cgutils.gep_inbounds(builder, value, 0, position))
        if isinstance(kind.record[position], types.Array):
            array = context.make_array(kind.record[position])(context, builder, value=field)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()
        return field

    @intrinsic
    def borrow(_context: Any, arrays: Any) -> Any:
        """Return a named tuple of arrays without owners, for use while the caller holds it."""

        def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return cgutils.alloca_once_value(builder, arguments[0])

        return Borrowed(arrays)(arrays), build

    def _build_view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """Make an array of what lies at an address."""
        array = context.make_array(signature.return_type)(context, builder)
        width = context.get_constant(types.intp, 8)
        data = builder.inttoptr(arguments[0], array.data.type)
        populate_array(array, data=data, shape=arguments[1:], strides=[width], itemsize=width, meminfo=None)
        return array._getvalue()

    @intrinsic
    def table_view(_context: Any, _address: Any, _size: Any) -> Any:
        """Return the float64 numbers at an address as an array. The workspace keeps their owner alive."""
        return types.Array(types.float64, 1, "C")(types.int64, types.int64), _build_view

    @intrinsic
    def index_view(_context: Any, _address: Any, _size: Any) -> Any:
        """Return the int64 numbers at an address as an array."""
        return types.Array(types.int64, 1, "C")(types.int64, types.int64), _build_view

    @intrinsic
    def fetch(_context: Any, numbers: Any, _position: Any) -> Any:
        """Have the processor fetch a number of an array, or what lies behind its end, while others are computed."""

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, value=arguments[0])
            word, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [word, number, number, number])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", [word], kind)
            position = builder.bitcast(builder.gep(array.data, [arguments[1]]), word)
            reads, soon, data = (ir.Constant(number, code) for code in (0, 3, 1))
            builder.call(prefetch, [position, reads, soon, data])
            return context.get_dummy_value()

        return types.void(numbers, types.int64), build

    def address_of(made: Any, *arguments: Any) -> int:
        """Return the address of a kernel, compiled or loaded for arguments such as these; named tuples are borrowed."""
        kinds = tuple(Borrowed(k) if isinstance(k, types.BaseNamedTuple) else k for k in map(numba.typeof, arguments))
        with hold_signals():
            made.compile(kinds)
        found = made.overloads[kinds]
        return int(found.library.get_pointer_to_function(found.fndesc.llvm_func_name))

    def by_address(function: Any, *results: str) -> Any:  # noqa: ARG001
        """Return what kernels call another kernel by: its address and the tuple of its arguments go in.

        What a kernel calls by its name is optimised once more as a part of it. What it calls by address is not, and
        need not be there at all where it is never called.

        Args:
            function: The kernel.
            results: Names of the types that it returns.
        """
        made = types.BaseTuple.from_types([getattr(types, name) for name in results])
        made = made if len(results) > 1 else made[0]

        @intrinsic
        def call_kernel(_context: Any, _address: Any, arguments: Any) -> Any:
            kinds = [types.unliteral(kind) for kind in arguments.types]

            def build(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
                convention = context.call_conv
                function = convention.get_function_type(made, kinds).as_pointer()
                values = cgutils.unpack_tuple(builder, given[1], len(kinds))
                pointer = builder.inttoptr(given[0], function)
                status, value = convention.call_function(builder, pointer, made, kinds, values)
                with cgutils.if_unlikely(builder, status.is_error):
                    convention.return_status_propagate(builder, status)
                return value

            return made(types.int64, types.BaseTuple.from_types(kinds)), build

        return call_kernel

    def callback(function: Callable[[int], None]) -> Callback:
        """Return a function of one whole number, compiled, as something that `call` can call."""
        made = compile_callback(_keyed(function), types.int64, types.void, {"error_model": "numpy", "_nrt": False})
        return Callback(made.address or 0, made)

    @intrinsic
    def call(_context: Any, _address: Any, _argument: Any) -> Any:
        """Call the function of one whole number at an address."""

        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
            builder.call(builder.inttoptr(arguments[0], function.as_pointer()), [arguments[1]])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), build
