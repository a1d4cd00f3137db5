"""The words that differ most and least between two corpora, as Markdown: `table.py change.json [--words 20]`.

Reads what `elmo-hf analyse change --json` saved.
"""

import argparse
import json
from pathlib import Path


def typical(word: dict, side: int) -> str:
    """The first substitutes that are typical of one corpus."""
    return ", ".join(word["substitutes"][side][:4]) if word["substitutes"] else ""


def most_changed(words: list[dict], names: list[str]) -> str:
    """A table of words with their measures and the substitutes of each side."""
    rows = [
        f"| word | apd | prt | jsd | instead of it in {names[0]} | in {names[1]} |",
        "|---|---:|---:|---:|---|---|",
    ]
    for word in words:
        measures = " | ".join(f"{word[measure]:.2f}" for measure in ("apd", "prt", "jsd"))
        rows.append(f"| {word['word']} | {measures} | {typical(word, 0)} | {typical(word, 1)} |")
    return "\n".join(rows)


def least_changed(words: list[dict]) -> str:
    """A table of words with their measures, the least changed first."""
    rows = ["| word | apd | prt | jsd |", "|---|---:|---:|---:|"]
    for word in reversed(words):
        rows.append(f"| {word['word']} | " + " | ".join(f"{word[m]:.2f}" for m in ("apd", "prt", "jsd")) + " |")
    return "\n".join(rows)


def main():
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--words", type=int, default=20)
    options = parser.parse_args()
    change = json.loads(options.results.read_text(encoding="utf-8"))
    print(most_changed(change["words"][: options.words], change["corpora"]), end="\n\n")
    print(least_changed(change["words"][-options.words :]))


if __name__ == "__main__":
    main()
