"""The page of `anytimebp serve` in a real browser: observing, undoing, searching, runs that go on, restarts."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.serve.limits import Limits
from served import TOKEN, eventually, long_run, serving, weather

pytestmark = pytest.mark.browser

SCRIPT = "</script><script>window.harmed = 1</script>"
PICTURE = '"><img src=x onerror="window.harmed = 2">'


@pytest.fixture(scope="module")
def served():
    with serving(weather()) as found:
        yield found


def show(browser, served, fragment="", **screen):
    """Open the page as somebody who has the address, and wait for the first answer."""
    browser.visit("about:blank")
    browser.visit(f"http://127.0.0.1:{served.port}/?token={TOKEN}{fragment}", **screen)
    assert eventually(lambda: is_answered(browser)), browser.text("#status")


def is_answered(browser):
    return "after" in browser.text("#status") and browser.run("return document.getElementById('stop').hidden")


def click(browser, selector):
    """Click, and wait for the answer to the new query."""
    browser.run("document.getElementById('status').textContent = ''")
    browser.find(selector).click()
    assert eventually(lambda: is_answered(browser)), browser.text("#status")


def fragment(browser):
    return browser.run("return decodeURIComponent(location.hash)")


def probability(browser, state):
    return browser.text(f"[data-state='{state}'] .number")


def test_the_page_loads_without_complaint_and_asks_only_its_server(browser, served):
    show(browser, served)
    assert browser.complaints() == []
    asked = browser.requests()
    assert len(asked) > 10
    assert [address for address in asked if not address.startswith(f"http://127.0.0.1:{served.port}/")] == []
    assert "token" not in browser.driver.current_url
    assert browser.driver.title == "model.npz \u2013 anytimebp"
    assert browser.text("#size") == "4 variables, 4 factors, 49 states · method auto"
    assert browser.texts("#list .label") == browser.texts("#graph .name") == ["weather", "ground", "depth", "odd"]


def test_observing_a_state_moves_all_marginals_and_says_what_has_changed(browser, served):
    show(browser, served, "#v=ground")
    expected = abp.infer(weather(), evidence={"ground": "wet"})
    click(browser, "[data-state='1']")
    assert fragment(browser) == "#v=ground&ground=1"
    assert (probability(browser, 0), probability(browser, 1)) == ("0", "1")
    assert browser.texts("#chips .go") == ["ground = wet"]
    label, value = expected.top("weather")[0]
    assert browser.texts("#list .top")[0] == f"{label} {value:.3f}"
    assert browser.texts("#graph .node.seen .name") == ["ground"]
    assert len(browser.texts("#changes tr")) == 4
    assert eventually(lambda: browser.texts("#best-states tr"))
    assert "No joint state is better" in browser.text("#best-note")
    assert browser.complaints() == []


def test_undo_takes_clicks_back_one_by_one_and_so_does_the_browser(browser, served):
    show(browser, served, "#v=ground")
    first = probability(browser, 0)
    assert browser.find("#undo").get_attribute("disabled")
    click(browser, "[data-state='1']")
    click(browser, "[data-state='0']")
    assert browser.texts("#chips .go") == ["ground = dry"]
    click(browser, "#undo")
    assert browser.texts("#chips .go") == ["ground = wet"]
    browser.run("document.getElementById('status').textContent = ''; history.back()")
    assert eventually(lambda: is_answered(browser) and not browser.texts("#chips .go"))
    assert probability(browser, 0) == first
    assert browser.find("#undo").get_attribute("disabled")
    browser.run("document.getElementById('status').textContent = ''; history.forward()")
    assert eventually(lambda: is_answered(browser) and browser.texts("#chips .go") == ["ground = wet"])
    click(browser, "#clear")
    assert browser.texts("#chips .go") == []
    assert fragment(browser) == "#v=ground"


def test_excluding_states_and_taking_that_back(browser, served):
    show(browser, served, "#v=weather")
    click(browser, "[aria-label='Exclude rain']")
    click(browser, "[aria-label='Exclude snow']")
    assert fragment(browser) == "#v=weather&weather=!1,2"
    assert [probability(browser, state) for state in range(3)] == ["1", "0", "0"]
    assert browser.texts("#chips .go") == ["weather ≠ rain, snow"]
    click(browser, "[aria-label='Exclude snow']")
    assert browser.texts("#chips .go") == ["weather ≠ rain"]
    click(browser, "#chips .drop")
    assert browser.texts("#chips .go") == []


def test_a_link_shows_the_same_to_others(browser, served):
    show(browser, served, "#v=depth&ground=1&weather=!0")
    expected = abp.infer(weather(), evidence={"ground": "wet", "weather": {"rain", "snow"}})
    assert browser.texts("#chips .go") == ["ground = wet", "weather ≠ sun"]
    assert browser.text("#chosen-name") == "depth"
    assert probability(browser, 20) == f"{expected.marginals['depth'][20]:.3f}"


def test_evidence_that_makes_no_sense_is_a_message(browser, served):
    show(browser, served, "#v=nobody")
    assert browser.text("#chosen-name") == "weather"
    browser.visit(f"http://127.0.0.1:{served.port}/#v=weather&nobody=1")
    assert eventually(lambda: "there is no variable named 'nobody'" in browser.text("#status"))
    browser.visit("about:blank")
    browser.visit(f"http://127.0.0.1:{served.port}/#weather=99")
    assert eventually(lambda: "'weather' has the states 0 to 2, not 99" in browser.text("#status"))
    click(browser, "#clear")


def test_search_finds_variables_and_states(browser, served):
    show(browser, served)
    browser.type("D")
    assert eventually(lambda: browser.texts("#list .label") == ["ground", "depth", "odd"])
    browser.type("DEPTH")
    assert eventually(lambda: browser.texts("#list .label") == ["depth"])
    browser.find("#list button").click()
    assert eventually(lambda: browser.text("#chosen-name") == "depth" and len(browser.texts("#states li")) == 12)
    assert "28 more states" in browser.text("#rest")
    browser.find("#more-states").click()
    assert eventually(lambda: len(browser.texts("#states li")) == 36)
    browser.find("#state-search").send_keys("39")
    assert eventually(lambda: "39" in browser.texts("#states .label") and len(browser.texts("#states li")) <= 2)
    browser.type("nothing")
    assert eventually(lambda: browser.text("#found") == "No name contains this.")
    assert browser.complaints() == []


def test_the_keyboard_is_enough(browser, served):
    from selenium.webdriver import ActionChains, Keys  # noqa: PLC0415

    show(browser, served, "#v=ground")
    keys = ActionChains(browser.driver)
    keys.send_keys("/").perform()
    assert browser.run("return document.activeElement.id") == "search"
    browser.run("document.querySelector('.node.chosen').focus()")
    for key in (Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ARROW_RIGHT, Keys.ARROW_DOWN):
        ActionChains(browser.driver).send_keys(key).perform()
    other = browser.run("return document.activeElement.dataset.index")
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert eventually(lambda: browser.run("return document.querySelector('.node.chosen').dataset.index") == other)
    assert browser.run("return document.activeElement.dataset.index") == other
    browser.run("document.querySelector('.state').focus(); document.getElementById('status').textContent = ''")
    ActionChains(browser.driver).send_keys(Keys.SPACE).perform()
    assert eventually(lambda: is_answered(browser) and len(browser.texts("#chips .go")) == 1)
    assert browser.run("return document.activeElement.className") == "state"
    ActionChains(browser.driver).send_keys("u").perform()
    assert eventually(lambda: is_answered(browser) and not browser.texts("#chips .go"))


def test_everything_has_a_name_for_screen_readers(browser, served):
    show(browser, served, "#v=depth&weather=1")
    controls = browser.driver.find_elements("css selector", "button, a, input, [role=button], section, svg[role]")
    shown = [each for each in controls if each.is_displayed()]
    assert len(shown) > 30
    assert [each.get_attribute("outerHTML") for each in shown if not each.accessible_name] == []
    assert browser.find("#status").aria_role == "status"
    pressed = browser.driver.find_elements("css selector", "#states [aria-pressed]")
    assert {each.get_attribute("aria-pressed") for each in pressed} == {"false"}
    assert browser.find(".node.chosen").accessible_name.startswith("depth: ")


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_everything_in_one_column(browser, served, dark):
    show(browser, served, "#v=depth&weather=1", width=390, dark=dark)
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    inside = (
        "return [...document.querySelectorAll('button, input, #graph text, td, p')].filter((e) => e.checkVisibility())"
        ".every((e) => { const r = e.getBoundingClientRect(); return r.left >= -1 && r.right <= 391; })"
    )
    assert browser.run(inside)
    heights = [
        each.size["height"] for each in browser.driver.find_elements("css selector", ".state, .not, #chips .drop")
    ]
    assert min(heights) >= 28
    light = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(light) < 60) == dark
    assert browser.complaints() == []


def test_names_and_labels_are_never_markup(browser):
    graph = abp.FactorGraph()
    graph.add_variable(SCRIPT, [SCRIPT, PICTURE, "\u202eevil", "l" * 3_000])
    graph.add_variable("n" * 500, ["&lt;b&gt;", "`${1+1}`"])
    graph.add_variable("v", ["is a name", "=", "!0"])
    graph.add_factor([0, 1, 2], log_table=np.arange(24.0).reshape(4, 2, 3) / 9.0)
    with serving(graph, name=PICTURE) as served:
        show(browser, served)
        assert browser.text("h1") == PICTURE
        assert browser.text("#chosen-name") == SCRIPT
        assert browser.texts("#states .label")[:3] == [SCRIPT, PICTURE, "\u202eevil"]
        click(browser, "[data-state='1']")
        assert browser.texts("#chips .go") == [f"{SCRIPT} = {PICTURE}"]
        assert SCRIPT in browser.texts("#changes th")
        browser.driver.find_elements("css selector", "#list button")[2].click()
        assert eventually(lambda: browser.text("#chosen-name") == "v")
        click(browser, "[data-state='2']")
        browser.driver.refresh()
        assert eventually(lambda: is_answered(browser))
        assert browser.texts("#chips .go") == [f"{SCRIPT} = {PICTURE}", "v = !0"]
        assert browser.run("return window.harmed") is None
        assert browser.run("return document.querySelectorAll('img, main script').length") == 0
        assert browser.complaints() == []


def test_a_run_goes_on_while_one_looks_and_a_click_starts_the_next(browser):
    limits = Limits(seconds=60.0, max_memory=2**28)
    with serving(long_run(4, 60), method="dynamic", limits=limits) as served:
        browser.visit("about:blank")
        browser.visit(f"http://127.0.0.1:{served.port}/?token={TOKEN}#v=x5")
        assert eventually(lambda: " states" in browser.text("#moving") and browser.texts("#states li"))
        moving = browser.text("#moving")
        assert eventually(lambda: browser.text("#moving") not in {moving, ""})
        assert browser.text("#status") == "Running"
        browser.find("#search").send_keys("x15")
        assert eventually(lambda: browser.texts("#list .label") == ["x15"])
        browser.find("#list button").click()
        assert eventually(lambda: browser.text("#chosen-name") == "x15" and browser.texts("#states li"))
        browser.find("#states .state").click()
        assert eventually(lambda: len(browser.texts("#chips .go")) == 1 and browser.text("#moving"))
        assert browser.text("#status") == "Running"
        browser.find("#stop").click()
        assert browser.text("#status") == "Stopped"
        assert eventually(lambda: not served.engine.is_busy)
        assert browser.complaints() == []


def test_the_page_finds_a_server_that_has_restarted(browser):
    with serving(weather()) as served:
        show(browser, served, "#v=ground")
        port = served.port
    browser.find("[data-state='1']").click()
    assert eventually(lambda: browser.text("#status") == "The server does not answer; trying again")
    with serving(weather(), port=port):
        assert eventually(lambda: is_answered(browser))
        assert browser.texts("#chips .go") == ["ground = wet"]
        browser.driver.find_elements("css selector", "#list button")[2].click()
        assert eventually(lambda: browser.text("#chosen-name") == "depth" and browser.texts("#states li"))
        browser.complaints()  # of requests that no server has answered


def test_a_page_whose_answer_the_server_has_forgotten_asks_again(browser, served):
    show(browser, served, "#v=ground&weather=1")
    served.engine._clients.clear()
    browser.driver.find_elements("css selector", "#list button")[2].click()
    assert eventually(lambda: browser.text("#chosen-name") == "depth" and len(browser.texts("#states li")) == 12)
    browser.complaints()  # of the answer 409


def test_whoever_has_no_token_enters_it_and_keeps_what_the_address_says(browser, served):
    browser.driver.delete_all_cookies()
    browser.visit("about:blank")
    browser.visit(f"http://127.0.0.1:{served.port}/#v=ground&weather=1")
    assert browser.text("h1") == "This page needs a token"
    browser.find("#token").send_keys(TOKEN)
    browser.find("button").click()
    assert eventually(lambda: browser.texts("#chips .go") == ["weather = rain"])
    browser.complaints()  # of the answer 401


def test_the_interface_is_described_on_a_page(browser, served):
    show(browser, served)
    browser.find("a[href='/api']").click()
    assert eventually(lambda: "POST /query" in browser.texts("h2"))
    assert {"GET /model", "POST /stream", "Figures", "Problem"} <= set(browser.texts("h2"))
    assert browser.complaints() == []
