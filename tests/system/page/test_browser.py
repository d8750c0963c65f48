"""The live page in a real browser, over real runs: the token moves, users turn red and back, nothing is an error."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from analyzer.analysis import analyze_runs
from coordinator_free_launcher.local.demo_data import provision_demo
from coordinator_free_launcher.local.ports import with_free_ports
from network_dp.plan_reader import dump, from_dict
from tests.system.harness import QUICK, Harness, make_plan, slow_task

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOOL = str(Path(sys.executable).with_name("network-dp"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WAIT_MS = 60_000  # for something that will happen; only what never does waits this long
JUDGED = re.compile("PASS|PARTIAL|OVERSPENT")  # a task of one's own, and faults that may cost a re-issue
SEED = "2"  # of chaos: whoever is killed or frozen stays away for more than a second
SHOTS = os.environ.get("NETWORK_DP_SHOTS")  # a folder: keep pictures of the pages there


class Served:
    """A command that serves a page, from its start to Ctrl-C."""

    def __init__(self, *arguments: str, tool: Sequence[str] = (TOOL,)) -> None:
        self.process = subprocess.Popen(
            [*tool, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if "http://" in line:
                break
        else:
            pytest.fail("".join(said))
        self.said = "".join(said)
        self.address = line[line.index("http://") :].split()[0]
        self._drain = threading.Thread(target=self.process.stdout.read, daemon=True)
        self._drain.start()

    def close(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(30.0)
        self._drain.join(10.0)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("NETWORK_DP_REQUIRE_HOSTS"):
            pytest.fail("no Chromium on this machine")
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def opened(browser: Browser, address: str, **options: Any) -> tuple[Page, list[str]]:
    """A page, and what goes wrong on it."""
    page = browser.new_page(**options)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    return page, wrong


def keep(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1180, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1180, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}


@pytest.fixture(scope="module")
def disturbed(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, list[str], Path]]:
    """A run of ``chaos`` without any trouble but what the page asks for."""
    folder = tmp_path_factory.mktemp("chaos")
    # Without one of them the token waits, so whoever is killed is back before the walk ends.
    walk = {"topology": "ring", "rounds": 60, "min_live": 5}
    town = Harness(folder, make_plan(5, task=slow_task(0.03), timing={"linger_s": 1.0}, **walk), 1.0)
    town.close()  # bundles only: the command starts the users
    calm = ("--kill", "0", "--pause", "0", "--seconds", "1", "--seed", SEED)
    served = Served("chaos", str(town.folder), *calm, "--watch", "--json")
    page, wrong = opened(browser, served.address, **LOOKS["light"])
    yield page, wrong, town.folder
    page.close()
    assert served.close() == 0


def test_the_room_shows_a_run_and_obeys_its_buttons(disturbed: tuple[Page, list[str], Path]) -> None:
    page, wrong, _ = disturbed
    token = page.locator("#token")
    expect(token).to_have_attribute("data-holder", "user-1", timeout=WAIT_MS)
    expect(token).to_have_attribute("data-holder", "user-3", timeout=WAIT_MS)  # it moves
    victim = page.locator("[data-user=user-2]")
    expect(victim).to_have_class("user up", timeout=WAIT_MS)
    victim.locator(".dot").click()
    page.click("#kill")
    expect(victim).to_have_class("user down chosen", timeout=WAIT_MS)
    keep(page, "room-killed")
    expect(victim).to_have_class("user up chosen", timeout=WAIT_MS)
    expect(page.locator("#events")).to_contain_text("user-2 came back (start 2)", timeout=WAIT_MS)
    page.click("#freeze")
    expect(victim).to_have_class("user paused chosen", timeout=WAIT_MS)
    expect(page.locator("#status")).to_have_text(JUDGED, timeout=WAIT_MS)
    expect(page.locator("#final")).to_have_text("5 of 5")
    keep(page, "room-finished")
    assert wrong == []


def test_the_report_is_one_click_away(disturbed: tuple[Page, list[str], Path]) -> None:
    page, wrong, _ = disturbed
    expect(page.locator("#report")).to_be_visible(timeout=WAIT_MS)
    with page.expect_popup() as popup:
        page.click("#report")
    expect(popup.value.locator("header .verdict")).to_have_text(page.locator("#status").inner_text())
    popup.value.close()
    assert wrong == []


def test_a_users_own_page_hides_its_values_and_fits_every_screen(
    browser: Browser, disturbed: tuple[Page, list[str], Path]
) -> None:
    room, _, folder = disturbed
    expect(room.locator("#status")).to_have_text(JUDGED, timeout=WAIT_MS)
    served = Served("watch", str(folder), "--only", "user-1", "--host", "0.0.0.0")
    assert "0.0.0.0 can be reached from other machines" in " ".join(served.said.split())
    for look, options in LOOKS.items():
        page, wrong = opened(browser, served.address, **options)
        expect(page.locator("#status")).to_have_text("finished", timeout=WAIT_MS)
        expect(page.locator("[data-peer=user-2] td").nth(2)).not_to_have_text("0")
        expect(page.locator("#promise")).to_contain_text("promised", timeout=WAIT_MS)
        expect(page.locator("#growth .line")).to_have_count(1)
        expect(page.locator("#values")).to_have_text("hidden: start the page with --values to see your own")
        keep(page, f"mine-{look}")
        assert fits(page) and wrong == []
        page.close()
    assert served.close() == 0


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A run on the complete graph, and the room's page until its end."""
    plan = from_dict(
        {
            "name": "mean",
            "walk": {"topology": "complete", "steps": 300, "durability": "process"},
            "task": {"kind": "mean", "lower": 0.0, "upper": 1.0},
            "noise": {"sigma": 0.5},
            "timing": QUICK | {"linger_s": 1.0},
            "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{7000 + i}"} for i in range(12)],
        }
    )
    run = provision_demo(with_free_ports(plan), tmp_path_factory.mktemp("launched") / "run")
    served = Served("launch", str(run), "--watch")
    yield served, run
    assert served.close() == 0


def test_a_finished_run_is_judged_and_its_estimate_converges(browser: Browser, launched: tuple[Served, Path]) -> None:
    served, _ = launched
    for look, options in LOOKS.items():
        page, wrong = opened(browser, served.address, **options)
        expect(page.locator("#status")).to_have_text("PASS", timeout=WAIT_MS)
        expect(page.locator(".band")).to_be_visible()
        expect(page.locator(".truth")).to_have_count(1)
        keep(page, f"room-{look}")
        assert fits(page) and wrong == []
        page.close()


def test_what_my_page_says_of_each_peer_is_what_the_analyzer_finds(
    browser: Browser, launched: tuple[Served, Path]
) -> None:
    """The analyzer has everybody's log and knows the path; one log alone gives a range around its number."""
    room, _ = opened(browser, launched[0].address)
    expect(room.locator("#status")).to_have_text("PASS", timeout=WAIT_MS)
    room.close()
    (run,) = analyze_runs([launched[1]]).runs
    assert run.privacy.epsilon is not None
    served = Served("watch", str(launched[1]), "--only", "user-0")
    page, wrong = opened(browser, served.address, **LOOKS["light"])
    expect(page.locator("#promise")).to_contain_text("promised", timeout=WAIT_MS)
    for user in range(1, run.run.plan.n):
        said = page.locator(f"[data-peer=user-{user}] td").last.inner_text()
        ends = [float(number) for number in re.findall(r"[0-9.]+", said)]
        assert ends[0] * 0.99 <= run.privacy.epsilon[0, user] <= ends[-1] * 1.01, said  # three digits are shown
    keep(page, "mine-peers")
    page.close()
    assert wrong == [] and served.close() == 0


def test_a_graphs_room_draws_its_edges_and_the_token_goes_along_them(browser: Browser, tmp_path: Path) -> None:
    ways = [(1, 2), (0, 2), (0, 1, 3), (2, 4, 5), (3, 5), (3, 4)]  # two groups of three, and a bridge
    walk = {"topology": "graph", "steps": 60, "durability": "process"}
    town = Harness(tmp_path, make_plan(6, peers=ways, timing={"linger_s": 1.0}, **walk), 1.0)
    town.close()  # bundles only: the command starts the users
    served = Served("launch", str(town.folder), "--watch", "--pace", "20/s")
    page, wrong = opened(browser, served.address, **LOOKS["light"])
    expect(page.locator("#token")).to_have_attribute("data-holder", re.compile("user"), timeout=WAIT_MS)
    expect(page.locator("#stage > line.ring")).to_have_count(7)
    expect(page.locator("#hops line").nth(9)).to_be_attached(timeout=WAIT_MS)
    assert page.locator("#stage > circle.ring").count() == 0
    keep(page, "room-graph-walking")
    expect(page.locator("#status")).to_have_text(JUDGED, timeout=WAIT_MS)
    moves = {(a, b) for a, b in page.evaluate(HOPS) if a != b}  # on a graph the token may stay where it is
    assert len(moves) >= 2 and moves <= {(a, b) for a, b in page.evaluate(EDGES)}, "hops lie on edges"
    keep(page, "room-graph")
    assert fits(page) and wrong == []
    page.close()
    assert served.close() == 0


#: Where lines begin and end, whichever way they point.
LINES = (
    "one => [one.x1, one.y1, one.x2, one.y2].map(part => part.baseVal.value.toFixed(2))"
    ".reduce((found, part, i, all) => i % 2 ? [...found, all[i - 1] + ' ' + part] : found, []).sort()"
)
HOPS = f"[...document.querySelectorAll('#hops line')].map({LINES})"
EDGES = f"[...document.querySelectorAll('#stage > line.ring')].map({LINES})"


#: ``network-dp demo`` with fewer users.
SMALL_DEMO = """
from coordinator_free_launcher.start import main
from coordinator_free_launcher.local import demo
demo.USERS = demo.LEARNERS = 8
main()
"""


def test_the_page_of_a_demo_follows_it_from_run_to_run(browser: Browser, tmp_path: Path) -> None:
    demo = (sys.executable, "-c", SMALL_DEMO, "demo")
    served = Served("--watch", "--out", str(tmp_path / "demo"), "--pace", "10/s", tool=demo)
    page, wrong = opened(browser, served.address, **LOOKS["light"])
    for name in ("mean", "histogram"):
        expect(page.locator("#name")).to_have_text(name, timeout=WAIT_MS)
        expect(page.locator("#hops path").first).to_be_attached(timeout=WAIT_MS)  # the token moves along the ring
    assert wrong == []
    page.close()
    assert served.close() == 130, "stopped within a run"
    assert (tmp_path / "demo" / "mean" / "report.html").exists()


def test_a_hidden_run_shows_rounds_and_who_takes_part_but_no_holder(browser: Browser, tmp_path: Path) -> None:
    timing = {"preset": "lan", "linger_s": 1.0}
    task, rounds = {"kind": "mean", "lower": 0.0, "upper": 1.0}, {"beat_ms": 50.0}
    plan = make_plan(4, topology="complete", path="hidden", steps=30, timing=timing, task=task, anonymous=rounds)
    (tmp_path / "plan.toml").write_text(dump(plan))
    served = Served("run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run"), "--watch", "--json")
    page, wrong = opened(browser, served.address, **LOOKS["phone"])
    expect(page.locator("#rounds")).to_have_text(re.compile(r"^[1-9]"), timeout=WAIT_MS)
    expect(page.locator("#roll")).to_have_text("4 of 4")
    expect(page.locator("#status")).to_have_text(JUDGED, timeout=WAIT_MS)
    expect(page.locator("#found")).to_have_text(re.compile(r"\d"))
    assert page.locator("#token, .hop, #curve").count() == 0
    keep(page, "room-hidden")
    assert fits(page) and wrong == []
    page.close()
    assert served.close() == 0
