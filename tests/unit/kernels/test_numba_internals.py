"""The inner parts of Numba and llvmlite that the library leans on, all of them: what a new version may take away.

pyproject.toml bounds Numba from above for their sake. If a test here fails with a new Numba, see what has become of the
part, mend what uses it, and bring the tables up to date; then the bound can be raised.
"""

import ast
import importlib
import inspect
from pathlib import Path

import numba
import pytest

import anytimebp

pytestmark = pytest.mark.compiled  # sources, not kernels: one pass is enough

SOURCES = sorted(Path(anytimebp.__file__).parent.rglob("*.py"))
PACKAGES = ("numba", "llvmlite")
PUBLIC = {
    "numba",
    "numba.config",
    "numba.extending",
    "numba.types",
}  # documented for users: no need to list what is used

PARTS = {
    ("llvmlite", "__version__"),
    ("llvmlite", "binding"),
    ("llvmlite", "ir"),
    ("llvmlite.binding", "get_host_cpu_features"),
    ("llvmlite.ir", "Constant"),
    ("llvmlite.ir", "FunctionType"),
    ("llvmlite.ir", "IntType"),
    ("llvmlite.ir", "VoidType"),
    ("numba.core", "caching"),
    ("numba.core", "ccallback"),
    ("numba.core", "cgutils"),
    ("numba.core", "serialize"),
    ("numba.core.caching", "CompileResultCacheImpl"),
    ("numba.core.caching", "FunctionCache"),
    ("numba.core.ccallback", "CFunc"),
    ("numba.core.cgutils", "alloca_once_value"),
    ("numba.core.cgutils", "gep_inbounds"),
    ("numba.core.cgutils", "get_null_value"),
    ("numba.core.cgutils", "if_unlikely"),
    ("numba.core.cgutils", "unpack_tuple"),
    ("numba.core.codegen", "JITCodeLibrary"),
    ("numba.core.compiler", "Compiler"),
    ("numba.core.compiler", "Flags"),
    ("numba.core.errors", "NumbaError"),
    ("numba.core.serialize", "dumps"),
    ("numba.core.typing.templates", "AttributeTemplate"),
    ("numba.core.typing.templates", "infer_getattr"),
    ("numba.cpython.unsafe.tuple", "tuple_setitem"),
    ("numba.np.arrayobj", "populate_array"),
}
"""(module, attribute): what the sources import from inner modules, or read from them."""

MEMBERS = {
    ("numba.core.base", "BaseContext"): {"get_constant", "get_dummy_value", "make_array"},
    ("numba.core.caching", "CompileResultCacheImpl"): {"rebuild", "reduce"},
    ("numba.core.caching", "FunctionCache"): {
        "_impl_class",
        "cache_path",
        "disable",
        "flush",
        "load_overload",
        "save_overload",
    },
    ("numba.core.callconv", "CPUCallConv"): {"call_function", "get_function_type", "return_status_propagate"},
    ("numba.core.ccallback", "CFunc"): {"address", "cache_hits", "compile", "enable_caching"},
    ("numba.core.cgutils", "_StructProxy"): {"_getvalue"},
    ("numba.core.codegen", "JITCodeLibrary"): {
        "_ensure_finalized",
        "_finalize_dynamic_globals",
        "_finalize_final_module",
        "_optimize_final_module",
        "codegen",
        "get_pointer_to_function",
    },
    ("numba.core.compiler", "Compiler"): {"define_pipelines"},
    ("numba.core.compiler", "Flags"): {"_values"},
    ("numba.core.cpu", "CPUContext"): {"call_conv"},
    ("numba.core.datamodel.models", "DataModel"): {"get_value_type"},
    ("numba.core.dispatcher", "Dispatcher"): {
        "compile",
        "enable_caching",
        "get_call_template",
        "get_overload",
        "stats",
    },
    ("numba.core.funcdesc", "FunctionDescriptor"): {"llvm_func_name"},
    ("numba.core.options", "DefaultOptions"): {
        "_nrt",
        "forceinline",
        "inline",
        "no_cfunc_wrapper",
        "no_cpython_wrapper",
    },
    ("numba.core.typing.templates", "AttributeTemplate"): {"generic_resolve"},
}
"""Members of inner classes that the library overrides, or uses by objects that Numba hands it."""

PRIVATE = {"_cache", "_getvalue", "_values"}
"""Members with a leading underscore that the sources use of objects that are Numba's."""


def imports(tree):
    """Return what a source imports from both packages, by the names that it gives them, and as (module, attribute)."""
    names, parts = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {n.asname or n.name: n.name for n in node.names if n.name.split(".")[0] in PACKAGES}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            names |= {n.asname or n.name: f"{node.module}.{n.name}" for n in node.names}
            parts |= {(node.module, n.name) for n in node.names}
    assert not any("." in name for name in names), "write from ... import ..., so that parts can be found"
    return names, parts


def used_parts(tree):
    """Return as (module, attribute) what a source imports from Numba and llvmlite, and reads from what it imported."""
    names, used = imports(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner, name = dotted(node.value, names), node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
            owner, name = dotted(node.args[0], names), getattr(node.args[1], "value", None)
        else:
            continue
        if owner is not None and is_module(owner):
            used.add((owner, name))
    return used


def dotted(node, modules):
    """Return what an expression such as `numba.core.caching` stands for, or None."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, modules)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def is_module(name):
    if name in PUBLIC:
        return True
    try:
        return inspect.ismodule(importlib.import_module(name))
    except ImportError:
        return False


def private_members(tree):
    """Return the names with one leading underscore that a source reads from anything but its own objects."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
        and not isinstance(node.value, ast.Call)  # super()
    }


@pytest.fixture(scope="module")
def trees():
    read = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    return {path: tree for path, tree in read.items() if used_parts(tree)}


def test_no_other_inner_part_of_numba_is_used(trees):
    used = set().union(*map(used_parts, trees.values()))
    assert {part for part in used if part[0] not in PUBLIC} == PARTS


def test_no_other_private_member_is_used_where_numba_is(trees):
    assert set().union(*map(private_members, trees.values())) == PRIVATE


@pytest.mark.parametrize(("module", "name"), sorted(PARTS))
def test_an_inner_part_is_there(module, name):
    assert hasattr(importlib.import_module(module), name) or is_module(f"{module}.{name}")


@pytest.mark.parametrize(("module", "name", "member"), sorted((*kind, m) for kind, ms in MEMBERS.items() for m in ms))
def test_a_member_of_an_inner_class_is_there(module, name, member):
    kind = getattr(importlib.import_module(module), name)
    assert hasattr(kind, member)


def test_what_is_compiled_has_a_place_for_the_cache_and_its_versions():
    made = numba.njit(lambda x: x)
    assert hasattr(made, "_cache")
    assert made.overloads == {}
    assert hasattr(numba.cfunc("void(int64)")(lambda _: None), "_cache")


def test_the_scan_finds_every_way_of_reaching_inner_parts():
    source = """
import numba
import numba as other
from numba.core import caching as inner
from numba.core.errors import NumbaError

numba.core.serialize.dumps
other.njit
inner.FunctionCache
getattr(inner, "_Cache", None)
def later():
    from llvmlite import ir
    return ir.IntType
"""
    assert used_parts(ast.parse(source)) == {
        ("llvmlite", "ir"),
        ("llvmlite.ir", "IntType"),
        ("numba", "core"),
        ("numba", "njit"),
        ("numba.core", "caching"),
        ("numba.core", "serialize"),
        ("numba.core.caching", "FunctionCache"),
        ("numba.core.caching", "_Cache"),
        ("numba.core.errors", "NumbaError"),
        ("numba.core.serialize", "dumps"),
    }
