"""Do all programs give the same vectors? Only then are their speeds comparable."""

from pathlib import Path

import numpy as np
from processes import Worker

TOLERANCE = 1e-5
# What programs might treat in different ways.
ODD_SENTENCES = [
    ["word"],
    ["Naïve", "café", "—", "déjà", "vu", ";", "東京", "🙂", "."],
    ["Supercalifragilisticexpialidociousnessesandevenlongerthanfiftybytes", "is", "a", "word", "."],
]


class Disagreement(Exception):
    """Some program's vectors differ by more than rounding."""


def check_agreement(workers: list[Worker], natural: list[list[str]], folder: Path) -> list[str]:
    """Compares every program with the first one, on one batch from a state of zeros.

    Returns:
        Lines of a Markdown table. Raises Disagreement if a program that computes in float32 is off.
    """
    batch = ODD_SENTENCES + natural
    vectors = {}
    for worker in workers:
        file = folder / "vectors.npz"
        worker.embed([batch], save_to=file)
        vectors[worker.program] = _layers(file)
        file.unlink()
    first, *others = vectors
    layers = range(len(vectors[first]))
    lines = [
        f"| largest difference from {first.name} | {' | '.join(f'layer {n}' for n in layers)} | lowest cosine |",
        "|---" * (len(layers) + 2) + "|",
    ]
    wrong = []
    for program in others:
        differences = [float(abs(a - b).max()) for a, b in zip(vectors[program], vectors[first], strict=True)]
        cosine = min(_lowest_cosine(a, b) for a, b in zip(vectors[program], vectors[first], strict=True))
        lines.append(f"| {program.name} | {' | '.join(f'{d:.1e}' for d in differences)} | {cosine:.6f} |")
        if program.exact and not max(differences) <= TOLERANCE:
            wrong.append(program.name)
    lines.append(f"| largest value | {' | '.join(f'{abs(x).max():.1f}' for x in vectors[first])} | |")
    if wrong:
        table = "\n".join(lines)
        raise Disagreement(f"{', '.join(wrong)}: off by more than {TOLERANCE:.0e}; nothing was measured.\n{table}")
    return lines


def _layers(file: Path) -> list[np.ndarray]:
    """One array (all words of all sentences, size) for each layer."""
    with np.load(file) as arrays:
        return list(np.concatenate([arrays[name] for name in arrays.files], axis=1))


def _lowest_cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(1) / norms).min())
