import pytest
from small_models import small

from elmo_hf import ElmoEmbedder, ElmoModel, ElmoTokenizer

# Blank lines, slashes and full stops, another script, one sentence twice, and long words.
SENTENCES = [
    "The cat sat on the mat .",
    "",
    "a/b.c d \\ e",
    "Ünïcödé 日本語 \U0001f600",
    "The cat sat on the mat .",
    "x" * 60 + " y",
    *[f"Sentence {number} has {number % 7} " + "more " * (number % 7) + "words ." for number in range(24)],
]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedding") / "model"
    small(ElmoModel).save_pretrained(folder)
    ElmoTokenizer(splitting="whitespace").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def embedder(model_folder):
    return ElmoEmbedder.from_pretrained(model_folder, device="cpu")


@pytest.fixture
def sentences():
    return list(SENTENCES)


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    return path
