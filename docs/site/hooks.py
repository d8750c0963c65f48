"""What the site has beside the files of docs/: its navigation, the commands' reference, and the Python API's.

Run by mkdocs (mkdocs.yml). Both references are made from the code at every build, so they cannot be out of date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import typer
from diagrams import drawn  # beside this file, which mkdocs looks for too
from mkdocs.structure.files import File, Files

from coordinator_free_launcher.cli.app import app

REPOSITORY: Final = Path(__file__).parents[2]
CLI, PYTHON = "reference/cli.md", "reference/python.md"
#: The pure library: a page each.
MODULES: Final = tuple(
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
    for path in sorted((REPOSITORY / "network_dp").rglob("*.py"))
    if path.stem != "__init__"
)
DIAGRAMS: Final = "diagrams.css"

#: Section -> pages, in the order in which a newcomer needs them. What is not named here comes under "More".
SECTIONS: Final = {
    "Tutorial": "index TUTORIAL PLAIN_WORDS",
    "How to": "DATA CHOOSING BUDGETS LIBRARY LAN WATCH CHAOS DEPLOY TASKS MODELS AUDIT ANALYZER GRAPHS FAQ",
    "Reference": "PLAN reference/cli reference/python PROTOCOL",
    "Explanation": "THEORY THREAT_MODEL ARCHITECTURE FIGURES BENCHMARKS",
    "Glossary": "GLOSSARY",
}
FOLDERS: Final = {"Decisions": "adr", "Measurements": "measurements"}


def on_config(config: Any) -> Any:
    docs = Path(config.docs_dir)
    there = {*(path.name for path in docs.glob("*.md")), "index.md", CLI, PYTHON}
    sections = {title: [f"{page}.md" for page in pages.split()] for title, pages in SECTIONS.items()}
    nav: list[dict[str, Any]] = [
        {title: [page for page in pages if page in there]} for title, pages in sections.items()
    ]
    named = {page for pages in sections.values() for page in pages}
    if rest := sorted(there - named):
        nav.append({"More": rest})
    nav.append({"Modules": [page_of(module) for module in MODULES]})
    for title, folder in FOLDERS.items():
        nav.append({title: [f"{folder}/{path.name}" for path in sorted((docs / folder).glob("*.md"))]})
    config.nav = nav
    config.extra_css.append(DIAGRAMS)
    return config


def on_files(files: Files, config: Any) -> Files:
    readme = (REPOSITORY / "README.md").read_text()
    looks = Path(__file__).with_name(DIAGRAMS).read_text()
    pages = (("index.md", home(readme)), (CLI, command_reference()), (PYTHON, python_reference()), (DIAGRAMS, looks))
    pages += tuple((page_of(module), f"# {module}\n\n::: {module}\n") for module in MODULES)
    for path, text in pages:
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return named(drawn(inside(markdown, page.file.src_uri)))


_NAMED: Final = re.compile(r"^```(\w+) ([\w.-]+)$", re.MULTILINE)


def named(text: str) -> str:
    """A block with a file's or a person's name (``sh anna``) as a block with that title."""
    return _NAMED.sub(r'```{.\1 title="\2"}', text)


_LINK: Final = re.compile(r"(?<!\!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def inside(text: str, page: str) -> str:
    """A link to a file that is no page of the site stays as text: the site is read without the repository."""

    def replaced(found: re.Match[str]) -> str:
        target = (REPOSITORY / "docs" / Path(page).parent / found[2]).resolve()
        is_page = target.is_relative_to(REPOSITORY / "docs") and target.suffix in (".md", ".png")
        return found[0] if is_page else f"{found[1]} (`{found[2].lstrip('./')}`)"

    return _LINK.sub(replaced, text)


def home(readme: str) -> str:
    """The README, with its links as seen from docs/."""
    return readme.replace("](docs/", "](").replace('src="docs/', 'src="')


def command_reference() -> str:
    """Every command with its arguments and options, from their declarations."""
    command = typer.main.get_command(app)
    context = click.Context(command, info_name="network-dp")
    parts = ["# Commands\n\nMade from the command line itself; `network-dp COMMAND --help` shows the same.\n"]
    parts += [_command(words, found, context) for words, found in _commands(command, ("network-dp",))]
    return "\n".join(parts)


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield words, command
        return
    for name, found in below.items():
        yield from _commands(found, (*words, name))


def _command(words: tuple[str, ...], command: Any, context: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join([*words, "[OPTIONS]", *(param.metavar or param.name.upper() for param in arguments)])
    lines = [f"## {' '.join(words[1:])}\n", f"    {usage}\n", f"{command.help}\n"]
    if arguments or options:
        lines += ["| argument, option | default | meaning |", "|---|---|---|"]
        lines += [f"| `{param.metavar or param.name.upper()}` | | {_cell(param.help)} |" for param in arguments]
        lines += [f"| {_names(param)} | {_default(param)} | {_cell(param.help)} |" for param in options]
    return "\n".join(lines) + "\n"


def _names(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])


def _default(option: Any) -> str:
    value = option.default
    return "" if value is None or value is False or value == "" or callable(value) else f"`{value}`"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


def python_reference() -> str:
    """What ``import network_dp`` offers, and the pure functions behind it, from their docstrings."""
    return (
        """# Python

```python
import network_dp as ndp
```

## Runs

::: coordinator_free_launcher.api
    options: {show_root_heading: false, show_root_toc_entry: false}

## Accounting

::: network_dp.promise
    options: {show_root_heading: true}

::: network_dp.calibrate
    options: {show_root_heading: true}

::: network_dp.strength
    options: {show_root_heading: true}

## Plans

::: network_dp.plan_reader
    options: {show_root_heading: true, members: [parse, load, from_dict, dump]}

## All modules

Examples are in [The library](../LIBRARY.md).

"""
        + "\n".join(f"* [`{module}`](../{page_of(module)}): {first_line(module)}" for module in MODULES)
        + "\n"
    )


def page_of(module: str) -> str:
    return f"reference/{module.replace('.', '/')}.md"


def first_line(module: str) -> str:
    """What a module says of itself first."""
    path = REPOSITORY / Path(*module.split(".")).with_suffix(".py")
    said = ast.get_docstring(ast.parse(path.read_text()))
    assert said is not None, f"{module} says nothing of itself"
    return said.split("\n")[0]
