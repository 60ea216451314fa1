"""What is generated from the settings: docs/configuration.md, and the chart's values.schema.json and per-process.yaml.

Names, defaults and bounds come from the settings classes, the words from the comments in config.yaml. A test
holds that what is committed is what this writes. Needs Fairgate's venv, unlike its neighbours.

Usage: python -m tools.reference
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from proxy.config.environment import variable_name
from proxy.config.settings import Settings
from proxy.matrix.profiles import PROFILES, Profile
from tools.console import ROOT, ToolError

_CHART = ROOT / "charts" / "fairgate"
#: Figures that limit what the one homeserver gets; the chart divides them by the number of processes (behaviour.md §8).
#: A figure that is not there yet is passed over.
_PER_PROCESS = (
    "homeserver.connections",
    *(
        f"lanes.{lane}.workers"
        for lane in ("requests", "vital", "media", "remote", "first_syncs", "federation", "appservices")
    ),
    "lanes.history_per_account",
    "sync.workers",
    "sync.per_account",
    "sync.per_device",
    "background.initial_limit",
    "background.max_limit",
    "identity.lookups",
    "identity.lookups_per_address",
)
_INTRODUCTION = """\
# Configuration

Generated from the settings and the comments in [config.yaml](../config.yaml) by `python -m tools.reference`; do not edit.

One YAML file, every key optional. It is checked whole before use: `fairgate check FILE` names every mistake with its line and
the nearest known key. A variable of the environment overrides one key: its path in capitals after `FAIRGATE_`, two underscores
between levels, entries of a list by their number, as {example}.
"""


def generate() -> dict[Path, str]:
    """Give every generated file with its text."""
    settings = _inlined(Settings.model_json_schema())
    comments = _comments((ROOT / "config.yaml").read_text())
    _describe(settings, comments, ())
    values = json.loads((_CHART / "source" / "values.schema.json").read_text())
    values["properties"]["config"] = settings
    return {
        ROOT / "docs" / "configuration.md": _document(settings, comments),
        _CHART / "values.schema.json": json.dumps(values, indent=2, ensure_ascii=False) + "\n",
        _CHART / "files" / "per-process.yaml": _per_process(settings),
    }


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Put each definition where it is used; leave out titles and the defaults of whole sections."""
    definitions = schema.pop("$defs", {})

    def visit(node: Any) -> Any:
        if isinstance(node, list):
            return [visit(part) for part in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            return visit({**definitions[name], **{key: part for key, part in node.items() if key != "$ref"}})
        kept = {key: part for key, part in node.items() if key not in {"title", "properties"}}
        if "properties" in node:  # a map of names, where one may be "title"
            kept.pop("default", None)
            kept.pop("description", None)
            return {
                **visit(kept),
                "properties": {key: visit(part) for key, part in node["properties"].items()},
            }
        return {key: visit(part) for key, part in kept.items()}

    result: dict[str, Any] = visit(schema)
    return result


def _comments(text: str) -> dict[tuple[str, ...], str]:
    """Give the comment right above each key of config.yaml; the entries of a list have the path of the list."""
    lines = text.splitlines()
    found: dict[tuple[str, ...], str] = {}

    def visit(node: yaml.Node, path: tuple[str, ...]) -> None:
        if isinstance(node, yaml.SequenceNode) and node.value:
            visit(node.value[0], path)
        if not isinstance(node, yaml.MappingNode):
            return
        for key, value in node.value:
            first = last = key.start_mark.line
            while first and lines[first - 1].startswith(" " * key.start_mark.column + "#"):
                first -= 1
            told = " ".join(line.strip().removeprefix("#").strip() for line in lines[first:last])
            if told:
                found.setdefault((*path, key.value), told)
            visit(value, (*path, key.value))

    document = yaml.compose(text)
    if document is not None:
        visit(document, ())
    return found


def _describe(node: dict[str, Any], comments: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> None:
    if path in comments:
        node["description"] = comments[path]
    for key, part in _section(node).items():
        _describe(part, comments, (*path, key))


def _section(node: Mapping[str, Any]) -> dict[str, Any]:
    """Give the keys below: of a section, of the entries of a list, of what may also be null."""
    below: dict[str, Any] = node.get("properties", {})
    inner = [*node.get("anyOf", ()), *([node["items"]] if "items" in node else [])]
    return below or next(filter(None, map(_section, inner)), {})


def _document(settings: Mapping[str, Any], comments: Mapping[tuple[str, ...], str]) -> str:
    example = f"`{variable_name(('homeserver', 'url'))}` or `{variable_name(('listen', 0, 'address'))}`"
    parts = [_INTRODUCTION.format(example=example)]
    single = {key: part for key, part in settings["properties"].items() if not _section(part)}
    if single:
        parts.append("\n".join(["## Keys without a section", "", *_table(single, ())]) + "\n")
    for key, part in settings["properties"].items():
        if key in single:
            continue
        lines = [f"## `{key}`", ""]
        if (key,) in comments:
            lines += [comments[(key,)], ""]
        parts.append("\n".join([*lines, *_table(_section(part), (key, *_entry(part)))]) + "\n")
    return "\n".join(parts)


def _table(keys: Mapping[str, Any], above: Sequence[str]) -> Iterator[str]:
    yield from ("| key | default | takes | |", "|---|---|---|---|")
    for path, node in _rows(keys, tuple(above)):
        name = ".".join(path).replace(".[]", "[]")
        default = f"`{json.dumps(node['default'], ensure_ascii=False)}`" if "default" in node else ""
        yield f"| `{name}` | {default} | {_takes(node)} | {node.get('description', '').replace('|', chr(92) + '|')} |"


def _rows(
    keys: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for key, node in keys.items():
        below = _section(node)
        if not below:
            yield (*above, key), node
            continue
        if "description" in node or "default" in node:
            yield (*above, key), node
        yield from _rows(below, (*above, key, *_entry(node)))


def _entry(node: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = [node, *node.get("anyOf", ())]
    return ("[]",) if any(kind.get("type") == "array" for kind in kinds) else ()


def _takes(node: Mapping[str, Any]) -> str:
    """Say in words what a value may be."""
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_takes(part) for part in node["anyOf"]))
    if "enum" in node or "const" in node:
        return ", ".join(f"`{choice}`" for choice in node.get("enum", [node.get("const")]))
    kind = node.get("type", "anything")
    if kind == "array":
        inner = node.get("items", {})
        return f"list of {'sections' if _section(inner) else _takes(inner)}"
    words = {
        "integer": "whole number", "number": "number", "string": "text", "boolean": "true or false",
        "object": "section", "null": "null",
    }  # fmt: skip
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
    }
    limits = [f"{said} {node[name]:,}" for name, said in bounds.items() if name in node]
    return ", ".join([words.get(kind, str(kind)), *limits])


def _per_process(settings: Mapping[str, Any]) -> str:
    """Name the figures with their defaults and the least each may be, and what the profiles say."""
    figures: dict[str, Any] = {}
    for path in _PER_PROCESS:
        node: Mapping[str, Any] | None = settings
        for key in path.split("."):
            node = _section(node).get(key) if node else None
        if node is not None:
            figures[path] = {"default": node.get("default"), "least": _least(path)}
    profiles = {
        profile.name: {path: value for path, value in _figures_of(profile).items() if path in figures}
        for profile in PROFILES.values()
    }
    told = "# Made by `python -m tools.reference`: figures the chart divides by the number of processes.\n"
    return told + yaml.safe_dump({"figures": figures, "profiles": profiles}, sort_keys=False)


def _figures_of(profile: Profile) -> dict[str, int]:
    lanes = {f"lanes.{lane}.workers": workers for lane, workers in profile.workers.items()}
    per_account = min(profile.per_account, max(1, profile.sync_workers // 4))
    return {
        **lanes,
        "sync.workers": profile.sync_workers,
        "sync.per_account": per_account,
        "sync.per_device": min(profile.per_device, per_account),
    }


def _least(path: str) -> int:
    """Find the smallest whole number the settings take."""
    for number in range(1, 65):
        tree: Any = number
        for key in reversed(path.split(".")):
            tree = {key: tree}
        with contextlib.suppress(ValidationError):
            Settings.model_validate(tree)
            return number
    raise ToolError(f"{path} takes no number up to 64")


def main() -> int:
    """Write what differs, and name it."""
    for path, text in generate().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
