"""The page itself: a box for sentences, their words as buttons, and what the model makes of them."""

import os
from typing import Any

from .page_models import MOST_CHARACTERS, MOST_SENTENCES, PageError, PageModels
from .rendering import STYLE, error_html, surprisal_html, view_html, words_html

EXAMPLES = [
    "The bank raised its interest rates .\nWe sat on the bank of the river .",
    "She will present the prize .\nHe opened the present .\nAt present nobody knows .",
    "They did a play at school .\nThe children play in the garden .",
]
# One listener for all words: the buttons come and go.
CHOOSE = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-place]');
    if (button) trigger('select', {place: button.dataset.place});
});
"""
# Visitors who compute at one time; one model takes them one after the other.
AT_ONCE = 8


def build_page(models: PageModels) -> Any:
    """The page as gradio Blocks. Nothing is fetched from elsewhere, and nothing is sent anywhere.

    Example:

    ```python
    >>> from elmo_hf.page import PageModels, build_page
    >>> page = build_page(PageModels(["english"]))  # doctest: +SKIP
    >>> page.launch()  # doctest: +SKIP

    ```
    """
    gradio = _gradio()

    def read(name: str, text: str) -> tuple[Any, ...]:
        try:
            model = models.get(name)
            split = model.split(text or "")
            return split, words_html(split), surprisal_html(model.surprisal(split)), ""
        except PageError as error:
            return [], error_html(str(error)), "", ""

    def choose(name: str, split: list[list[str]], event: Any) -> tuple[str, str]:
        try:
            number, place = _place(event)
            view = models.get(name).look_at(split, number, place)
            return words_html(split, (number, place)), view_html(split, number, place, view)
        except PageError as error:
            return (words_html(split) if split else ""), error_html(str(error))

    choose.__annotations__["event"] = gradio.EventData
    with gradio.Blocks(title="What ELMo sees", analytics_enabled=False) as page:
        split = gradio.State([])
        gradio.Markdown("# What ELMo sees\nWrite a few sentences, press Read, then choose a word.")
        text = gradio.Textbox(
            EXAMPLES[0],
            label=f"Sentences, one a line (up to {MOST_SENTENCES})",
            lines=3,
            max_lines=8,
            max_length=MOST_CHARACTERS + 1,
            elem_id="sentences",
        )
        name = gradio.Dropdown(
            models.names,
            value=models.names[0],
            label="Model" + (": english, a folder, or a repository of the Hub" if models.any_model else ""),
            allow_custom_value=models.any_model,
            elem_id="model",
        )
        button = gradio.Button("Read", variant="primary", elem_id="read")
        gradio.Examples([[one] for one in EXAMPLES], [text], label="Examples", cache_examples=False)
        words = gradio.HTML("", js_on_load=CHOOSE, elem_id="words")
        bits = gradio.HTML("", elem_id="surprise")
        view = gradio.HTML("", elem_id="view")
        shown = [split, words, bits, view]
        for start in (button.click, page.load):
            start(read, [name, text], shown, concurrency_limit=AT_ONCE, api_name=False)
        words.select(choose, [name, split], [words, view], concurrency_limit=AT_ONCE, api_name=False)
    return page


def launch_page(models: PageModels, host: str = "127.0.0.1", port: int | None = None, wait: bool = True) -> Any:
    """Serves the page; `wait=False` returns once it answers."""
    gradio = _gradio()
    page = build_page(models)
    page.launch(
        server_name=host,
        server_port=port,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        css=STYLE,
        theme=gradio.themes.Base(font=["system-ui", "sans-serif"], font_mono=["monospace"]),
        footer_links=[],
        ssr_mode=False,
        pwa=False,
        enable_monitoring=False,
    )
    if wait:
        page.block_thread()
    return page


def _gradio() -> Any:
    # Read when gradio is imported: no counting of visits, no question for a newer version.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    try:
        import gradio
    except ImportError as error:
        raise ImportError("The page takes gradio, which is not installed: pip install 'elmo-hf[page]'.") from error
    return gradio


def _place(event: Any) -> tuple[int, int]:
    """What the browser says was clicked; it may say anything."""
    given = (getattr(event, "_data", None) or {}).get("place")
    number, colon, place = str(given).partition(":")
    if not (colon and number.isdecimal() and place.isdecimal() and len(number) + len(place) < 9):
        raise PageError("That is no word. Press Read and choose again.")
    return int(number), int(place)
