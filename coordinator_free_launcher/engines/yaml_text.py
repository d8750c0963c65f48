"""Plain values to YAML text, for the files of container engines: block style, every text quoted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def to_yaml(value: Mapping[str, Any], comment: str = "") -> str:
    """YAML of nested mappings, lists and scalars, under an optional comment."""
    return _commented(comment) + "\n".join(_lines(value)) + "\n"


def to_yaml_documents(values: Sequence[Mapping[str, Any]], comment: str = "") -> str:
    """Several documents in one file, as Kubernetes takes them."""
    return _commented(comment) + "---\n".join(to_yaml(value) for value in values)


def _commented(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def _key(key: str) -> str:
    plain = key and all(c.isalnum() or c in "-_./" for c in key) and not key[0].isdigit() and key[0] not in "-./"
    return key if plain else json.dumps(key)


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{_key(key)}:", item)
    else:
        for item in value:
            if isinstance(item, Mapping) and item:
                first, *rest = _lines(item)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
            else:
                yield from _entry("-", item)


def _entry(head: str, item: Any) -> Iterator[str]:
    if isinstance(item, Mapping | list | tuple):
        if not item:
            yield f"{head} {{}}" if isinstance(item, Mapping) else f"{head} []"
        else:
            yield head
            yield from (f"  {line}" for line in _lines(item))
    elif isinstance(item, str) and item.endswith("\n") and "\n" in item[:-1]:
        yield f"{head} |"
        yield from (f"  {line}" for line in item[:-1].split("\n"))
    else:
        yield f"{head} {json.dumps(item, ensure_ascii=False)}"  # JSON scalars are YAML scalars
