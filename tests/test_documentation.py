"""The code blocks of the README and of the documentation run, and print what the pages show."""

import doctest
import importlib.util
import re
import warnings

import h5py
import numpy as np
import pytest
from documentation import (
    ORIGINAL,
    PAGES,
    ROOT,
    agree,
    blocks_of,
    check_options,
    commands_of,
    forget_spacy_factory,
    needs_hub,
    provide,
    run_in_process_with_hub,
    run_page,
    sessions_of,
)
from golden_files import GOLDEN

from elmo_hf import read_lines
from elmo_hf.conversion.formats import onnx

LIBRARIES = {
    "sentence_transformers": "sentence-transformers",
    "spacy": "spacy",
    "gensim": "gensim",
    "onnxruntime": "onnx",
}


def parameters():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if blocks_of(text):
            marks = [pytest.mark.slow] if "<!-- slow -->" in text else []
            yield pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.parametrize("page", parameters())
def test_page(page, tmp_path):
    for module, package in LIBRARIES.items():
        if re.search(rf"^(import|from) {module}\b", page.read_text(encoding="utf-8"), flags=re.M):
            pytest.importorskip(module, reason=f"pip install {package}")
    if page.name == "onnx.md" and not onnx.CAN_EXPORT:
        pytest.skip("this torch cannot export loops")
    provide(tmp_path)
    forget_spacy_factory()
    if needs_hub(page):
        run_in_process_with_hub(page, tmp_path)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # libraries may warn; what is printed is compared
            run_page(page, tmp_path)


@pytest.mark.parametrize("name", ["docstrings", "command_pages"])
def test_doctests_of_the_extensions(name):
    pytest.importorskip("sphinx", reason="pip install sphinx")
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "extensions" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    failures, tried = doctest.testmod(module)
    assert failures == 0 and tried > 0


def test_every_language_of_a_block_is_known():
    """A block is either run, or of a language that nobody expects to be run."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        kinds = set(re.findall(r"^```([^\n{]+)$", text, re.M))
        assert kinds <= {"python", "console", "bash", "text", "bibtex", "json"}, page
        assert len(blocks_of(text)) == len(re.findall(r"^```(python|console|bash)$", text, re.M)), page


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_most_blocks_run():
    blocks = [block for page in PAGES for block in blocks_of(page.read_text(encoding="utf-8"))]
    assert len([block for block in blocks if block.reason]) < len(blocks) / 4


def test_original_files_are_those_of_a_golden_checkpoint():
    plain = GOLDEN["plain"]
    for name, file in (
        ("options.json", plain.options),
        ("weights.hdf5", plain.weights),
        ("vocab.txt", plain.vocabulary),
    ):
        assert (ORIGINAL / name).read_bytes() == file.read_bytes()
    assert [line.split() for line in read_lines(ORIGINAL / "sentences.txt")] == plain.sentences
    with h5py.File(ORIGINAL / "dumped.hdf5") as dumped:
        for number in range(len(plain.sentences)):
            np.testing.assert_array_equal(dumped[str(number)], plain.expected_layers("stateful", number))


def test_blocks_are_found_with_their_output_and_reasons():
    text = "```python\nprint(3)\n```\n\nThis prints\n\n```text\n3\n```\n\n<!-- not run: slow -->\n\n```bash\nls\n```\n"
    first, second = blocks_of(text)
    assert (first.kind, first.code, first.printed, first.reason, first.line) == (
        "python",
        "print(3)\n",
        "3\n",
        None,
        1,
    )
    assert (second.kind, second.code, second.reason, second.line) == ("bash", "ls\n", "slow", 13)


def test_commands_are_found_in_blocks():
    assert commands_of("elmo-hf embed a \\\n  b    # why\n# only a comment\npip install x\n") == [
        "elmo-hf embed a b",
        "pip install x",
    ]
    assert sessions_of("$ one \\\n  two\nout\n$ three\n") == [("one two", "out\n", 14), ("three", "", 26)]


def test_measurements_and_dots_agree_with_anything():
    assert agree("converted in 3.0 s, peak memory 1,000 MB\n", "converted in 9.9 s, peak memory 5 MB\n")
    assert agree("a\n...\nd\n", "a\nb\nc\nd\n") and not agree("a\n...\nd\n", "a\nb\nc\n")


def test_stale_options_are_found():
    check_options("elmo-hf embed model corpus.txt out --tokenized")
    with pytest.raises(ValueError, match="--no-such-option"):
        check_options("elmo-hf embed model corpus.txt out --no-such-option")
    with pytest.raises(ValueError, match="no command 'imbed'"):
        check_options("elmo-hf imbed model")


@pytest.fixture
def page_of_text(tmp_path, monkeypatch):
    def write(text):
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        monkeypatch.setattr("documentation.ROOT", tmp_path)
        return page

    return write


def test_what_is_printed_is_put_in_its_place(page_of_text, tmp_path):
    page = page_of_text("A\n\n```python\nprint(1 + 1)\n```\n\nprints\n\n```text\n3\n```\n\nB\n")
    with pytest.raises(AssertionError, match="page.md:3 shows\n\n3\n\nbut the code prints\n\n2"):
        run_page(page, tmp_path)
    assert run_page(page, tmp_path, update=True) == page.read_text().replace("text\n3", "text\n2")
