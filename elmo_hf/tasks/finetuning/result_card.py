"""The card of a fine-tuned model: that of the model, with a section of scores and data."""

from pathlib import Path
from typing import Any

from elmo_hf.hub.model_card import escaped, model_card

from .task import Task


def add_scores(
    model: Any, name: str | Path, folder: Path, task: Task, result: dict[str, Any], sources: dict[str, str]
):
    """Writes README.md into a folder.

    Args:
        model: the model.
        name: where it will be.
        folder: where it is now.
        task: its task.
        result: scores and settings.
        sources: the names of the files.
    """
    before, heading, after = model_card(model, str(name)).partition("## Citation")
    (folder / "README.md").write_text(
        f"{before}{scores_section(task, result, sources)}\n{heading}{after}", encoding="utf-8"
    )


def scores_section(task: Task, result: dict[str, Any], sources: dict[str, str]) -> str:
    """Scores, data and settings as Markdown."""
    lines = ["## Scores", "", f"Task: {task.name}.", "", "| data | examples | score |", "|---|---|---|"]
    for part, count in result["examples"].items():
        scores = result["scores"].get(part, {})
        shown = ", ".join(f"{name} {100 * value:.2f}" for name, value in scores.items()) or "-"
        source = escaped(Path(sources[part]).name) if part in sources else f"held out of {part}"
        lines.append(f"| {part}: {source if part in sources else 'a part of train'} | {count:,} | {shown} |")
    settings = ("model", "head", "elmo_at", "tune_bilm", "lora", "lr", "epochs", "batch_size", "seed")
    chosen = ", ".join(f"{name} {result[name]}" for name in settings if result.get(name) not in (None, False))
    return "\n".join(
        [*lines, "", f"Settings: {escaped(chosen)}. The others are the defaults.", "", task.usage(None), ""]
    )


__all__ = ["add_scores", "scores_section"]
