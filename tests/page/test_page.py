"""The page: what it computes and refuses, and a real browser that loads, types, clicks and reads."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import requests
from small_models import ENTITIES, small

from elmo_hf import ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.analysis import word_similarity
from elmo_hf.page import PageError, PageModel, PageModels
from elmo_hf.page.app import _place
from elmo_hf.page.rendering import labels_html, view_html, words_html

ATTACK = '<img src=x onerror="window.hacked=1"> "><script>window.hacked=1</script> \' ${alert(1)} {{value}}'
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@pytest.fixture(scope="module")
def folder(lm_folder):
    return str(lm_folder)


@pytest.fixture(scope="module")
def model(folder):
    return PageModel(folder)


def test_the_numbers_of_a_word_are_those_of_the_analyses(model):
    split = model.split("the cat sat on a mat\n\n my cat 😀 purrs ")
    view = model.look_at(split, 0, 1)
    other, words, values = view.cosines[0]
    assert (other, words) == (1, split[1])
    expected = word_similarity(model.reader, split, positions=[1, 1]).cosines[:, 0, 1]
    assert np.allclose(values[:, 1], expected, atol=1e-6)
    assert len(view.neighbours) == 8 == len(view.context_free) == len(view.substitutes)
    assert view.substitutes == model.scorer.substitutes([split[0]], [1], 8, is_split_into_words=True)[0]


def test_a_model_without_a_softmax_shows_what_it_can(folder, tmp_path, tokenizer):
    ElmoModel.from_pretrained(folder).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    plain = PageModel(str(tmp_path))
    split = plain.split("one sentence")
    assert plain.surprisal(split) is None and plain.look_at(split, 0, 0).substitutes is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "There is no sentence yet"),
        ("a " * 1001, "has 2,002 characters. Expected up to 2,000"),
        ("a\n" * 6, "There are 6 sentences. Expected up to 5"),
        ("a " * 61, "has 61 words. Expected up to 60"),
    ],
)
def test_too_much_is_refused(model, text, complaint):
    with pytest.raises(PageError, match=complaint):
        model.split(text)


def test_only_models_that_are_offered_are_loaded(folder, tmp_path):
    closed, open_ = PageModels([folder]), PageModels([folder], any_model=True)
    with pytest.raises(PageError, match="is not offered here"):
        closed.get(str(tmp_path))
    with pytest.raises(PageError, match="cannot be loaded"):
        open_.get(str(tmp_path))
    assert closed.get(folder) is closed.get(folder)


@pytest.mark.parametrize(
    "sent", [None, {}, {"place": "x"}, {"place": "1:-1"}, {"place": ["0:0"]}, {"place": "9" * 99}]
)
def test_a_browser_may_send_anything(sent):
    with pytest.raises(PageError):
        _place(SimpleNamespace(_data=sent))


def test_words_are_escaped(model):
    split = model.split(ATTACK)
    shown = words_html(split) + view_html(split, 0, 0, model.look_at(split, 0, 0))
    assert "<img" not in shown and "<script" not in shown and "&lt;img" in shown


def test_tokenised_sentences_are_not_split_again(model):
    assert model.split("It 's late , they said .\nThe dog 's tail .")[0] == [
        "It",
        "'s",
        "late",
        ",",
        "they",
        "said",
        ".",
    ]


def test_labels_of_a_tagger(tagger):
    models = PageModels(["english"], taggers=[tagger])
    (annotation,) = models.annotate(tagger, "Ann <b>Lee</b> came .")
    shown = labels_html([annotation])
    assert "<b>" not in shown and "&lt;b&gt;" in shown
    assert len(next(iter(annotation.tags.values()))) == len(annotation.words)
    with pytest.raises(PageError, match="The tagger 'other' is not offered here"):
        models.annotate("other", "Ann")
    with pytest.raises(PageError, match="There are 6 sentences"):
        models.annotate(tagger, "a\n" * 6)


# -- in a browser


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger")
    small(ElmoForTokenClassification, labels=ENTITIES).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def address(folder, tagger):
    pytest.importorskip("gradio", reason="the page takes gradio, which is not installed: make test-page")
    from elmo_hf.page import launch_page

    page = launch_page(PageModels([folder], any_model=True, taggers=[tagger]), wait=False)
    yield page.local_url
    page.close(verbose=False)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-page")
    if CHROMIUM is None:
        pytest.skip("no Chromium was found: install the package chromium, or name the program in CHROMIUM")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=60_000)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, address):
    """Opens the page as a new visitor; at the end no request has left the machine and no script has failed."""
    visitors = []

    def open_page(**settings):
        page = browser.new_page(**settings)
        page.asked, page.failed = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.failed.append(str(error)))
        page.set_default_timeout(60_000)
        page.goto(address)
        page.wait_for_selector("#words button")
        visitors.append(page)
        return page

    yield open_page
    for page in visitors:
        assert [url for url in page.asked if not url.startswith((address, "data:", "blob:"))] == []
        assert page.failed == [] and page.evaluate("window.hacked") is None
        page.close()


def read(page, text):
    page.fill("#sentences textarea", text)
    page.click("#read")


def test_load_type_click_and_see(visit):
    page = visit(viewport={"width": 800, "height": 900})
    assert " ".join(page.locator("#words button").all_inner_texts()) == (
        "The bank raised its interest rates. We sat on the bank of the river."
    )
    read(page, "one cat\nanother cat")
    page.wait_for_selector("#words button:has-text('another')")
    page.click("#words button[data-place='1:1']")
    page.wait_for_selector("#view h2:has-text('“cat” in sentence 2')")
    heads = " ".join(page.locator("#view h2, #view h3").all_inner_texts())
    for part in (
        "Cosines with words of sentence 1",
        "All words of sentence 2",
        "in context",
        "without context",
        "would fit here",
    ):
        assert part in heads
    assert page.locator("#words button[aria-pressed=true]").all_inner_texts() == ["cat"]
    assert page.locator("#surprise span[title*=bits]").count() == 4
    assert page.locator("#view table.heat tbody tr").count() == 2
    if folder := os.environ.get("PAGE_SCREENSHOTS"):
        page.screenshot(path=os.path.join(folder, "page.png"), full_page=True)


def test_by_keyboard_on_a_phone(visit):
    page = visit(viewport={"width": 360, "height": 700})
    page.focus("#words button")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#view h2:has-text('“bank” in sentence 1')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.get_by_label("Sentences, one per line (up to 5 sentences and 2,000 characters)").count() == 1


def test_what_is_typed_is_text_and_what_is_wrong_is_said(visit, tmp_path):
    page = visit()
    read(page, f"{ATTACK}\n😀 👩‍👩‍👧 𝔘𝔫𝔦 {'x' * 500}")
    page.wait_for_selector("#words button:has-text('😀')")
    page.click("#words button >> nth=0")
    page.wait_for_selector("#view table")
    assert page.locator("#words img, #view img, #surprise img, #words script").count() == 0
    read(page, "a\n" * 6)
    assert "There are 6 sentences" in page.wait_for_selector("#words [role=alert]").inner_text()
    read(page, "well again")
    page.wait_for_selector("#words button:has-text('again')")


def test_two_visitors_do_not_mix(visit):
    first, second = visit(), visit()
    read(first, "only mine here")
    read(second, "quite another one")
    first.wait_for_selector("#words button:has-text('mine')")
    second.wait_for_selector("#words button:has-text('quite')")
    first.click("#words button[data-place='0:1']")
    second.click("#words button[data-place='0:0']")
    first.wait_for_selector("#view h2:has-text('“mine”')")
    second.wait_for_selector("#view h2:has-text('“quite”')")


def test_many_at_one_time_get_their_own(model):
    texts = [f"word{number} stands in text{number}" for number in range(12)]

    def ask(text):
        split = model.split(text)
        return split[0], model.look_at(split, 0, 0), model.surprisal(split)[0].words

    with ThreadPoolExecutor(6) as pool:
        for text, (words, view, surprised) in zip(texts, pool.map(ask, texts), strict=True):
            assert words == text.split() == surprised == view.heat[1]


def test_results_go_when_the_text_is_edited(visit):
    page = visit()
    page.locator("#sentences textarea").press_sequentially("x")
    page.wait_for_selector("#words button", state="detached")
    assert page.locator("#surprise span[title*=bits]").count() == 0


def test_labels_tab(visit):
    page = visit(viewport={"width": 390, "height": 800})
    page.get_by_role("tab", name="Labels").click()
    page.click("#label")
    page.wait_for_selector("#labels .card")
    assert page.locator("#labels p").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_uploads_and_long_requests_are_refused(address):
    pytest.importorskip("gradio")
    upload = requests.post(f"{address}gradio_api/upload", files={"files": b"x" * 1000}, timeout=60)
    assert upload.status_code == 404 and "takes no files" in upload.text
    join = f"{address}gradio_api/queue/join"
    assert requests.post(join, data=b"x" * 200_000, timeout=60).status_code == 413
    pieces = (b"x" * 50_000 for _ in range(10))  # without a length
    assert requests.post(join, data=pieces, timeout=60).status_code == 413
    assert requests.post(join, json={}, timeout=60).status_code == 422
