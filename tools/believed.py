"""Where the compiler believes an attribute: reads that raise `TypeError` when compiled, and go on when interpreted (ADR 21).

mypy takes an attribute for what it was compared with or assigned, also after a call. mypyc then checks each read against
that, and the check fails where the call changed the attribute. Here its intermediate representation is searched for such
checks: an attribute that may be None, read as one that is not (or the other way round), with a call since it was last looked
at. Also found are slices of bytes with two computed bounds, which raise `SystemError` where they end before they begin.

`python -m tools.believed` prints what it finds, and takes half a minute.
"""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from mypy.build import BuildResult, sorted_components
from mypy.fscache import FileSystemCache
from mypyc.build import construct_groups, get_mypy_config
from mypyc.codegen.emitmodule import parse_and_typecheck
from mypyc.errors import Errors
from mypyc.ir.func_ir import FuncIR
from mypyc.ir.ops import (
    Assign,
    BasicBlock,
    Box,
    Call,
    CallC,
    Cast,
    GetAttr,
    Integer,
    MethodCall,
    Op,
    Register,
    SetAttr,
    Unbox,
    Value,
)
from mypyc.ir.rtypes import RType, RUnion, is_none_rprimitive
from mypyc.irbuild.main import build_ir
from mypyc.irbuild.mapper import Mapper
from mypyc.options import CompilerOptions

from tools.console import ROOT

_RESUMED = "__mypyc_generator_helper__"
_CALLS = ("PyObject_Call", "PyObject_Vectorcall", "CPyObject_Call")


class Finding(NamedTuple):
    """A place: the file, the function, its line, and what is read or cut there."""

    file: str
    function: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.what}"


def compiled_files() -> list[Path]:
    """Give the sources that `pyproject.toml` has compiled."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        hook = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    found: set[Path] = set()
    for pattern in hook["include"]:
        found.update(ROOT.glob(pattern.lstrip("/") + ("**/*.py" if pattern.endswith("/") else "")))
    return sorted(path for path in found if not any(path.match(pattern) for pattern in hook["exclude"]))


def search(files: Sequence[Path]) -> tuple[list[Finding], list[Finding]]:
    """Give the reads that are believed, and the slices of bytes with two computed bounds."""
    reads, slices = [], []
    for path, function in _functions(files):
        name = function.fullname.removeprefix(function.decl.module_name + ".")
        reads += [Finding(path, name, line, what) for line, what in believed_reads(function)]
        slices += [Finding(path, name, op.line, "slice") for op in _ops(function) if _is_computed_slice(op)]
    return sorted(set(reads)), sorted(slices)


def believed_reads(function: FuncIR) -> Iterator[tuple[int, str]]:
    """Give line and attribute of each read that a call stands before."""
    predecessors: dict[BasicBlock, list[BasicBlock]] = {}
    places: dict[Op, tuple[BasicBlock, int]] = {}
    used: dict[Value, int] = {}
    for block in function.blocks:
        for target in block.terminator.targets():
            predecessors.setdefault(target, []).append(block)
        for index, op in enumerate(block.ops):
            places[op] = block, index
            for source in op.sources():
                used[source] = used.get(source, 0) + 1
    for op in places:
        if not isinstance(op, Cast | Unbox) or not isinstance(op.src, GetAttr):
            continue
        read = op.src
        # What is compared and then used is one value, whatever happens to the attribute.
        narrowed = used[read] == 1 and _is_narrowed(read.type, op.type)
        if narrowed and _call_before(read, places, predecessors, resumes=function.name == _RESUMED):
            yield op.line, _path(read) or f"….{read.attr}"


def _is_narrowed(declared: RType, believed: RType) -> bool:
    if not isinstance(declared, RUnion) or not any(map(is_none_rprimitive, declared.items)):
        return False
    return not isinstance(believed, RUnion) or not any(map(is_none_rprimitive, believed.items))


def _call_before(
    read: GetAttr,
    places: dict[Op, tuple[BasicBlock, int]],
    predecessors: dict[BasicBlock, list[BasicBlock]],
    *,
    resumes: bool,
) -> bool:
    """Tell whether, on a way to `read`, something is called after its attribute was last read or assigned.

    Where a function `resumes` anything may have been called before its beginning.
    """
    path = _path(read)
    block, index = places[read]
    ways, seen = [(block, index, False)], set()
    while ways:
        block, index, called = ways.pop()
        for op in reversed(block.ops[:index]):
            if _looks_at(op, path, read.attr):
                if called:
                    return True
                break
            if isinstance(op, Assign) and path is not None and op.dest.name == path.partition(".")[0]:
                break  # from here on back the name was another object's
            called = called or _is_call(op)
        else:
            if resumes and block not in predecessors:
                return True
            for before in predecessors.get(block, ()):
                if (before, called) not in seen:
                    seen.add((before, called))
                    ways.append((before, len(before.ops), called))
    return False


def _looks_at(op: Op, path: str | None, attribute: str) -> bool:
    if isinstance(op, SetAttr):
        return op.attr == attribute and f"{_path(op.obj)}.{attribute}" == path
    return isinstance(op, GetAttr) and path is not None and _path(op) == path


def _is_call(op: Op) -> bool:
    return isinstance(op, Call | MethodCall) or (
        isinstance(op, CallC) and op.function_name.startswith(_CALLS)
    )


def _path(value: Value) -> str | None:
    """Give `self.exchange.body` for such a value, None for what has no name."""
    if isinstance(value, GetAttr):
        base = _path(value.obj)
        return None if base is None else f"{base}.{value.attr}"
    if isinstance(value, Cast | Box):
        return _path(value.src)
    return (value.name or None) if isinstance(value, Register) else None


def _is_computed_slice(op: Op) -> bool:
    if not isinstance(op, CallC) or op.function_name != "CPyBytes_GetSlice":
        return False
    return not any(isinstance(bound, Integer) for bound in op.args[1:])


def _ops(function: FuncIR) -> Iterator[Op]:
    for block in function.blocks:
        yield from block.ops


def _functions(files: Sequence[Path]) -> Iterator[tuple[str, FuncIR]]:
    with TemporaryDirectory() as folder:
        compiler = CompilerOptions(target_dir=folder)
        cache = FileSystemCache()
        arguments = ["--ignore-missing-imports", "--cache-dir", folder, *map(str, files)]
        sources, _, options = get_mypy_config(arguments, None, compiler, cache)
        groups = construct_groups(sources, separate=False, use_shared_lib=True, group_name_override=None)
        result = parse_and_typecheck(sources, options, compiler, groups, cache)
        mapper = Mapper({source.module: name for group, name in groups for source in group})
        yield from _built(result, mapper, compiler, Errors(options))


def _built(
    result: BuildResult, mapper: Mapper, compiler: CompilerOptions, errors: Errors
) -> Iterator[tuple[str, FuncIR]]:
    for component in sorted_components(result.graph):
        states = [result.graph[name] for name in sorted(component.mod_ids) if name in mapper.group_map]
        trees = [state.tree for state in states if state.tree is not None]
        built = build_ir(trees, result.graph, result.types, mapper, compiler, errors) if trees else {}
        for name, module in built.items():
            path = Path(result.graph[name].xpath)
            shown = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
            for function in module.functions:
                yield shown, function


def main() -> int:
    """Print what is found; 1 where a read is believed."""
    reads, slices = search(compiled_files())
    for found in (*reads, *slices):
        print(found)
    return 1 if reads else 0


if __name__ == "__main__":
    sys.exit(main())
