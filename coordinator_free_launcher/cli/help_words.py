"""Help pages in words: a flag takes nothing, so nothing stands behind it; what others take is said in capitals."""

from __future__ import annotations

from typing import Any, Final

_KINDS: Final = {"bool": "", "str": "TEXT", "int": "NUMBER", "float": "NUMBER", "Path": "PATH", "path": "PATH"}


def plain(command: Any, context: Any) -> None:
    """Give every parameter of a command and its subcommands, --help too, a word instead of a type."""
    for below in getattr(command, "commands", {}).values():
        plain(below, context)
    for param in [*command.params, command.get_help_option(context)]:
        if param is None:
            continue
        if param.param_type_name == "argument":
            word = (param.metavar or param.name.upper()) + ("..." if param.nargs != 1 and not param.metavar else "")
            param.metavar = word
            param.display_type_rich = lambda ctx: None  # the word says it
            param._usage_display_name = lambda word=word: word  # without braces
        elif param.metavar is None:
            param.metavar = _KINDS.get(_kind(param, context))
        if param.metavar == "NUMBER":
            param._get_number_range_help_str = lambda: None  # a wrong number is told its range


def _kind(param: Any, context: Any) -> str:
    shown = str(param.display_type(context)).strip("<>")
    return shown.removesuffix(" range").removeprefix("list[").removesuffix("]")
