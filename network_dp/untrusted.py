"""TOML and JSON from outside (plans, cards, results, truths): bounded in size and depth, refused in one sentence.

The parsers of the standard library recurse into nested values, give up on long numbers with errors of other kinds, and
build dotted keys of any depth without a word.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from network_dp.errors import UserError

TEXT_MAX: Final = 1 << 27  # bytes: the certificates of 100,000 users are 80 MB, their plan is 20
DEPTH_MAX: Final = 16  # tables and lists inside each other; a plan has 3
_SHOWN: Final = 60
# A dotted key of more parts than that (50,000 of them take the parser a minute), and any text that looks like one.
_PART: Final = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY: Final = re.compile(rf"(?<![\w-])(?:{_PART}){{{DEPTH_MAX}}}")


class FormatError(UserError, ValueError):
    """A text that cannot be read as what it should be; one sentence, without its name."""


def read_text(path: Path, most: int = TEXT_MAX) -> str:
    """A UTF-8 file of at most ``most`` bytes, or ``FormatError``; ``OSError`` as `open` raises it."""
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise FormatError(f"is longer than the {most:,} bytes that are allowed")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise FormatError("not a text file in UTF-8") from None


def toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text."""
    if _LONG_KEY.search(text):
        raise FormatError(f"not a TOML file: a key of more than {DEPTH_MAX} parts")
    values: dict[str, Any] = _parsed(tomllib.loads, text, "TOML")
    return values


def json_value(text: str) -> Any:
    """The value of a JSON text."""
    return _parsed(json.loads, text, "JSON")


def json_table(text: str) -> dict[str, Any]:
    """The object of a JSON text."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise FormatError("not a JSON object")
    return value


def shortened(text: str) -> str:
    """For messages: what a stranger wrote, at most a line of it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"


def _parsed(parse: Callable[[str], Any], text: str, kind: str) -> Any:
    if len(text) > TEXT_MAX:
        raise FormatError(f"is longer than the {TEXT_MAX:,} characters that are allowed")
    try:
        value = parse(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"not a {kind} file: {shortened(str(error))}") from None
    except ValueError:  # int() of more digits than Python converts
        raise FormatError(f"not a {kind} file: a number in it has too many digits") from None
    except RecursionError:
        raise FormatError(f"not a {kind} file: nested deeper than the {DEPTH_MAX} levels that are allowed") from None
    _check_depth(value, kind)
    return value


def _check_depth(value: Any, kind: str) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [item for part in level for item in _inside(part)]
        if not level:
            return
    raise FormatError(f"not a {kind} file: nested deeper than the {DEPTH_MAX} levels that are allowed")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
