"""`elmo-hf pretrain`; its options are made from the fields of `Settings`."""

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

    An hour on a laptop:

        elmo-hf pretrain corpus.txt -o my-elmo --minutes 60

    Splitting, size, vocabulary and learning rate follow from the text and the time, and are printed before training
    begins. Perplexity on held-out text is printed as it falls, beside that from word frequencies alone.

    Ctrl-C writes a checkpoint. The same command with --resume continues from it, with the very same result; so it
    does from the last checkpoint after a crash.

    Tune a model to a domain; its vocabulary is kept, extended, or new (e.g. for another language):

        elmo-hf pretrain domain.txt -o tuned --from my-elmo --extend-vocab

        elmo-hf pretrain domain.txt -o tuned --from english --new-vocab --freeze-steps 500

    Several processes or machines take the same command, and divide the streams among themselves:

        torchrun --nproc-per-node 4 -m elmo_hf.cli pretrain corpus.txt -o my-elmo --size original
    """
    chosen = Settings(**{name: value for name, value in settings.items() if value is not None})
    chosen.check()
    wait_passively()
    keep_freed_memory()
    try:
        from elmo_hf.pretraining import pretrain as run
    except ImportError as error:
        raise ValueError(str(error)) from None
    import transformers

    from elmo_hf.pretraining.interruption import TrainingInterrupted

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.showwarning = lambda message, *args, **kwargs: typer.echo(f"Warning: {message}", err=True)
    try:
        run(chosen, say=_write)
    except TrainingInterrupted as interruption:
        typer.echo(str(interruption), err=True)
        _end_processes(128 + interruption.signal_number)
        raise typer.Exit(128 + interruption.signal_number) from None
    except KeyboardInterrupt:
        typer.echo("Interrupted before training began. The same command starts again.", err=True)
        raise typer.Exit(130) from None
    _end_processes(0)


def _parameters() -> list[inspect.Parameter]:
    """The parameters that typer makes arguments and options of, one for each field of Settings."""
    types, parameters = get_type_hints(Settings), []
    for setting in fields(Settings):
        metadata, kind = setting.metadata, types[setting.name]
        options: dict[str, Any] = {"help": metadata["help"], "metavar": metadata.get("metavar")}
        default = setting.default if has_default(setting.name) else inspect.Parameter.empty
        if "least" in metadata:
            options["min"] = metadata["least"]
        if kind == list[str]:
            kind, default, options["show_default"] = list[str] | None, None, False
        elif "shown" in metadata:
            options["show_default"] = metadata["shown"]
        if setting.name == "start":
            options["callback"] = find_model_argument
        if setting.name == "output_dir":
            kind = Path
        if setting.name == "files":
            info = typer.Argument(metavar="FILES", help=metadata["help"], show_default=False)
        else:
            names = metadata.get("names", (f"--{setting.name.replace('_', '-')}",))
            info = typer.Option(*names, rich_help_panel=metadata["panel"], **options)
        parameter = inspect.Parameter(
            setting.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
        )
        parameters.append(parameter)
    return parameters


_signature = inspect.Signature(_parameters())
setattr(pretrain, "__signature__", _signature)  # noqa: B010  # typer reads it
pretrain.__annotations__ = {name: value.annotation for name, value in _signature.parameters.items()}


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


def _end_processes(code: int):
    """Ends each of several processes in order; without it, torch sometimes aborts when the interpreter exits."""
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
