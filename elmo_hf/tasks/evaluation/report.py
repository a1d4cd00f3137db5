"""The report of an evaluation as text."""

from typing import TYPE_CHECKING

from elmo_hf.text.files import excerpt, plural

if TYPE_CHECKING:
    from elmo_hf.tasks.evaluation.evaluate import Evaluation

LISTED_LABELS, LISTED_CONFUSIONS = 40, 15


def report(evaluation: "Evaluation") -> str:
    """Scores, labels, confusions, worst examples and comparison, each under its heading."""
    lines = [f"{plural(evaluation.examples, evaluation.example_name)}; score, and its 95% interval (bootstrap):"]
    width = max(map(len, evaluation.scores))
    for name, (value, low, high) in evaluation.scores.items():
        lines.append(f"  {name:<{width}}  {100 * value:6.2f}  {100 * low:6.2f} to {100 * high:6.2f}")
    if evaluation.unknown_labels:
        names = ", ".join(f"{name} ({count:,})" for name, count in evaluation.unknown_labels.items())
        lines.append(f"Note: labels of the data that the model does not have, all counted as wrong: {names}.")
    if evaluation.comparison is not None:
        lines += _comparison_lines(evaluation)
    if evaluation.labels:
        lines += _label_lines(evaluation)
    if evaluation.confusions:
        lines += ["", "Most frequent confusions (gold, predicted):"]
        for gold, predicted, count in evaluation.confusions[:LISTED_CONFUSIONS]:
            lines.append(f"  {count:6,}  {_name(gold)} -> {_name(predicted)}")
    if evaluation.worst:
        lines += ["", f"Worst {evaluation.example_name}s:"]
        lines += [f"  {number}. {excerpt(text, 400)}" for number, text in enumerate(evaluation.worst, 1)]
    return "\n".join(lines)


def _comparison_lines(evaluation: "Evaluation") -> list[str]:
    assert evaluation.comparison is not None
    name, other, (value, low, high), p_value = evaluation.comparison
    significant = "a significant difference" if p_value < 0.05 else "no significant difference"
    return [
        f"Compared: {name} of the other model {100 * other:.2f}; difference {100 * value:+.2f} "
        f"({100 * low:+.2f} to {100 * high:+.2f}), p = {p_value:.4f} by approximate randomisation: "
        f"{significant} at 0.05."
    ]


def _label_lines(evaluation: "Evaluation") -> list[str]:
    shown = evaluation.labels[:LISTED_LABELS]
    width = max(5, *(len(excerpt(label.label, 30)) for label in shown))
    lines = ["", f"  {'label':<{width}}      f1  precision  recall    gold  predicted"]
    for label, f1, precision, recall, gold, predicted in shown:
        numbers = f"{100 * f1:6.2f}     {100 * precision:6.2f}  {100 * recall:6.2f}  {gold:6,}     {predicted:6,}"
        lines.append(f"  {excerpt(label, 30):<{width}}  {numbers}")
    if len(evaluation.labels) > LISTED_LABELS:
        lines.append(f"  and {len(evaluation.labels) - LISTED_LABELS:,} more labels")
    return lines


def _name(label: str | None) -> str:
    return "nothing" if label is None else excerpt(str(label), 40)


__all__ = ["report"]
