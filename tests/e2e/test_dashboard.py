"""The operator's page in a real browser, while somebody takes too much. SCREENSHOTS=DIR keeps the pictures."""

import os
import shutil
from pathlib import Path

import pytest
from e2e_support import running_fairgate, wait_for
from siege import Siege, homeserver

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
)
TOKEN = "a-token-for-operators"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def besieged(tmp_path_factory):
    """Fairgate, with a siege on; its admin listener asks for a token."""
    folder = tmp_path_factory.mktemp("besieged")
    settings = {
        "sync": {"per_account": 4, "per_device": 3},
        "background": {"match": {"classes": []}},
        "admin": {"listen": "127.0.0.1:0", "token": TOKEN},
        "log": {"access": "none"},
    }
    with (
        homeserver() as upstream,
        running_fairgate(folder, upstream.url, profile="generic", **settings) as fairgate,
        Siege(fairgate.port),
    ):
        yield fairgate


@pytest.fixture(scope="module")
def admin(besieged):
    """Where the page is."""
    line = wait_for(
        lambda: next((text for text in besieged.output.splitlines() if '"started"' in text), None)
    )
    address = line.split('"admin": "')[1].split('"')[0]
    return f"http://{address}"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, admin):
    """A page that is logged in, of a size and colour; whatever goes wrong in it is kept in `page.troubles`."""
    contexts = []

    def opened(viewport=WIDE, colour="light"):
        context = browser.new_context(viewport=viewport, color_scheme=colour)
        contexts.append(context)
        page = context.new_page()
        page.troubles, page.asked = [], []
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on(
            "console",
            lambda said: said.type == "error" and "401" not in said.text and page.troubles.append(said.text),
        )
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(admin)
        page.get_by_label("This listener asks for").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("#flow-rows tbody tr", timeout=10_000)
        return page

    yield opened
    for context in contexts:
        context.close()


def keep(page, name):
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_the_page_names_who_takes_too_much_and_what_is_refused(open_page):
    page = open_page()
    hogs = page.locator("#flow-rows tbody tr").first.locator("th")
    playwright.expect(hogs).to_have_text("@hog:example.org", timeout=15_000)
    playwright.expect(page.locator("#reasons tbody")).to_contain_text("sync_", timeout=10_000)
    lanes = page.locator("#lanes tbody tr")
    assert lanes.count() == 7
    playwright.expect(lanes.first).to_contain_text("requests")
    playwright.expect(page.locator("#gate")).to_contain_text("refusing", timeout=10_000)  # the backfill fails
    playwright.expect(page.locator("#state")).to_have_text("Background work: refusing.")
    page.get_by_role("radio", name="long polls").check()
    playwright.expect(hogs).to_have_text("@poller:example.org")
    page.get_by_role("radio", name="worker-seconds").check()
    page.wait_for_timeout(6_000)  # so that plots have something to show
    keep(page, "page-light")
    assert page.troubles == []


def test_it_works_without_a_network_and_shows_no_token(open_page, admin):
    page = open_page()
    assert page.asked
    assert all(url.startswith(admin) or url == "data:," for url in page.asked)
    assert TOKEN not in page.content()
    assert TOKEN not in "".join(page.asked)


def test_a_phone_shows_all_of_it_without_scrolling_sideways_and_in_the_dark(open_page):
    page = open_page(PHONE, "dark")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(15, 19, 24)"
    page.wait_for_timeout(500)
    keep(page, "page-phone-dark")
    assert page.troubles == []


def test_a_keyboard_and_a_screen_reader_are_enough(open_page):
    page = open_page()
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "flows"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.value") == "worker_seconds"
    page.wait_for_timeout(1_500)  # what is drawn anew takes the focus from nobody
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.querySelector('[name=by]:checked').value") == "waits"
    # Each picture says in words what it shows; every table has its heads, every section its name.
    assert page.locator("svg:not([aria-label])").count() == 0
    assert page.locator("svg[aria-label]").count() > 10
    assert page.locator("#plots svg").first.get_attribute("aria-label").startswith("Workers: now running")
    assert page.locator("table:not(:has(th[scope=col]))").count() == 0
    assert page.locator("section:not([aria-labelledby])").count() == 0
    assert page.get_by_role("status").count() == 1


def test_a_wrong_token_is_asked_for_again(browser, admin):
    page = browser.new_page()
    page.goto(admin)
    page.get_by_label("This listener asks for").fill("wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#login:not([hidden])")
    playwright.expect(page.locator("#state")).to_have_text("A token is needed.")
    assert page.locator("#main").is_hidden()
    page.close()
