"""`elmo-hf pretrain`: made from the fields of `Settings`, which say what each option is."""

import inspect
import os
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from elmo_hf.cli.models import find_model_argument
from elmo_hf.pretraining.memory import keep_freed_memory
from elmo_hf.pretraining.settings import Settings, has_default


def pretrain(**settings: Any):
    """Train a language model on your own text, or tune a trained one to a domain.

    A small model in an hour on a laptop:

        elmo-hf pretrain corpus.txt -o my-elmo --size tiny --stop-after 1h

    Perplexity on held-out text is printed as it falls; word frequencies alone give the mark to beat.

    Whatever ends the run, the same command with --resume goes on, with the very same result.

    Tune a model to a domain; its vocabulary is kept, extended, or new (for a converted model without a softmax):

        elmo-hf pretrain domain.txt -o tuned --from my-elmo --extend-vocab

        elmo-hf pretrain domain.txt -o tuned --from converted --new-vocab --freeze-steps 500

    Several processes or machines take the same command, and divide the streams among themselves:

        torchrun --nproc-per-node 4 -m elmo_hf.cli pretrain corpus.txt -o my-elmo --size original
    """
    given = Settings(**{name: value for name, value in settings.items() if value is not None})
    given.check()
    wait_passively()
    keep_freed_memory()
    try:
        from elmo_hf.pretraining import pretrain as run
    except ImportError as error:
        raise ValueError(str(error)) from None
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.showwarning = lambda message, *args, **kwargs: typer.echo(f"Warning: {message}", err=True)
    run(given, say=_write)
    _leave()


def _parameters() -> list[inspect.Parameter]:
    """The parameters that typer makes arguments and options of, one for each field of Settings."""
    types, found = get_type_hints(Settings), []
    for one in fields(Settings):
        about, kind = one.metadata, types[one.name]
        more: dict[str, Any] = {"help": about["help"], "metavar": about.get("metavar")}
        default = one.default if has_default(one.name) else inspect.Parameter.empty
        if "least" in about:
            more["min"] = about["least"]
        if kind == list[str]:
            kind, default, more["show_default"] = list[str] | None, None, False
        elif "shown" in about:
            more["show_default"] = about["shown"]
        if one.name == "start":
            more["callback"] = find_model_argument
        if one.name == "output_dir":
            kind = Path
        if one.name == "files":
            info = typer.Argument(metavar="FILES", help=about["help"], show_default=False)
        else:
            names = about.get("names", (f"--{one.name.replace('_', '-')}",))
            info = typer.Option(*names, rich_help_panel=about["panel"], **more)
        parameter = inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
        )
        found.append(parameter)
    return found


pretrain.__signature__ = inspect.Signature(_parameters())
pretrain.__annotations__ = {one.name: one.annotation for one in pretrain.__signature__.parameters.values()}


def wait_passively():
    """Lets OpenMP threads sleep while they wait, unless the environment says otherwise. Call before torch is loaded.

    Threads that spin take the processor from the thread that they wait for, if other programs are busy: pretraining is
    then two to three times slower. The OpenMP library reads the variable when it is loaded, with torch.
    """
    if sys.platform == "linux" and "GOMP_SPINCOUNT" not in os.environ:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _write(line: str):
    typer.echo(line)
    sys.stdout.flush()


def _leave():
    """Ends a process of several in order; without it, torch now and then aborts at the very end."""
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
