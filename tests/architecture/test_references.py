"""Every reference to a page of docs/ resolves: pages, anchors, links between pages, and decision records."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from analyzer.analysis import analyze_runs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDERS = "analyzer benchmarks coordinator_free_launcher docker docs examples network_dp node proto simulator tests"
PAGE = re.compile(r"\b([A-Z][A-Z_]+\.md)((?:#[a-z][a-z0-9-]*(?:, (?=#))?)*)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
RECORD = re.compile(r"\bADR (\d+)|\badr/(\d{4})")
#: names of pages that do not ship, and numbers of sections, which move
BANNED = re.compile(r"\btheory\.md|\bdesign\.md|\b[Tt]heory,? (sections? )?\d")
RECORD_LINES_MAX = 60
QUOTED = re.compile(r"`([^`\n]+)`")
PLACE = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.py")  # a file or folder
NAME = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?")  # of something in the code
MADE = {"docker/wheelhouse", "docker/base.lock"}  # by a script, and not kept
CODE = {".py", ".proto", ".toml", ".html", ".js", ".css", ".sh", ".yaml", ""}


def texts() -> list[Path]:
    inside = (path for name in FOLDERS.split() for path in (ROOT / name).rglob("*"))
    return sorted(path for path in (*inside, *ROOT.glob("*.md")) if path.suffix in {".py", ".md", ".proto", ".toml"})


def lines_with(pattern: re.Pattern[str]) -> list[tuple[str, re.Match[str]]]:
    """Where a pattern is found, as file and line, with the match."""
    return [
        (f"{path.relative_to(ROOT)}:{number}", match)
        for path in texts()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def page(name: str) -> Path:
    return next((path for path in (DOCS / name, ROOT / name) if path.exists()), DOCS / name)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Explicit anchors of a page, and those that its headings get."""
    text = path.read_text() if path.exists() else ""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return frozenset(re.findall(r'<a id="([^"]+)"></a>', text)) | frozenset(slugs)


def test_every_page_that_is_named_exists_and_has_the_anchors_that_are_named() -> None:
    broken = [
        f"{place}: {match[0]}"
        for place, match in lines_with(PAGE)
        if not page(match[1]).exists() or not set(re.findall(r"#([a-z0-9-]+)", match[2])) <= anchors(page(match[1]))
    ]
    assert broken == []


def test_every_link_of_a_page_leads_somewhere() -> None:
    broken = []
    for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")):
        for target in LINK.findall(path.read_text()):
            name, _, anchor = target.partition("#")
            goal = path.parent / name if name else path
            if "://" not in target and (not goal.exists() or (anchor and anchor not in anchors(goal))):
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def quoted() -> list[tuple[str, str]]:
    """What pages quote as code, but for measurements, which tell of other times, and the log of changes."""
    pages = (path for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")) if path.parent.name != "measurements")
    return [
        (f"{path.relative_to(ROOT)}: {text}", text)
        for path in pages
        if path.name != "CHANGELOG.md"
        for text in QUOTED.findall(re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL))
    ]


def test_every_file_that_a_page_names_exists() -> None:
    files = [path for folder in FOLDERS.split() for path in (ROOT / folder).rglob("*")]
    names = {path.name for path in files}
    tops = set(FOLDERS.split())
    missing = [
        place
        for place, text in quoted()
        if PLACE.fullmatch(text)
        and text not in MADE
        and not ((ROOT / text).exists() if text.split("/")[0] in tops else "/" in text or text in names)
    ]
    assert "\n".join(missing) == ""


def test_every_name_of_the_code_that_a_page_quotes_is_in_the_code() -> None:
    files = [path for folder in FOLDERS.split() if folder != "docs" for path in (ROOT / folder).rglob("*")]
    code = [path for path in (*files, *ROOT.iterdir()) if path.is_file() and path.suffix in CODE]
    known = {path.stem for path in code}
    for path in code:
        known |= set(re.findall(r"[A-Za-z_]\w*", path.read_text(errors="replace")))
    missing = [
        place
        for place, text in quoted()
        if (match := NAME.fullmatch(text))
        and not (ROOT / text).exists()
        and not known.issuperset(re.findall(r"[A-Za-z_]\w*", match[1]))
    ]
    assert "\n".join(missing) == ""


def test_nothing_cites_sections_by_number() -> None:
    assert [f"{place}: {match[0]}" for place, match in lines_with(BANNED)] == []


def test_anchors_are_unique() -> None:
    for path in DOCS.rglob("*.md"):
        found = re.findall(r'<a id="([^"]+)"></a>', path.read_text())
        assert len(found) == len(set(found)), path.name


def test_decision_records_have_numbers_without_gaps_and_every_number_named_exists() -> None:
    numbers = sorted(int(path.name[:4]) for path in (DOCS / "adr").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
    assert [place for place, match in lines_with(RECORD) if int(match[1] or match[2]) not in numbers] == []


@pytest.mark.parametrize("path", sorted((DOCS / "adr").glob("*.md")), ids=lambda path: path.stem)
def test_a_decision_record_is_one_page_of_question_decision_reason_and_price(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {int(path.name[:4])}. ")
    parts = [text.find(f"\n**{part}.**") for part in ("Question", "Decision", "Reason", "Price")]
    assert -1 not in parts and parts == sorted(parts)
    assert len(text.splitlines()) <= RECORD_LINES_MAX


@pytest.mark.parametrize("kind", ["ring", "complete"])
def test_every_rule_that_a_verdict_prints_names_its_page_and_anchor(kind: str) -> None:
    (analysis,) = analyze_runs([ROOT / "tests" / "unit" / "analyzer" / "golden" / kind]).runs
    for check in analysis.checks:
        named = [(match[1], anchor) for match in PAGE.finditer(check.theory) for anchor in match[2].split(", ")]
        assert named and all(anchor[1:] in anchors(page(name)) for name, anchor in named), check.id
