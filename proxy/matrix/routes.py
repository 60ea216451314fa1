"""What kind of request this is, by method and raw path (behaviour.md §4.1, §5.5, §9.1). Pure.

Homeservers match the path undecoded and exactly, so the raw path decides, and what matches no row is an ordinary request. A
path that escapes letters is looked at decoded too, and the stricter endpoint wins (vital only ever by the raw path). The rows
of `route_table` are read once into a tree with a level a segment; a look-up walks it, O(segments). Rows of long polls branch
by their query.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from proxy.matrix.endpoint import Endpoint
from proxy.matrix.route_table import OPTIONS, OTHER, PREFIXES, ROWS

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH")
#: Escapes of what names endpoints: letters, digits, `-`, `.`, `/`, `_`, `~`. Those of ids (`%21`, `%3A`, `%40`) are everyday.
_EVASIVE: Final = re.compile(rb"%(?:2[DEFdef]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")


class _ByMethod(dict[bytes, Endpoint]):
    """Endpoints of one path by method; `default` where the method has none."""

    def __init__(self, default: "_ByMethod | None", methods: dict[str, Endpoint]) -> None:
        super().__init__({} if default is None else default)
        self.default: Endpoint = methods.get("*") or (OTHER if default is None else default.default)
        if "*" in methods:
            self.update(dict.fromkeys((method.encode() for method in _METHODS), self.default))
        self.update((method.encode(), endpoint) for method, endpoint in methods.items() if method != "*")
        if "GET" in methods:
            self[b"HEAD"] = methods["GET"]  # as homeservers serve it

    def __missing__(self, method: bytes) -> Endpoint:
        return self.default


class _Node:
    """One segment of the table's paths. `below` is for what matches no row further down."""

    __slots__ = ("any", "below", "children", "here", "rows", "rows_below")

    here: _ByMethod
    below: _ByMethod

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.any: _Node | None = None
        self.rows: dict[str, Endpoint] = {}
        self.rows_below: dict[str, Endpoint] = {}

    def add(self, methods: str, segments: list[str], endpoint: Endpoint) -> None:
        node = self
        for segment in segments:
            if segment == "**":
                node.rows_below.update(dict.fromkeys(methods.split(), endpoint))
                return
            if segment == "{}":
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.children.setdefault(segment.encode(), _Node())
        node.rows.update(dict.fromkeys(methods.split(), endpoint))

    def bind(self, above: _ByMethod) -> None:
        """Let what was found above hold down here too, where no row says otherwise."""
        self.here = _ByMethod(above, self.rows)
        self.below = _ByMethod(above, self.rows_below)
        for child in (*self.children.values(), self.any):
            if child is not None:
                child.bind(self.below)


def _tree() -> _Node:
    root = _Node()
    for methods, template, endpoint in ROWS:
        for version in PREFIXES if template.startswith("V/") else ("",):
            path = f"_matrix/client/{version}{template[1:]}" if version else template
            root.add(methods, ["", *path.split("/")], endpoint)
    root.bind(_ByMethod(None, {"*": OTHER}))
    return root


_ROOT: Final = _tree()


#: Paths of a moment ago: clients ask the same ones again and again, and a walk costs a microsecond.
_MEMORY_ENTRIES: Final = 2048
_MEMORY_PATH_BYTES: Final = 256
_memory: dict[bytes, _ByMethod] = {}


def find_endpoint(method: bytes, target: bytes) -> Endpoint:
    """Give the endpoint of a request. `target` is in origin-form, as it came."""
    if method == b"OPTIONS":
        return OPTIONS
    path, _, query = target.partition(b"?")
    by_method = _memory.get(path)
    if by_method is None:
        by_method = _walk(path)
        if b"%" in path and _EVASIVE.search(path):
            return _stricter(method, path, query, by_method)
        if len(_memory) < _MEMORY_ENTRIES and len(path) <= _MEMORY_PATH_BYTES:
            _memory[path] = by_method
    endpoint = by_method[method]
    return endpoint if endpoint.branch is None else endpoint.branch(query)


def forget_paths() -> None:
    """Let go of the paths walked lately; called four times a second."""
    _memory.clear()


def _walk(path: bytes) -> _ByMethod:
    node = _ROOT
    for segment in path.split(b"/"):
        child = node.children.get(segment) or node.any
        if child is None:
            return node.below
        node = child
    return node.here


def _stricter(method: bytes, path: bytes, query: bytes, raw: _ByMethod) -> Endpoint:
    """Give the stricter of what the raw path and the decoded one are."""
    endpoint, decoded = raw[method], _walk(unquote_to_bytes(path))[method]
    if endpoint.branch is not None:
        endpoint = endpoint.branch(query)
    if decoded.branch is not None:
        decoded = decoded.branch(query)
    return decoded if decoded.strictness > endpoint.strictness else endpoint
