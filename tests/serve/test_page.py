"""The page in a real browser, on the real service: what a user sees after typing, clicking and pressing keys."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
import urllib.request
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest

import zishu
from zishu.annotations import read_annotations
from zishu.formats.conllu import read_conllu
from zishu.formats.jsonl import from_json
from zishu.gaps import BREAK, FREE
from zishu.granularity import coarsen

pytest.importorskip("selenium", reason="the tests of the page need selenium")
pytest.importorskip("httptools", reason="the tests of the page need the extra `serve`")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
if not (BROWSER and DRIVER):
    pytest.skip("the tests of the page need chromium and chromedriver", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver import ActionChains, Keys  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from zishu.serve import Limits, create_app  # noqa: E402
from zishu.serve.server import Server, make_config  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.slow

EASY = "我喜欢北京。"
EASY_WORDS = ["我", "喜欢", "北京", "。"]
LIMIT = 2_000  # characters of a request
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,1000"
)


@pytest.fixture(scope="module")
def parser() -> zishu.Parser:
    return zishu.load()


@pytest.fixture(scope="module")
def serve(parser: zishu.Parser) -> Iterator[Callable[..., str]]:
    """Return a function that starts another service and returns its address."""
    running = []

    def start(**options: Any) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        app = create_app(parser, Limits(chars=LIMIT), **options)
        server = Server(make_config(app, Limits()))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        running.append((server, thread))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address(serve: Callable[..., str]) -> str:
    return serve()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"intl.accept_languages": "en-US"})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: webdriver.Chrome, address: str) -> Iterator[Page]:
    page = Page(browser, address)
    page.open()
    browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    page.open()
    browser.get_log("browser")
    yield page
    # Whatever a test did, no script failed and nothing broke the page's security policy.
    messages = [entry["message"] for entry in browser.get_log("browser")]
    assert not [text for text in messages if "Security Policy" in text or "Error" in text]


class Page:
    """Use the page as a person does."""

    def __init__(self, browser: webdriver.Chrome, address: str) -> None:
        self.browser = browser
        self.address = address

    def open(self, hash_: str = "") -> None:
        self.browser.get(
            "about:blank"
        )  # otherwise only the fragment changes, and the page is not loaded again
        self.browser.get(self.address + hash_)

    def all(self, css: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def until(self, condition: Callable[[], object]) -> None:
        WebDriverWait(self.browser, 30, poll_frequency=0.05).until(lambda _: condition())

    def settle(self) -> None:
        """Wait until all requests are answered; a click takes effect in the next turn of the event loop."""
        self.browser.execute_async_script("setTimeout(arguments[0])")
        self.until(lambda: "busy" not in (self.one("body").get_attribute("class") or ""))

    def parse(self, text: str) -> None:
        self.browser.execute_script("document.getElementById('text').value = arguments[0]", text)
        self.one("#ask .main").click()
        self.settle()

    def click(self, css: str) -> None:
        self.one(css).click()
        self.settle()

    def keys(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()
        self.settle()

    def words(self, card: int = 1) -> list[str]:
        return self.texts(f".card:nth-child({card}) .word", "node.dataset.form")

    def texts(self, css: str, what: str = "node.textContent") -> list[str]:
        script = f"return Array.from(document.querySelectorAll(arguments[0]), (node) => {what})"
        return self.browser.execute_script(script, css)

    def pin(self, form: str) -> None:
        """Open the editor of a word, press its first button and close it."""
        self.click(f'.word[data-form="{form}"] .char')
        self.click('.editor [data-edit="pin"]')
        self.click(".editor .close")

    def choose(self, kind: str, value: str) -> None:
        """Choose from a menu of the editor that is open."""
        self.click(f'.editor [data-edit="{kind}"] option[value="{value}"]')

    def arcs(self) -> list[list[object]]:
        """Return the dependent, the relation and whether it is fixed, of each arc."""
        found = "[node.dataset.dependent, node.textContent, node.classList.contains('fixed')]"
        return self.texts(".arc", found)

    def drag(self, form: str, head: str | None) -> None:
        """Drag a word onto another one, or to the top of its figure."""
        actions = ActionChains(self.browser).move_to_element(self.one(f'.word[data-form="{form}"] .char'))
        actions.click_and_hold().move_by_offset(0, -20)
        if head is None:
            top = "return document.querySelector('.figure').getBoundingClientRect().top"
            y = int(self.browser.execute_script(top)) + 8
            actions.w3c_actions.pointer_action.move_to_location(200, y)
        else:
            actions.move_to_element(self.one(f'.word[data-form="{head}"] .char'))
        actions.release().perform()
        self.settle()

    def hash(self) -> str:
        return self.browser.execute_script("return location.hash")


# --- parsing ---


def test_type_a_sentence_and_see_its_tree(page: Page, parser: zishu.Parser) -> None:
    assert page.one("#empty").is_displayed()
    page.one("#text").send_keys(EASY, Keys.CONTROL, Keys.ENTER)
    page.settle()
    assert not page.one("#empty").is_displayed()
    (sentence,) = parser(EASY)
    assert page.words() == EASY_WORDS == [word.form for word in sentence.words]
    assert page.texts(".arc .relation") == [word.deprel for word in sentence.words]
    assert page.texts(".figure .tag") == [word.upos for word in sentence.words]
    assert page.texts(".figure .char") == list(EASY)
    # One arc for each character that is not the root of its word, dashed.
    dashes = page.texts(".figure .inner-line", "getComputedStyle(node).strokeDasharray")
    assert len(dashes) == len(EASY) - len(EASY_WORDS)
    assert "none" not in dashes


def test_shades_by_confidence_and_tells_the_number_when_pointed_at(page: Page, parser: zishu.Parser) -> None:
    text = "乒乓球拍卖完了。"
    page.parse(text)
    words = parser(text)[0].words
    shades = [float(shade) for shade in page.texts(".word .doubt", "node.getAttribute('fill-opacity')")]
    sure = [word.boundary_prob for word in words]
    assert None not in sure
    order = sorted(range(len(words)), key=lambda i: sure[i])
    assert shades[order[0]] > shades[order[-1]]
    tip = page.one("#tip")
    assert not tip.is_displayed()
    ActionChains(page.browser).move_to_element(page.one(".word .char")).perform()
    assert tip.is_displayed()
    assert f"{100 * sure[0]:.1f} %" in tip.text
    assert f"{100 * sure[0]:.1f} %" in page.one(".word").get_attribute("aria-label")


def test_the_style_can_be_chosen_and_is_part_of_the_link(page: Page, parser: zishu.Parser) -> None:
    text = "她喜欢图书馆。"
    page.parse(text)
    assert page.texts("#style option", "node.value") == list(parser.styles)
    first, other = parser.styles[:2]
    page.click(f'#style option[value="{other}"]')
    assert page.words() == [word.form for word in parser(text, style=other)[0].words]
    assert f"style={other}" in page.hash()
    page.open(page.hash())
    page.settle()
    assert page.one("#style").get_attribute("value") == other
    assert page.words() == [word.form for word in parser(text, style=other)[0].words]
    page.click(f'#style option[value="{first}"]')
    assert page.words() == [word.form for word in parser(text)[0].words]


def test_trees_inside_words_and_granularity_can_be_chosen(page: Page, parser: zishu.Parser) -> None:
    text = "科学家在图书馆吃饭。"
    page.parse(text)
    fine = parser(text)[0]
    assert page.words() == [word.form for word in fine]
    assert page.all(".inner-name") == []
    page.click("#inner-names")
    names = [relation for word in fine for relation in word.char_rels or () if relation != "root"]
    assert names
    assert page.texts(".inner-name") == names
    page.click('#granularity option[value="coarse"]')
    assert page.words() == [word.form for word in coarsen(fine)]
    assert "granularity=coarse" in page.hash()
    page.click('#inner option[value="latent"]')
    assert page.all(".inner-name") == []  # latent trees have no relations
    assert page.all(".word .inner-line")
    page.open(page.hash())
    page.settle()
    assert page.one("#inner").get_attribute("value") == "latent"
    assert page.one("#granularity").get_attribute("value") == "coarse"
    page.click('#inner option[value=""]')
    page.click('#granularity option[value=""]')
    assert page.words() == [word.form for word in fine]
    assert "inner" not in page.hash()


def test_long_texts_are_a_list_of_sentences(page: Page) -> None:
    page.parse(EASY * 60)
    assert len(page.all(".card")) == 40
    assert "60 sentences" in page.one("#summary").text
    page.click("#more")
    assert len(page.all(".card")) == 60
    assert not page.one("#more").is_displayed()
    # For a long text, the other analyses are fetched on demand.
    assert not page.all(".card:nth-child(2) input")
    page.click(".card:nth-child(2) .ranks button")
    assert len(page.all(".card:nth-child(2) input")) > 1
    # A correction affects one sentence; the others keep their places.
    page.click('.gap[data-offset="10"]')
    assert page.words(2) == ["我", "喜欢", "北", "京", "。"]
    assert page.words(1) == page.words(3) == EASY_WORDS
    assert "breaks=10" in page.hash()


def test_no_string_becomes_markup(page: Page) -> None:
    text = "<img src=x onerror=alert(1)>我喜欢&lt;b&gt;北京。\u202e"
    page.parse(text)
    shown = "".join(page.words())
    assert "<img" in shown
    assert "&lt;" in shown
    assert not page.all("#result img, #result b:not(.ranks b)")
    # Characters that reverse the writing direction are replaced by visible ones.
    assert not [char for char in page.texts(".figure .char") if "\u202e" in char]


# --- correcting ---


def test_cut_a_word_join_it_again_leave_it_free(page: Page) -> None:
    page.parse(EASY)
    assert not page.all(".figure .changed")
    gap = '.gap[data-offset="4"]'
    page.click(gap)
    assert page.words() == ["我", "喜欢", "北", "京", "。"]
    assert page.texts(".word.changed", "node.dataset.form") == ["北", "京"]
    assert "北京 → 北|京" in page.one(".changes").text
    assert "breaks=4" in page.hash()
    page.click(gap)
    assert page.words() == EASY_WORDS
    assert page.texts(".word.pinned", "node.dataset.form") == ["北京"]
    assert "pins=3-5" in page.hash()
    assert "breaks" not in page.hash()
    page.click(gap)
    assert page.words() == EASY_WORDS
    assert not page.all(".figure .pinned")
    assert "pins" not in page.hash()


def test_join_two_words_undo_and_reset(page: Page) -> None:
    page.parse(EASY)
    assert not page.one("#undo").is_enabled()
    assert not page.one("#reset").is_enabled()
    page.click('.gap[data-offset="1"]')
    assert page.words() == ["我喜欢", "北京", "。"]
    page.click('.gap[data-offset="3"]')
    assert page.words() == ["我喜欢北京", "。"]
    assert "我|喜欢|北京 → 我喜欢北京" in page.one(".changes").text
    page.click("#undo")
    assert page.words() == ["我喜欢", "北京", "。"]
    page.click("#reset")
    assert page.words() == EASY_WORDS
    assert not page.all(".figure .changed")
    page.click("#undo")
    assert page.words() == ["我喜欢", "北京", "。"]
    page.click("#undo")
    assert page.words() == EASY_WORDS
    assert not page.one("#undo").is_enabled()


def test_pin_a_word(page: Page) -> None:
    page.parse(EASY)
    page.pin("北京")
    word = page.one('.word[data-form="北京"]')
    assert word.get_attribute("aria-pressed") == "true"
    assert "pins=3-5" in page.hash()
    # The pinned word can be extended from its edge.
    page.click('.gap[data-offset="3"]')
    assert page.words() == ["我", "喜欢北京", "。"]
    page.pin("喜欢北京")
    assert page.words() == EASY_WORDS
    assert not page.all(".figure .pinned")


def test_fix_a_relation_a_tag_and_a_head_in_the_editor(page: Page, parser: zishu.Parser) -> None:
    page.parse(EASY)
    assert not page.all(".editor")
    page.click('.word[data-form="北京"] .char')
    assert page.one(".editor strong").text == "北京"
    page.choose("relation", "nmod")
    assert ["北京", "nmod", True] in page.arcs()
    assert "arcs=3-1-nmod" in page.hash()
    assert sorted(page.texts(".word.pinned", "node.dataset.form")) == ["北京", "喜欢"]
    # The editor stays, and so does the focus.
    assert page.browser.execute_script("return document.activeElement.dataset.edit") == "relation"
    page.choose("tag", "VERB")
    assert page.texts('.word[data-form="北京"] .tag') == ["VERB"]
    assert "tags=3-VERB" in page.hash()
    page.choose("head", "0")
    expected = parser(EASY, pins=[(0, 1), (1, 3), (3, 5)], arcs=[(3, 0)])[0]
    assert page.texts(".arc .relation") == [word.deprel for word in expected.words]
    assert "arcs=3-0&" in page.hash()  # another head has another relation
    page.choose("head", "root")
    assert ["北京", "root", True] in page.arcs()
    # A link shows the same.
    before = page.arcs()
    page.open(page.hash())
    page.settle()
    assert page.arcs() == before
    assert page.texts('.word[data-form="北京"] .tag') == ["VERB"]
    # Setting a value back to automatic restores the first analysis; unpinning a word releases all its values.
    page.click('.word[data-form="北京"] .char')
    page.choose("head", "")
    assert not page.all(".arc.fixed")
    assert "arcs" not in page.hash()
    page.click('.editor [data-edit="pin"]')
    assert page.texts('.word[data-form="北京"] .tag') == ["PROPN"]
    assert "tags" not in page.hash()


def test_drag_a_word_onto_its_head_or_to_the_root(page: Page) -> None:
    page.parse(EASY)
    page.drag("北京", "我")
    assert "arcs=3-0" in page.hash()
    assert "北京" in [dependent for dependent, _, fixed in page.arcs() if fixed]
    assert not page.all(".editor")  # a drag is no click
    # The newest wins: this would make a cycle.
    page.drag("我", "北京")
    assert "arcs=0-3" in page.hash()
    page.drag("我", None)
    assert "arcs=0-root" in page.hash()
    assert ["我", "root", True] in page.arcs()
    page.click("#undo")
    page.click("#undo")
    assert "arcs=3-0" in page.hash()
    page.click("#undo")
    assert not page.all(".arc.fixed")


def test_click_an_arc_to_edit_its_relation_and_a_tag_to_edit_that(page: Page) -> None:
    page.parse(EASY)
    page.click('.arc[data-dependent="北京"] .relation')
    assert page.one(".editor strong").text == "北京"
    assert page.browser.execute_script("return document.activeElement.dataset.edit") == "relation"
    page.click('.word[data-form="我"] .tag')
    assert page.one(".editor strong").text == "我"
    assert page.browser.execute_script("return document.activeElement.dataset.edit") == "tag"
    assert "automatic: PRON" in page.one('.editor [data-edit="tag"]').text
    page.keys(Keys.ESCAPE)
    assert not page.all(".editor")
    assert page.browser.execute_script("return document.activeElement.dataset.form") == "我"


def test_what_is_fixed_survives_edits_of_the_text_elsewhere(page: Page) -> None:
    page.parse(EASY)
    page.pin("北京")
    page.click('.word[data-form="我"] .char')
    page.choose("tag", "NOUN")
    page.click(".editor .close")
    text = page.one("#text")
    text.send_keys(Keys.CONTROL, Keys.HOME)
    text.send_keys(Keys.NULL, "昨天")
    text.send_keys(Keys.CONTROL, Keys.END)
    text.send_keys(Keys.NULL, "他来了。")
    page.click("#ask .main")
    assert "pins=2-3,5-7" in page.hash().replace("%2C", ",")
    assert "tags=2-NOUN" in page.hash()
    assert page.texts(".word.pinned", "node.dataset.form") == ["我", "北京"]
    # A word whose characters changed is unpinned.
    page.parse("昨天我喜欢南京。他来了。")
    assert page.texts(".word.pinned", "node.dataset.form") == ["我"]


def test_latin_words_and_numbers_have_no_tree_inside(page: Page) -> None:
    page.parse("他在1984年买了iPhone。")
    inside = page.texts(".word:has(.inner-line)", "node.dataset.form")
    assert not [form for form in inside if form.isascii()]


# --- the text and how it is read ---


def test_a_lexicon_keeps_words_whole(page: Page) -> None:
    page.parse(EASY)
    page.click("#show-lexicon")
    page.one("#lexicon").send_keys("喜欢北京，我")
    page.click("#ask .main")
    assert page.words() == ["我", "喜欢北京", "。"]
    page.click('.gap[data-offset="2"]')
    assert "喜" in page.words()
    page.open(page.hash())
    page.settle()
    assert page.one("#lexicon").get_attribute("value") == "喜欢北京\n我"


def test_a_lexicon_may_be_only_a_hint(page: Page) -> None:
    page.parse("研究生命起源。")
    cut = page.words()
    page.click("#show-lexicon")
    page.one("#lexicon").send_keys("研究生")
    page.click("#ask .main")
    assert page.words()[0] == "研究生"
    assert "without the lexicon" in page.one(".without-lexicon").text
    page.click("#soft")
    page.settle()
    assert page.words() == cut
    page.open(page.hash())
    page.settle()
    assert page.one("#soft").is_selected()
    assert page.words() == cut


def test_line_breaks_end_sentences_unless_the_text_is_wrapped(page: Page) -> None:
    page.parse(EASY)
    assert not page.one("#lines").is_displayed()
    page.parse("我喜欢\n北京")
    assert [page.words(1), page.words(2)] == [["我", "喜欢"], ["北京"]]
    page.one("#text").send_keys("。")
    page.click('#lines option[value="wrapped"]')
    assert page.words() == EASY_WORDS
    page.click('.gap[data-offset="5"]')  # one sentence is parsed again
    assert page.words() == ["我", "喜欢", "北", "京", "。"]
    page.open(page.hash())
    page.settle()
    assert page.one("#lines").get_attribute("value") == "wrapped"
    assert page.words() == ["我", "喜欢", "北", "京", "。"]


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "utf-16"])
def test_open_a_file(page: Page, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes((EASY + "他来了。").encode(encoding))
    page.one("#file").send_keys(str(path))
    page.until(lambda: len(page.all(".card")) == 2)
    assert page.words() == EASY_WORDS
    assert page.one("#text").get_attribute("value") == EASY + "他来了。"


def test_a_file_that_is_no_text_is_told(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "picture.txt"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\xff\xff")
    page.one("#file").send_keys(str(path))
    page.until(lambda: page.one("#status").text == "This is not a text file.")


# --- wide figures ---

WIDE = "上海计划在明年大力发展金融业，北京也计划在明年大力发展金融业，广州也是这样。"


def test_wide_figures_shrink_to_fit_and_keep_their_labels_in_view(page: Page) -> None:
    page.parse(WIDE)
    page.click("#rows")
    width = "return document.querySelector('.figure').getBoundingClientRect().width"
    first = page.browser.execute_script(width)
    page.click("#fit")
    room = page.browser.execute_script("return document.querySelector('.scroll').clientWidth")
    assert page.browser.execute_script(width) <= room < first
    page.click("#fit")
    page.click("#larger")
    assert page.browser.execute_script(width) > first
    page.click("#smaller")
    page.click("#larger")
    # Every arc that is sufficiently visible shows its label there, however the figure is scrolled.
    hidden = """
        const box = document.querySelector('.scroll').getBoundingClientRect();
        return Array.from(document.querySelectorAll('.arc')).filter((arc) => {
            const line = arc.querySelector('.line').getBoundingClientRect();
            const label = arc.querySelector('.ground').getBoundingClientRect();
            const seen = Math.min(line.right, box.right) - Math.max(line.left, box.left);
            return seen > label.width + 2 && (label.left < box.left - 1 || label.right > box.right + 1);
        }).length;
    """
    for left in (0, 150, 300, 600):
        page.browser.execute_async_script(
            "const [left, done] = arguments; document.querySelector('.scroll').scrollLeft = left;"
            "requestAnimationFrame(() => requestAnimationFrame(done));",
            left,
        )
        assert page.browser.execute_script(hidden) == 0


def test_long_sentences_have_several_rows(page: Page) -> None:
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        page.parse(WIDE)
        boxes = """
            const view = document.querySelector('.scroll').getBoundingClientRect();
            return Array.from(document.querySelectorAll(arguments[0]), (node) => {
                const {left, right, top, bottom} = node.getBoundingClientRect();
                return [left - view.left, right - view.left, top - view.top, bottom - view.top, view.width];
            });
        """
        words = page.browser.execute_script(boxes, ".figure .word .box")
        assert len({round(top) for _, _, top, _, _ in words}) > 3  # rows
        labels = page.browser.execute_script(boxes, ".figure .arc .ground")
        assert len(labels) == len(words)
        for left, right, _, _, width in [*words, *labels]:
            assert left >= -1
            assert right <= width + 1
        for k, one in enumerate(words):
            for other in words[k + 1 :]:
                apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
                assert apart
        # Words and gaps of any row can be used, also from one row to another.
        page.drag("广州", "上海")
        assert ["广州", True] in page.texts(
            ".arc", "[node.dataset.dependent, node.classList.contains('fixed')]"
        )
        page.click("#undo")
        last = WIDE.index("这样") + 1
        page.click(f'.gap[data-offset="{last}"]')
        assert "样" in page.words()
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_doubt_of_a_long_sentence_is_told_by_its_words(page: Page) -> None:
    page.parse("，".join(["他说的确实在理就是结婚的和尚未结婚的"] * 6))
    assert "words in doubt" in page.one(".ranks").text
    assert "0.01" not in page.one(".ranks").text


def test_hints_do_not_cover_what_they_explain(page: Page) -> None:
    page.parse(EASY)
    covers = """
        const box = (node) => node.getBoundingClientRect();
        const tip = box(document.getElementById('tip'));
        return Array.from(document.querySelectorAll('.figure .word, .figure .arc')).filter((node) => {
            const {left, right, top, bottom} = box(node);
            return left < tip.right && tip.left < right && top < tip.bottom && tip.top < bottom;
        }).length;
    """
    for part in (".word .char", ".word .tag", '.arc[data-dependent="。"] .relation', ".gap .hit"):
        ActionChains(page.browser).move_to_element(page.one(part)).perform()
        assert page.one("#tip").is_displayed()
        assert page.browser.execute_script(covers) == 0


# --- corrected sentences ---


def test_corrected_sentences_are_listed_kept_and_saved(page: Page, tmp_path: Path) -> None:
    page.parse("他来了。" + EASY)
    assert not page.one("#corrected").is_displayed()
    page.click('.gap[data-offset="8"]')
    page.click(".card:nth-child(2) .keep")
    assert page.texts(".keep") == ["Mark as corrected", "✓ Corrected"]
    page.click(".card:nth-child(1) .keep")
    page.click('.gap[data-offset="8"]')
    assert page.texts(".keep") == ["✓ Corrected", "Update corrected"]
    page.parse("下雨了。")
    page.browser.refresh()
    page.settle()
    assert page.texts("#corrected-list span") == ["我 喜欢 北 京 。", "他 来 了 。"]
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    page.click("#corrected-download")
    page.until(lambda: [p for p in tmp_path.iterdir() if p.suffix == ".conllu"])
    blocks = list(read_conllu(StringIO((tmp_path / "zishu-corrected.conllu").read_text("utf-8"))))
    assert [block.tree().forms for block in blocks] == [
        ("我", "喜欢", "北", "京", "。"),
        ("他", "来", "了", "。"),
    ]
    assert [block.sent_id for block in blocks] == ["1", "2"]
    page.click("#corrected-list li button")
    assert page.texts("#corrected-list span") == ["他 来 了 。"]
    page.click("#corrected-clear")
    assert not page.one("#corrected").is_displayed()


def test_a_walk_through_suggested_sentences(page: Page, tmp_path: Path, parser: zishu.Parser) -> None:
    texts = [EASY, "他来了。", "下雨了。"]
    path = tmp_path / "suggested.jsonl"
    suggested = [sentence for text in texts for sentence in parser(text)]
    path.write_text("".join(f"{sentence.to_json()}\n" for sentence in suggested), encoding="utf-8")
    assert not page.one("#walk").is_displayed()
    page.one("#file").send_keys(str(path))
    page.until(lambda: page.one("#text").get_attribute("value") == EASY)  # the browser reads the file first
    page.settle()
    assert page.one("#walk-title").text == "Suggested sentence 1 of 3 · 0 corrected"
    assert not page.one("#walk-back").is_enabled()
    assert not page.one("#walk-fixed").is_enabled()  # nothing is fixed yet

    # Only what was fixed: a word boundary between 北 and 京.
    page.click('.gap[data-offset="4"]')
    page.click("#walk-fixed")
    page.settle()
    assert page.one("#text").get_attribute("value") == "他来了。"
    assert page.one("#walk-title").text == "Suggested sentence 2 of 3 · 1 corrected"
    page.click("#walk-skip")
    page.settle()
    page.click("#walk-right")
    page.settle()
    assert page.one("#walk-title").text == "Suggested sentence 3 of 3 · 2 corrected"

    # On another day, the walk continues where it stopped, and the file can be opened again.
    page.open()
    page.settle()
    assert page.one("#text").get_attribute("value") == "下雨了。"
    page.one("#file").send_keys(str(path))
    page.until(lambda: page.one("#walk-title").text == "Suggested sentence 2 of 3 · 2 corrected")
    page.settle()

    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    page.click("#corrected-download")
    saved = tmp_path / "zishu-corrected.jsonl"
    page.until(saved.exists)
    (known, full), _ = read_annotations(saved)
    assert known.gaps[1:6].tolist() == [FREE, FREE, FREE, BREAK, FREE]
    assert not known.words
    assert full.is_full
    assert "".join(full.chars) == "下雨了。"
    page.click("#walk-end")
    assert not page.one("#walk").is_displayed()
    assert len(page.texts("#corrected-list span")) == 2


def test_offsets_count_code_points(page: Page) -> None:
    text = "𠮷👨‍👩‍👧 我喜欢北京。"
    page.parse(text)
    start = text.index("京")
    assert text[start - 1 : start + 1] in page.words()
    page.click(f'.gap[data-offset="{start}"]')
    assert page.words()[-3:] == ["北", "京", "。"]
    assert f"breaks={start}" in page.hash()
    # White space always separates words, so there is nothing to click there, nor inside a character.
    offsets = [int(offset) for offset in page.texts(".gap", "node.dataset.offset")]
    assert not {2, 3, 4, 5, 6, 7} & set(offsets)


# --- the best few analyses ---


def test_step_through_the_analyses(page: Page, parser: zishu.Parser) -> None:
    text = "乒乓球拍卖完了。"
    page.parse(text)
    (ranked,) = parser.k_best(text, 5)
    assert len(page.all(".ranks input")) == len(ranked) > 1
    labels = page.texts(".ranks label span")
    assert labels[0] == f"{100 * ranked[0].prob:.1f} %"
    for rank in (1, 2):
        page.one(f".ranks label:nth-of-type({rank + 1})").click()
        page.settle()
        assert page.words() == [word.form for word in ranked[rank].words]
        assert page.texts(".arc .relation") == [word.deprel for word in ranked[rank].words]
        assert f"ranks=0-{rank}" in page.hash()
        assert page.all(".figure .changed")
    # The arrow keys do the same, and the focus stays.
    page.keys(Keys.ARROW_LEFT)
    assert page.words() == [word.form for word in ranked[1].words]
    page.keys(Keys.ARROW_LEFT)
    assert page.words() == [word.form for word in ranked[0].words]
    assert "ranks" not in page.hash()


# --- links ---


def test_a_link_shows_the_same(page: Page) -> None:
    page.parse(EASY + "乒乓球拍卖完了。")
    page.click('.gap[data-offset="4"]')
    page.pin("喜欢")
    page.one(".card:nth-child(2) label:nth-of-type(2)").click()
    page.settle()

    def seen() -> list[Any]:
        return [
            page.one("#text").get_attribute("value"),
            page.texts("#sentences .word", "[node.dataset.form, node.getAttribute('class')]"),
            page.texts("#sentences .arc", "[node.textContent, node.getAttribute('class')]"),
            page.texts("#sentences .gap", "node.getAttribute('class')"),
            page.texts(".ranks input", "node.checked"),
            page.texts(".changes"),
        ]

    before = seen()
    assert "京" in page.words()
    page.open(page.hash())
    page.settle()
    assert seen() == before


def test_the_back_button_goes_to_the_text_before(page: Page) -> None:
    page.parse(EASY)
    page.parse("他来了。")
    assert "".join(page.words()) == "他来了。"
    page.browser.back()
    page.settle()
    assert page.words() == EASY_WORDS


def test_a_link_that_contradicts_itself_is_explained(page: Page) -> None:
    page.open("#text=" + EASY + "&pins=0-3,1-5,x-y,7")
    page.settle()
    assert "cannot parse the text with these corrections" in page.one("#problem").text
    assert "overlap" in page.one("#problem-detail").text
    assert page.words() == EASY_WORDS


# --- copying and downloading ---


def as_sent(sentence: zishu.Sentence) -> zishu.Sentence:
    """Return a sentence as the page gets it: with rounded probabilities."""
    return from_json(sentence.to_json())


@pytest.fixture
def download(page: Page, tmp_path: Path) -> Callable[[str, str], bytes]:
    """Return a function that downloads a card (or the whole text) in a format."""
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)

    def fetch(where: str, kind: str) -> bytes:
        page.one(f"{where} select option[value={kind}]").click()
        page.one(f"{where} .download").click()
        page.until(lambda: [p for p in tmp_path.iterdir() if p.suffix not in (".crdownload", ".tmp")])
        (path,) = tmp_path.iterdir()
        data = path.read_bytes()
        path.unlink()
        return data

    return fetch


def test_download_as_conllu_and_json(page: Page, parser: zishu.Parser, download: Any) -> None:
    text = "我喜欢  北京。\n他来了。\n"
    page.parse(text)
    document = parser(text)
    ranked = parser.k_best(text, 5)
    best = zishu.Document(text, tuple(as_sent(analyses[0]) for analyses in ranked))
    assert len(best) == 2
    assert download("#whole", "conllu").decode() == best.to_conllu()
    lines = download("#whole", "json").decode().splitlines()
    assert [from_json(line).tree for line in lines] == [sentence.tree for sentence in document]
    # A card gives the analysis in view, whatever its rank.
    page.one(".card:nth-child(2) label:nth-of-type(2)").click()
    page.settle()
    (line,) = download(".card:nth-child(2)", "json").decode().splitlines()
    assert from_json(line).tree == ranked[1][1].tree
    assert json.loads(line)["sent_id"] == "2"
    (block,) = read_conllu(StringIO(download(".card:nth-child(2)", "conllu").decode()))
    tree = from_json(line).tree
    if set(tree.feats or ()) == {"_"}:  # CoNLL-U does not tell empty features from a column that is not there
        tree = replace(tree, feats=None)
    assert block.tree() == tree


def test_a_long_text_is_converted_in_parts(page: Page, download: Any) -> None:
    text = "我们在图书馆看书。" * 200
    page.parse(text)
    numbers = [block.sent_id for block in read_conllu(StringIO(download("#whole", "conllu").decode()))]
    assert numbers == [str(number) for number in range(1, 201)]
    calls = (
        "return performance.getEntriesByType('resource').filter(({name}) => name.endsWith('convert')).length"
    )
    assert page.browser.execute_script(calls) > 1


def test_download_as_pictures(page: Page, parser: zishu.Parser, download: Any) -> None:
    page.parse(EASY)
    page.click('.gap[data-offset="4"]')
    page.click("#theme")
    page.click("#theme")  # dark; copies are light nevertheless
    assert page.browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    svg = download(".card", "svg").decode()
    ((best, *_),) = parser.k_best(EASY, 5, breaks=[4])
    assert svg == as_sent(best).to_svg()
    root = ET.fromstring(svg)
    data = download(".card", "png")
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(data[i : i + 4]) for i in (16, 20))
    assert width == pytest.approx(2 * float(root.get("width")), abs=2)
    assert height == pytest.approx(2 * float(root.get("height")), abs=2)
    assert len(data) > 3_000  # there is something on it
    assert page.browser.execute_script("return document.documentElement.dataset.theme") == "dark"


def test_an_export_that_fails_is_told(page: Page) -> None:
    page.parse(EASY)
    page.browser.execute_cdp_cmd("Network.enable", {})
    speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **speed})
    try:
        page.click(".card .copy")
        page.until(lambda: "cannot be reached" in page.one("#problem-words").text)
    finally:
        page.browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **speed})
    page.browser.get_log("browser")  # the browser itself notes the failed request as an error


def test_copy(page: Page) -> None:
    page.parse(EASY)
    page.browser.set_permissions("clipboard-read", "granted")
    page.browser.set_permissions("clipboard-write", "granted")
    read = "navigator.clipboard.readText().then(arguments[0])"
    page.click(".card .copy")
    page.until(lambda: page.one("#status").text == "Copied")
    assert page.browser.execute_async_script(read).startswith("# sent_id = 1\n# text = " + EASY)
    page.click("#link")
    page.until(lambda: page.browser.execute_async_script(read) == page.browser.current_url)


# --- problems ---


def test_errors_are_told_in_words(page: Page) -> None:
    page.parse(EASY)
    page.parse("字" * (LIMIT + 1))
    assert page.one("#problem").get_attribute("role") == "alert"
    assert "too long" in page.one("#problem-words").text
    assert str(LIMIT) in page.one("#problem-detail").text
    assert page.words() == EASY_WORDS  # the earlier result stays
    page.click("#language")
    page.browser.execute_cdp_cmd("Network.enable", {})
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **offline})
    try:
        page.parse("他来了。")
        assert "连不上服务" in page.one("#problem-words").text
        page.click('.gap[data-offset="4"]')
        assert page.words() == EASY_WORDS
    finally:
        page.browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **offline})
    page.click('.gap[data-offset="4"]')
    assert "京" in page.words()
    assert not page.one("#problem").is_displayed()


def test_asks_for_a_token(page: Page, serve: Callable[..., str]) -> None:
    page.address = serve(tokens=["open-sesame"])
    page.open()
    page.parse(EASY)
    assert not page.all(".card")
    page.one("#token-value").send_keys("wrong", Keys.ENTER)
    page.settle()
    assert "token is wrong" in page.one("#problem-words").text
    page.one("#token-value").send_keys("open-sesame", Keys.ENTER)
    page.settle()
    assert page.words() == EASY_WORDS
    assert not page.one("#token").is_displayed()
    page.browser.refresh()
    page.settle()
    assert page.words() == EASY_WORDS


# --- everybody can use it ---


def test_by_keyboard_alone(page: Page) -> None:
    page.one("#text").send_keys(EASY, Keys.CONTROL, Keys.ENTER)
    page.settle()
    in_figure = "return document.activeElement.closest('.figure') !== null"
    for _ in range(20):
        page.keys(Keys.TAB)
        if page.browser.execute_script(in_figure):
            break
    focused = "return document.activeElement.dataset.offset"
    label = "return document.activeElement.getAttribute('aria-label')"
    # 我, gap, 喜欢, gap inside, gap, 北京, gap inside
    page.keys(*[Keys.ARROW_RIGHT] * 6)
    assert page.browser.execute_script(focused) == "4"
    assert "Between 北 and 京" in page.browser.execute_script(label)
    assert page.one("#tip").is_displayed()
    page.keys(Keys.ENTER)
    assert page.words() == ["我", "喜欢", "北", "京", "。"]
    assert page.browser.execute_script(focused) == "4"  # the focus is where it was
    page.keys(Keys.SPACE)
    assert page.words() == EASY_WORDS
    ActionChains(page.browser).key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform()
    page.settle()
    assert page.words() == ["我", "喜欢", "北", "京", "。"]
    page.keys(Keys.HOME, Keys.ENTER)
    assert page.one(".editor strong").text == "我"
    page.keys(Keys.ENTER)
    assert page.texts(".word.pinned", "node.dataset.form") == ["我"]
    # From the button to the menus and back to the word.
    page.keys(Keys.TAB)
    assert page.browser.execute_script("return document.activeElement.dataset.edit") == "tag"
    page.keys(Keys.ESCAPE)
    assert page.browser.execute_script("return document.activeElement.dataset.form") == "我"
    # One Tab leaves the figure: its parts are reached with the arrows.
    page.keys(Keys.TAB)
    assert not page.browser.execute_script(in_figure)


def test_two_languages_and_two_themes(page: Page) -> None:
    page.parse(EASY)
    assert page.one("#ask .main").text == "Parse"
    page.click("#language")
    assert page.one("#ask .main").text == "分析"
    assert page.browser.execute_script("return document.documentElement.lang") == "zh-Hans"
    assert "喜欢" in page.one('.word[data-form="我"]').get_attribute("aria-label")
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.click("#theme")
    light = page.browser.execute_script(ground)
    page.click("#theme")
    assert page.browser.execute_script(ground) != light
    page.browser.refresh()
    page.settle()
    assert page.one("#ask .main").text == "分析"
    assert page.browser.execute_script(ground) != light


def test_on_a_phone_only_the_figure_scrolls(page: Page) -> None:
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        page.parse("上海计划在明年大力发展金融业，北京也是这样。")
        page.click("#rows")
        width, figure = page.browser.execute_script(
            "return [document.documentElement.scrollWidth, document.querySelector('.figure').clientWidth]"
        )
        assert width == 390 < figure
        page.click('.gap[data-offset="1"]')
        assert "上" in page.words()
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_needs_nothing_from_elsewhere(page: Page, address: str) -> None:
    page.parse(EASY)
    loaded = page.browser.execute_script(
        "return performance.getEntriesByType('resource').map(({name}) => name)"
    )
    assert len(loaded) > 5
    assert all(name.startswith(address) for name in loaded)
    with urllib.request.urlopen(address) as answer:
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert b"style=" not in answer.read()
