"""Mutation testing: whether the tests notice defects, each made by hand in a copy of the repository.

Each mutation replaces one line of one module: a sign, an index that is off by one, a missing mask, swapped gates, an
unchecked checksum. The quick tests of that module must fail then. `make mutations` runs all of them, and

    python tests/tools/mutations.py crf schedule

those whose file names contain one of the words. The exit code is the number of mutations that were not noticed.
"""

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IGNORED = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "*.egg-info", ".*_cache", "build", "dist", "peers")


@dataclass(frozen=True)
class Mutation:
    """A defect.

    Args:
        file: the module, relative to the repository.
        correct: a piece of text that occurs once in it.
        defect: what replaces it.
        tests: the arguments of pytest for the tests that should notice.
    """

    file: str
    correct: str
    defect: str
    tests: str


MUTATIONS = (
    # Swapped gates, a sign, a bound.
    Mutation(
        "elmo_hf/model/modeling_elmo.py",
        "new_c = torch.sigmoid(f + 1) * c.to(wide) + torch.sigmoid(i)",
        "new_c = torch.sigmoid(i) * c.to(wide) + torch.sigmoid(f + 1)",
        "tests/model/test_against_reference.py",
    ),
    Mutation(
        "elmo_hf/model/modeling_elmo_lm.py",
        "shifted[:, :-step] = labels[:, step:]",
        "shifted[:, :-step] = labels[:, :-step]",
        "tests/model/test_language_modeling_elmo.py",
    ),
    Mutation(
        "elmo_hf/model/tokenization_elmo.py",
        "rows[:, 0] = BEGIN_OF_WORD_BYTE + 1",
        "rows[:, 0] = BEGIN_OF_WORD_BYTE",
        "tests/model/test_tokenization_elmo.py",
    ),
    Mutation(
        "elmo_hf/kernels/cell.py",
        "c.mul_(f).addcmul_(i, j)",
        "c.mul_(i).addcmul_(f, j)",
        "tests/kernels/test_kernels.py",
    ),
    Mutation(
        "elmo_hf/kernels/softmax.py",
        "sums = sums if own is None else sums + of_truth",
        "sums = sums",
        "tests/model/test_softmax.py",
    ),
    Mutation(
        "elmo_hf/kernels/characters.py",
        "counts = np.asarray(lengths) + 1",
        "counts = np.asarray(lengths)",
        "tests/model/test_character_encoder.py tests/kernels/test_kernels.py",
    ),
    # Masks.
    Mutation(
        "elmo_hf/tasks/tagging/crf.py",
        "alpha = torch.where(present[:, step, None], following, alpha)",
        "alpha = following",
        "tests/tasks/test_crf.py",
    ),
    Mutation(
        "elmo_hf/embedding/output_spec.py",
        "words = (places > 0) & (places",
        "words = (places >= 0) & (places",
        "tests/embedding/test_embedder.py",
    ),
    # Counts and metrics.
    Mutation(
        "elmo_hf/tasks/coreference/metrics.py",
        "links += len(cluster) - len(pieces)",
        "links += len(cluster) - 1",
        "tests/tasks/test_readers.py",
    ),
    Mutation(
        "elmo_hf/tasks/srl/frames.py",
        "int(place == predicate + 1)",
        "int(place == predicate)",
        "tests/tasks/test_readers.py",
    ),
    Mutation(
        "elmo_hf/tasks/questions/answers.py",
        "(width >= longest)",
        "(width > longest)",
        "tests/tasks/test_questions.py",
    ),
    Mutation(
        "elmo_hf/language_model/perplexity.py",
        "result.forward.add(-score.forward.sum(), about[1:])",
        "result.forward.add(-score.forward.sum(), about)",
        "tests/language_model/test_perplexity.py",
    ),
    Mutation(
        "elmo_hf/analysis/surprisal.py",
        "zip(tops, (0, 2), strict=False)",
        "zip(tops, (0, 1), strict=False)",
        "tests/analysis/test_surprisal.py",
    ),
    # Training.
    Mutation(
        "elmo_hf/pretraining/schedule.py",
        "(1 + math.cos(math.pi * done)) / 2",
        "(1 - math.cos(math.pi * done)) / 2",
        "tests/pretraining/test_trainer.py",
    ),
    Mutation(
        "elmo_hf/pretraining/training_windows.py",
        "text = text[::-1]",
        "text = text[:]",
        "tests/pretraining/test_training_windows.py",
    ),
    Mutation(
        "elmo_hf/pretraining/vocabulary.py",
        "np.add.at(counts, places[BEGIN:], corpus.counts[BEGIN:])",
        "counts[places[BEGIN:]] = corpus.counts[BEGIN:]",
        "tests/pretraining/test_vocabulary.py",
    ),
    # Formats and files.
    Mutation(
        "conversion/formats/torch_state.py",
        "return np.concatenate([i, j, f, o])",
        "return np.concatenate([i, f, j, o])",
        "tests/conversion/test_allennlp.py",
    ),
    Mutation(
        "conversion/formats/bilm_hdf5.py",
        '(size, size), (f"{name}.weight",), TRANSPOSED',
        '(size, size), (f"{name}.weight",)',
        "tests/conversion/test_convert.py tests/model/test_golden.py",
    ),
    Mutation(
        "elmo_hf/atomic_files.py",
        "if file_checksum(path) != checksum:",
        "if not file_checksum(path):",
        "tests/test_atomic_files.py",
    ),
    Mutation(
        "elmo_hf/text/word_vectors.py",
        'word = " ".join(fields[:-size]) if size else ""',
        "word = fields[0]",
        "tests/tasks/test_readers.py",
    ),
    # Fine-tuning, evaluation, annotation.
    Mutation(
        "elmo_hf/tasks/finetuning/trainer.py",
        "torch.save(torch.get_rng_state() if ended else self.state_at_begin,",
        "torch.save(torch.get_rng_state(),",
        "tests/tasks/test_finetune.py",
    ),
    Mutation(
        "elmo_hf/tasks/finetuning/model_setup.py",
        "freeze_bilm=not settings.tune_bilm",
        "freeze_bilm=True",
        "tests/tasks/test_finetune.py",
    ),
    Mutation(
        "elmo_hf/tasks/annotation/annotator.py",
        "yield [numbers[place] for place in places]",
        "yield places",
        "tests/tasks/test_annotate.py",
    ),
    Mutation(
        "elmo_hf/tasks/annotation/annotate_corpus.py",
        """return f"{weights} {store_name(""",
        """return f"{store_name(""",
        "tests/tasks/test_annotate.py",
    ),
    Mutation(
        "elmo_hf/tasks/evaluation/evaluate.py",
        "key=lambda number: -errors[number]",
        "key=lambda number: errors[number]",
        "tests/tasks/test_evaluate.py",
    ),
    Mutation(
        "elmo_hf/tasks/evaluation/resampling.py",
        "bootstrap_sums(np.hstack([first, second]), samples, seed), 2, axis=1)",
        "np.hstack([bootstrap_sums(first, samples, seed), bootstrap_sums(second, samples, seed + 1)]), 2, axis=1)",
        "tests/tasks/test_evaluate.py",
    ),
    # Analysis and consistency.
    Mutation(
        "elmo_hf/analysis/semantic_change.py",
        "uses, [0] * size + [1] * size, target, seed)",
        "uses, [1] * size + [0] * size, target, seed)",
        "tests/analysis/test_semantic_change.py",
    ),
    Mutation(
        "elmo_hf/analysis/change_measures.py",
        'alternative="greater"',
        'alternative="less"',
        "tests/analysis/test_semantic_change.py",
    ),
    Mutation(
        "elmo_hf/hub/consistency.py",
        'hashlib.sha256("\\n".join(words).encode',
        'hashlib.sha256("\\n".join(sorted(words)).encode',
        "tests/hub/test_consistency.py",
    ),
)


def run(mutation: Mutation, copy: Path) -> tuple[bool, str]:
    """Whether the tests fail with the mutation, and what they say last."""
    from fork_server import run_forked

    path = copy / mutation.file
    original = path.read_text(encoding="utf-8")
    if original.count(mutation.correct) != 1:
        return False, f"the text to replace occurs {original.count(mutation.correct)} times: renew the mutation"
    path.write_text(original.replace(mutation.correct, mutation.defect), encoding="utf-8")
    try:
        environment = {
            **os.environ,
            "PYTHONPATH": str(copy),
            "PYTHONDONTWRITEBYTECODE": "1",  # bytecode of a file of the same size and second would hide the change
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # pytest warns of plugins that the server has imported already
            "OMP_NUM_THREADS": "1",
        }
        command = "-m pytest -q -x --tb=line -p no:cacheprovider -m".split()
        done = run_forked([*command, "not slow", *mutation.tests.split()], environment, copy, timeout=900)
    finally:
        path.write_text(original, encoding="utf-8")
    lines = (done.stdout + done.stderr).strip().splitlines()
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return bool(failures), (failures or lines or ["it says nothing"])[-1][:150]


def main(words: list[str]) -> int:
    import sklearn  # noqa: F401
    import transformers  # noqa: F401  # what the server is to import

    chosen = [each for each in MUTATIONS if not words or any(word in each.file for word in words)]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=IGNORED)
        # Where the package is installed for editing, elmo_hf.conversion would be that of the checkout.
        (copy / "elmo_hf" / "conversion").symlink_to(copy / "conversion")
        for mutation in chosen:
            noticed, said = run(mutation, copy)
            missed += not noticed
            print(
                f"{'noticed' if noticed else 'MISSED '}  {mutation.file}: {mutation.defect}\n         {said}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} mutations were noticed.")
    return missed


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    sys.exit(main(sys.argv[1:]))
