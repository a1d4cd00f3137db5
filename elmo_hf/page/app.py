"""The page itself: a tab for the words of sentences and what the model makes of them, and a tab for taggers."""

import os
from typing import Any

from .page_models import MAX_CHARACTERS, MAX_SENTENCES, PageError, PageModels
from .rendering import (
    INTRODUCTION,
    LABELS_INTRODUCTION,
    STYLE,
    error_html,
    labels_html,
    surprisal_html,
    view_html,
    words_html,
)
from .request_limits import RequestLimits

EXAMPLES = [
    "The bank raised its interest rates.\nWe sat on the bank of the river.",
    "She will present the prize.\nHe opened the present.\nAt present nobody knows.",
    "They did a play at school.\nThe children play in the garden.",
]
LABEL_EXAMPLES = [
    "Ada Lovelace met Charles Babbage in London.\nGoogle opened an office in Zurich.",
    "Does the red book on the table belong to you?",
]
# One listener for all words, because buttons come and go.
CHOOSE = """
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-place]');
    if (button) trigger('select', {place: button.dataset.place});
});
"""
# Visitors who compute at the same time; a model serves one after the other.
CONCURRENT_VISITORS = 8
# Visitors whose sentences are in memory, and for how long.
SESSIONS, SESSION_SECONDS = 200, 3600


def build_page(models: PageModels) -> Any:
    """The page as gradio Blocks. Nothing is fetched from elsewhere, and nothing is sent anywhere.

    Example:

    ```python
    >>> from elmo_hf.page import PageModels, build_page
    >>> page = build_page(PageModels(["english"]))  # doctest: +SKIP
    >>> page.launch()  # doctest: +SKIP

    ```
    """
    gradio = import_gradio()
    with gradio.Blocks(title="What ELMo sees", analytics_enabled=False) as page:
        gradio.Markdown(INTRODUCTION)
        if not models.taggers:
            _word_tab(gradio, page, models)
        else:
            with gradio.Tab("Words"):
                _word_tab(gradio, page, models)
            with gradio.Tab("Labels", elem_id="labels-tab"):
                _label_tab(gradio, models)
    return page


def _word_tab(gradio: Any, page: Any, models: PageModels):
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
    split = gradio.State([], time_to_live=SESSION_SECONDS)
    text = _textbox(gradio, EXAMPLES[0], "sentences")
    with gradio.Row():
        name = gradio.Dropdown(
            models.names,
            value=models.names[0],
            label="Model" + (": english, a folder, or a repository on the Hub" if models.any_model else ""),
            allow_custom_value=models.any_model,
            elem_id="model",
            scale=3,
        )
        button = gradio.Button("Read", variant="primary", elem_id="read", scale=1, min_width=120)
    gradio.Examples([[example] for example in EXAMPLES], [text], label="Examples", cache_examples=False)
    words = gradio.HTML("", js_on_load=CHOOSE, elem_id="words")
    view = gradio.HTML("", elem_id="view")
    bits = gradio.HTML("", elem_id="surprise")
    for start in (button.click, page.load):
        start(
            read,
            [name, text],
            [split, words, bits, view],
            concurrency_limit=CONCURRENT_VISITORS,
            api_name=False,
            show_progress="minimal",
            show_progress_on=words,
        )
    words.select(
        choose,
        [name, split],
        [words, view],
        concurrency_limit=CONCURRENT_VISITORS,
        api_name=False,
        show_progress="hidden",
    )
    # Results belong to the text that was read.
    for change in (text.input, name.input):
        change(None, None, [words, bits, view], js="() => ['', '', '']", api_name=False)


def _label_tab(gradio: Any, models: PageModels):
    def label(name: str, text: str) -> str:
        try:
            return labels_html(models.annotate(name, text or ""))
        except PageError as error:
            return error_html(str(error))

    gradio.Markdown(LABELS_INTRODUCTION)
    text = _textbox(gradio, LABEL_EXAMPLES[0], "label-sentences")
    with gradio.Row():
        name = gradio.Dropdown(models.taggers, value=models.taggers[0], label="Tagger", elem_id="tagger", scale=3)
        button = gradio.Button("Label", variant="primary", elem_id="label", scale=1, min_width=120)
    gradio.Examples([[example] for example in LABEL_EXAMPLES], [text], label="Examples", cache_examples=False)
    labels = gradio.HTML("", elem_id="labels")
    for start in (button.click, name.select):
        start(
            label,
            [name, text],
            labels,
            concurrency_limit=CONCURRENT_VISITORS,
            api_name=False,
            show_progress="minimal",
        )
    text.input(None, None, labels, js="() => ''", api_name=False)


def _textbox(gradio: Any, text: str, name: str) -> Any:
    return gradio.Textbox(
        text,
        label=f"Sentences, one per line (up to {MAX_SENTENCES} sentences and {MAX_CHARACTERS:,} characters)",
        lines=3,
        max_lines=8,
        elem_id=name,
    )


def launch_page(models: PageModels, host: str = "127.0.0.1", port: int | None = None, wait: bool = True) -> Any:
    """Serves the page; `wait=False` returns once it answers."""
    gradio = import_gradio()
    from starlette.middleware import Middleware

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
        max_file_size=0,
        state_session_capacity=SESSIONS,
        app_kwargs={"middleware": [Middleware(RequestLimits)]},
    )
    if wait:
        page.block_thread()
    return page


def import_gradio() -> Any:
    """The package gradio, or an ImportError that says how to install it."""
    # Read when gradio is imported: no counting of visits, no question for a newer version.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    try:
        import gradio
    except ImportError as error:
        raise ImportError("The page needs gradio, which is not installed: pip install 'elmo-hf[page]'.") from error
    return gradio


def _place(event: Any) -> tuple[int, int]:
    """The sentence and the word that were clicked; a browser may send anything."""
    data = (getattr(event, "_data", None) or {}).get("place")
    number, colon, place = str(data).partition(":")
    if not (colon and number.isdecimal() and place.isdecimal() and len(number) + len(place) < 9):
        raise PageError("That is not a word of the text. Press Read and choose again.")
    return int(number), int(place)
