"""The report: one file, complete, and it looks like something in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest

from analyzer.analysis import analyze_runs
from analyzer.read.truth import Truth
from analyzer.report.page import _cell, write
from analyzer.report.svg import blocks, nice_ticks
from analyzer.report.words import answer, headline
from benchmarks.generated_logs import Faults, plan_text, write_run
from network_dp import __version__
from network_dp.strength import strength
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import GRID, HISTOGRAM, SGD

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


def test_the_page_has_every_chart_that_says_something(tmp_path):
    text = report(tmp_path, plan_text(length=80), Faults(lose_at=20, lose_after=3)).read_text()
    for heading in (
        "Who could learn about whom",
        "The walk",
        "Timeline",
        "Privacy of the worst pair",
        "Exposure against its law",
        "The noise that was drawn",
        "Visits per user",
        "Each user's own card",
    ):
        assert heading in text
    assert "edge lost" in text, "the abandoned branch is drawn"
    folded = text.index("For specialists")
    assert text.index("Timeline") < folded < text.index("Privacy of the worst pair"), "faults are for everybody"


def test_a_quiet_ring_leaves_out_what_says_nothing(tmp_path):
    """Seven draws of noise show no law, and a ring visits everybody equally often."""
    text = report(tmp_path, plan_text("ring", 5, 2)).read_text()
    assert "The noise that was drawn" not in text and "Visits per user" not in text
    assert text.index("For specialists") < text.index("Timeline"), "without a fault it is for specialists"


def test_the_page_begins_with_what_was_computed(tmp_path):
    """Value, band and truth; then what anybody could learn; then the checks."""
    path = report(tmp_path, plan_text(), truth=Truth((0.25,)))
    text, analysis = path.read_text(), analyze_runs([tmp_path / "run"], truth=Truth((0.25,))).runs[0]
    head, value = answer(analysis).title, answer(analysis).value
    order = (head, value, "The truth is 0.25", "What anybody could learn", "equally likely values", "<h2>Checks")
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert f"{analysis.utility.estimate[0]:.1f}"[:2] in value and "±" in value
    assert '<line class="curve truth"' in text and 'class="band"' in text


def test_a_histogram_is_bars_with_names_bands_and_truth(tmp_path):
    path = report(tmp_path, plan_text(task=HISTOGRAM, noise="gamma = 0.3"), truth=Truth((1.0, 2.0, 0.0, 1.0)))
    body = path.read_text()
    picture = body[body.index("What was computed") : body.index("What anybody could learn")]
    assert len(re.findall(r'<rect class="observed"', picture)) == 4 + 1, "and one in the legend"
    assert len(re.findall(r'<line class="curve truth"', picture)) == 4 + 1
    for bucket, share in enumerate(("0.25", "0.5", "0", "0.25")):
        assert re.search(rf"<title>bucket {bucket}: [-0-9.e]+ ± [0-9.]+, truth {share}</title>", picture)


def test_a_model_is_compared_with_the_same_without_privacy_and_with_a_guess(tmp_path):
    rows, labels = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0)), (1.0, -1.0, 1.0)
    truth = Truth(named={}, test_rows=rows, test_labels=labels, reference_accuracy=0.965)
    text = report(tmp_path, plan_text(task=SGD, noise="sigma = 3.0"), truth=truth).read_text()
    assert "A model of the same data without privacy: 96.5%" in text
    assert "Always guessing the more common label: 66.7%" in text
    assert "without privacy: 96.5%</title></polyline>" in text, "drawn as a line"


def test_a_kept_promise_is_called_by_its_strength(tmp_path):
    write_run(tmp_path / "run", plan_text(noise=f"sigma = 40.0\n{GRID}"), 1)
    (analysis,) = analyze_runs([tmp_path / "run"]).runs
    promised = analysis.privacy.promised
    assert promised < 3
    assert headline(analysis) == f"kept its promise (epsilon {promised:.3g}, {strength(promised)})"


def test_one_log_alone_shows_the_estimate_and_reads_as_a_sentence(tmp_path):
    """Not the raw token: the published sum over its published number of contributions."""
    write_run(tmp_path / "run", plan_text(), 1)
    (whole,) = analyze_runs([tmp_path / "run"]).runs
    log = tmp_path / "run" / "users" / "user-1" / "state" / "view.jsonl"
    (alone,) = analyze_runs([log]).runs
    assert alone.utility.estimate == pytest.approx(whole.utility.estimate) and alone.utility.noise_std is None
    assert headline(alone).startswith("shows nothing wrong, but evidence is missing that it kept its promise (epsilon")


def test_the_scale_is_the_same_for_harmless_and_harmful_runs(tmp_path):
    texts = []
    for name, sigma in (("harmless", 400.0), ("harmful", 0.5)):
        texts.append(report(tmp_path / name, plan_text(noise=f"sigma = {sigma}\n{GRID}")).read_text())
    zones = [re.findall(r'<rect class="zone [^>]*>', text) for text in texts]
    assert len(zones[0]) == 3 and zones[0] == zones[1]
    cells = [set(re.findall(r'fill="(#[0-9a-f]{6})"', text)) for text in texts]
    assert cells[0].isdisjoint(cells[1]), "a harmless run does not look as alarming as a harmful one"


def test_a_legend_shows_the_line_as_it_is_drawn(tmp_path):
    text = report(tmp_path, plan_text(length=80)).read_text()
    drawn = {kind for kind in re.findall(r'<polyline class="curve (\w+)"', text) if kind != "trace"}
    legend = set(re.findall(r'<svg class="swatch"[^>]*><line class="curve (\w+)"', text))
    assert drawn and drawn <= legend


def test_the_numbers_can_be_downloaded(tmp_path):
    text = report(tmp_path, plan_text()).read_text()
    files = dict(re.findall(r"download='([^']+)' href='data:[^;]+;base64,([^']+)'", text))
    found = {name: b64decode(body).decode() for name, body in files.items()}
    assert set(found) == {"test-verdict.json", "test-result.csv", "test-pairs.csv"}
    verdict = json.loads(found["test-verdict.json"])
    name, value, half, truth = found["test-result.csv"].splitlines()[1].split(",")
    assert float(value) == pytest.approx(verdict["utility"]["estimate"][0]) and name == "number 1" and not truth
    assert float(half) >= verdict["utility"]["noise_std"]
    assert len(found["test-pairs.csv"].splitlines()) == 1 + 5 * 4
    assert f"network-dp {__version__}" in text and re.search(r"report written \d{4}-\d\d-\d\d \d\d:\d\d UTC", text)
    assert "<summary>The plan</summary><pre>" in text and "total_steps" not in text


@pytest.mark.parametrize("name", ["=cmd()", "+1", "@x", 'a,"b"'])
def test_a_spreadsheet_takes_no_name_for_a_formula(name):
    assert _cell(name)[0] in "'\""


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
@pytest.mark.parametrize("width", [1280, 480])  # headless Chromium opens no narrower window
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
    assert int(re.search(r'data-drawn="(\d+)"', dom).group(1)) >= 4
