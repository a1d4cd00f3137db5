"""The sense test on its own: the share of comparisons in which two of one sense are closer, for each word and layer.

python examples/english/senses.py english -o measured/senses.json
"""

import argparse
import json
from pathlib import Path

from transformers import AutoModel, AutoTokenizer

from elmo_hf.bundled import find_model, senses
from elmo_hf.bundled.demo import total_share
from elmo_hf.bundled.sense_test import separation
from elmo_hf.bundled.whitespace_reader import WhitespaceReader


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="A folder, a repository of the Hub, or english.")
    parser.add_argument("-o", "--output", type=Path, help="A file for the numbers (JSON).")
    arguments = parser.parse_args()
    name, _ = find_model(arguments.model)
    reader = WhitespaceReader(AutoModel.from_pretrained(name), AutoTokenizer.from_pretrained(name))
    tested = [separation(word, lines, reader) for word, lines in senses().items()]
    shares = {result.word: (result.right / result.comparisons).tolist() for result in tested}
    shares["all"] = total_share(tested).tolist()
    for word, by_layer in shares.items():
        print(f"{word:<10}" + "".join(f"{share:>8.1%}" for share in by_layer))
    if arguments.output:
        results = {"comparisons": sum(result.comparisons for result in tested), "share": shares}
        arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
