"""The report: one file, complete, and it looks like something in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from analyzer.analysis import analyze_runs
from analyzer.report.page import write
from analyzer.report.svg import blocks, nice_ticks
from tests.analyzer import tamper
from tests.analyzer.conftest import SGD
from tests.analyzer.generate import Faults, plan_text, write_run

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def report(tmp_path, text, faults=None, **options):
    write_run(tmp_path / "run", text, 1, faults)
    analyses = analyze_runs([tmp_path / "run"], **options)
    (path,) = write(analyses, tmp_path / "report.html")
    return path


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


def test_every_plan_gets_a_wellformed_page_without_addresses(tmp_path, any_plan):
    text = report(tmp_path, any_plan, max_colluders=2).read_text()
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert not re.search(r"(src|href)=.(?!data:)", text), "nothing is fetched"
    assert "<script" not in text and "nan" not in re.sub(r"base64,\S+", "", text).lower().split()


def test_the_page_says_what_the_issue_asks_for(tmp_path):
    text = report(tmp_path, plan_text(), Faults(lose_at=20, lose_after=3)).read_text()
    for heading in (
        "The walk",
        "Who learned about whom",
        "Exposure against its law",
        "Privacy of the worst pair",
        "The noise that was drawn",
        "Visits per user",
        "Timeline",
        "Each user's own card",
    ):
        assert heading in text
    assert text.index("class='verdict'>PASS") < text.index("The walk"), "the verdict is on top"
    assert "edge lost" in text, "the abandoned branch is drawn"


def test_what_is_wrong_comes_right_after_the_verdict(tmp_path):
    write_run(tmp_path / "run", plan_text(), 1)
    line = tamper.change(tmp_path / "run", "user-2", "sent", 1, lambda x: x["noise"].__setitem__(0, x["noise"][0] + 1))
    (path,) = write(analyze_runs([tmp_path / "run"]), tmp_path / "report.html")
    text = path.read_text()
    places = [text.index(word) for word in ("class='verdict'>FAIL", "What is wrong", f"view.jsonl:{line}", "The walk")]
    assert places == sorted(places)


def test_the_timeline_shows_restarts_and_reissues(tmp_path):
    """The first start of a log is the ordinary one; only those that follow are events."""
    write_run(tmp_path / "run", plan_text(), 1, Faults(lose_at=20, lose_after=3))
    lines = tamper.read(tmp_path / "run", "user-2")
    middle = lines[len(lines) // 2]["time"]
    start = {"kind": "start", "life": 2, "time": middle}
    tamper.rewrite(tmp_path / "run", "user-2", [*lines[: len(lines) // 2], start, *lines[len(lines) // 2 :]])
    analyses = analyze_runs([tmp_path / "run"])
    (path,) = write(analyses, tmp_path / "report.html")
    text = path.read_text()
    assert "1 restart, " in text and "1 re-issue<" in text
    assert "<title>user-2 was started again</title>" in text and "up again</title>" in text
    assert [card.events for card in analyses.runs[0].cards()][2] >= 1


def test_sgd_shows_its_learning(tmp_path):
    assert "gradient norm" in report(tmp_path, plan_text(task=SGD, noise="sigma = 3.0")).read_text()


def test_several_runs_get_a_page_each(tmp_path):
    for number in (1, 2):
        write_run(tmp_path / str(number), plan_text(run_number=number), number)
    paths = write(analyze_runs([tmp_path / "1", tmp_path / "2"]), tmp_path / "report.html")
    assert [path.name for path in paths] == ["report-1.html", "report-2.html"]
    assert "All runs together" in paths[0].read_text()


@pytest.mark.slow
def test_a_report_of_200_users_is_below_5_mb(tmp_path):
    assert report(tmp_path, plan_text(n=200, length=4000)).stat().st_size < 5_000_000


def test_blocks_keep_the_largest_value():
    matrix = np.zeros((500, 500))
    matrix[321, 17] = 9.0
    shown = blocks(matrix)
    assert shown.shape == (160, 160) and shown.max() == 9.0


def test_ticks_are_round_and_inside():
    assert nice_ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert nice_ticks(3, 3) == [3]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1180, 480])
@pytest.mark.slow
def test_a_browser_draws_the_page(tmp_path, width):
    """Not blank, charts present, no console error, nothing wider than the window."""
    from matplotlib.image import imread

    path = report(tmp_path, plan_text(n=8, length=100))
    probe = tmp_path / "probe.html"
    script = (
        "<script>addEventListener('load',()=>{const d=document.documentElement;"
        "d.setAttribute('data-wide',d.scrollWidth<=d.clientWidth+1);"
        "d.setAttribute('data-drawn',[...document.querySelectorAll('figure svg, figure img.pixels')]"
        ".filter(x=>x.getBoundingClientRect().height>50).length)})</script></body>"
    )
    probe.write_text(path.read_text().replace("</body>", script))
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},1600",
    ]
    shot = tmp_path / "shot.png"
    taken = subprocess.run([*command, f"--screenshot={shot}", path.as_uri()], capture_output=True, timeout=120)
    assert "CONSOLE" not in taken.stderr.decode(errors="replace")
    pixels = imread(shot)
    assert pixels[..., :3].std() > 0.05, "the screenshot is blank"
    dom = subprocess.run([*command, "--dump-dom", probe.as_uri()], capture_output=True, timeout=120).stdout.decode()
    assert 'data-wide="true"' in dom, "the page is wider than the window"
    assert int(re.search(r'data-drawn="(\d+)"', dom).group(1)) >= 7
