"""`elmo-hf page`: the page in a browser."""

import time
from typing import Annotated

import typer

from .language_model import Device
from .models import find_model_argument

TAGGERS = ("english-ner", "english-pos")


def page(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="What can be chosen: folders, repositories of the Hub, or english (in the package), which is the "
            "default. The first is shown on arrival.",
            show_default=False,
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Neighbours from what `elmo-hf analyse index` made of the first model."),
    ] = None,
    tagger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="A model that labels words, for the second tab; may be given several times. Default: the bundled "
            "taggers.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to serve at; 0.0.0.0 lets others in.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Not given: the first free one from 7860.")
    ] = None,
    device: Device = None,
):
    """Serve a page: write sentences, click a word, see what the layers know, or label words. It needs no network.

    Example: elmo-hf page

    On this machine alone any other model may be named in the page too; for visitors from elsewhere (--host) only those
    that are given here.
    """
    from elmo_hf.hub.model_names import bundled_names, resolve_model
    from elmo_hf.page import PageModels, launch_page
    from elmo_hf.page.app import import_gradio

    import_gradio()
    for name in [*(models or []), *(tagger or [])]:
        resolve_model(str(find_model_argument(name)))  # only a check: the page shows the names as they were typed
    start = time.perf_counter()
    any_model = host in ("127.0.0.1", "localhost", "::1")
    taggers = [name for name in TAGGERS if name in bundled_names()] if tagger is None else tagger
    offered = PageModels(models or ["english"], any_model, device, index, taggers)
    offered.get(offered.names[0]).warm()
    served = launch_page(offered, host, port, wait=False)
    typer.echo(f"{served.local_url}  (ready after {time.perf_counter() - start:.1f} s; Ctrl-C ends it)")
    served.block_thread()
