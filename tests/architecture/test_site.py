"""The docs site: built without a warning or a network, with every page and command, nothing from elsewhere."""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from coordinator_free_launcher.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    linked = set(re.findall(r'href="([^"#]+\.html)"', home))
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert {str(path.with_suffix(".html")) for path in pages} <= linked
    assert {"reference/cli.html", "reference/python.html"} <= linked
    menu = home[home.index('class="md-nav md-nav--primary') :]
    order = (
        "DATA.html",
        "ANALYZER.html",
        "PLAN.html",
        "reference/cli.html",
        "THEORY.html",
        "GLOSSARY.html",
        "adr/0001",
    )
    places = [menu.index(page) for page in order]
    assert places == sorted(places), "how-to pages, references, explanation, glossary, decisions"


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = path.read_text()
        assert not re.search(r"""(?:src=|url\(|@import )["']?(?:https?:)?//""", text), path
        assert not re.search(r'<link[^>]+rel="(?:stylesheet|preconnect|icon)"[^>]+href="https?:', text), path


@pytest.mark.slow
def test_the_references_are_made_from_the_code(site: Path) -> None:
    commands = (site / "reference" / "cli.html").read_text()
    for words, command in every_command():
        assert f">{' '.join(words)}<" in commands
        assert all(option in commands for param in command.params for option in param.opts if option.startswith("--"))
    python = (site / "reference" / "python.html").read_text()
    for name in ("mean", "histogram", "logistic_regression", "run", "promised_epsilon", "best_guess"):
        assert re.search(rf'id="[\w.]*\b{name}"', python), name


@pytest.mark.slow
def test_every_module_of_the_library_has_a_page(site: Path) -> None:
    for path in (ROOT / "network_dp").rglob("*.py"):
        if path.stem != "__init__":
            module = path.relative_to(ROOT).with_suffix("")
            page = (site / "reference" / module).with_suffix(".html").read_text()
            for name in re.findall(r"^(?:def|class) ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
                assert f'id="{".".join(module.parts)}.{name}"' in page, (module, name)


@pytest.mark.slow
def test_diagrams_are_drawn_and_named_blocks_are_blocks(site: Path) -> None:
    """Nothing in a browser draws Mermaid without a network, and a fence with a name is none to the site's Markdown."""
    protocol = (ROOT / "docs" / "PROTOCOL.md").read_text()
    drawn = (site / "PROTOCOL.html").read_text()
    assert drawn.count('<div class="diagram"><svg') == protocol.count("```mermaid") > 0
    for words in re.findall(r"^    (?:\w+(?:->>|--x)\w+|Note over \w+): (.+)$", protocol, re.MULTILINE):
        assert f">{html.escape(words)}</text>" in drawn
    for state, to in re.findall(r"^    (\w+) --> (\w+)", protocol, re.MULTILINE):
        assert f">{state}</text>" in drawn and f">{to}</text>" in drawn
    for path in site.rglob("*.html"):
        assert "```" not in path.read_text(), path


def every_command(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    group = group or typer.main.get_command(app)
    below = getattr(group, "commands", None)
    if below is None:
        yield words, group
    for name, command in (below or {}).items():
        yield from every_command(command, (*words, name))


def written_commands(text: str) -> Iterator[tuple[int, str]]:
    """Every line of a code block that calls ``network-dp``, with its number."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        fenced ^= line.startswith("```")
        call = re.match(r"^(?:\$ )?((?:\.venv/bin/|python3? -m )?network-dp .*)", line.strip())
        if call and (fenced or line.startswith("    ")):
            yield number, call[1]


def parts(line: str) -> Iterator[list[str]]:
    """The calls in one line of a shell, without comments."""
    words: list[str] = []
    for word in [*shlex.split(line.split(" #")[0].rstrip("\\")), ";"]:
        if word in (";", "&&", "||", "|", ">", "&") or word.endswith(";"):
            yield words
            words = []
        else:
            words.append(word)


def written() -> list[Any]:
    return [
        pytest.param(words, id=f"{path.name}:{number}")
        for path in PAGES
        for number, line in written_commands(path.read_text())
        for words in parts(line)
        if words and words[0].endswith("network-dp")
    ]


@pytest.mark.parametrize("words", written())
def test_every_command_on_a_page_exists_with_its_options(words: list[str]) -> None:
    """Whatever a page tells people to type is known to the command line, option by option."""
    group, rest = typer.main.get_command(app), words[1:]
    while rest and hasattr(group, "commands") and not rest[0].startswith("-"):
        assert rest[0] in group.commands, f"no command {rest[0]}"
        group, rest = group.commands[rest[0]], rest[1:]
    known = {name for param in group.params for name in [*param.opts, *param.secondary_opts]} | {"--help"}
    given = [word.split("=")[0] for word in rest if word.startswith("--")]
    assert set(given) <= known, f"{set(given) - known} of {words}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_on_a_page_compiles(path: Path) -> None:
    for text in re.findall(r"^```python[^\n]*\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        compile(text, str(path), "exec")
