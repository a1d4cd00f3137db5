"""Text that commands read: tokenised text is noted, an empty file is an error, MODEL and INPUT are not swapped."""

import re
import subprocess
import sys

import pytest
import transformers
from golden_files import TESTS

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.analysis import NeighbourIndex, word_surprisal
from elmo_hf.cli.text_input import check_sentences

SENTENCES = ["I don 't know , he said .", "It 's late ."]
RAW = ["I don't know, he said.", "It's late."]
NOTE = re.compile(r"Note: the text looks tokenised .*, but moses-en splits it again.* add --tokenized\.\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "tokenized.txt").write_text("\n".join(SENTENCES))
    (folder / "raw.txt").write_text("\n".join(RAW))
    (folder / "empty.txt").touch()
    (folder / "blank.txt").write_text("\n \n")
    return folder


COMMANDS = {
    "perplexity": ("perplexity", "english", "FILE"),
    "score": ("score", "english", "FILE"),
    "embed": ("embed", "english", "FILE", "OUT", "--device", "cpu", "--processes", 1),
    "index": ("analyse", "index", "english", "FILE", "-o", "OUT"),
    "surprise": ("analyse", "surprise", "english", "FILE"),
}
ON_SENTENCES = {
    "substitute": ("substitute", "english", "SENTENCE", 1),
    "predict": ("predict", "english", "SENTENCE"),
    "similarity": ("analyse", "similarity", "english", "SENTENCE", "SENTENCE"),
    "surprise --text": ("analyse", "surprise", "english", "--text", "SENTENCE"),
}


def filled(arguments, **values):
    return [values.get(argument, argument) for argument in arguments]


@pytest.mark.parametrize("name", COMMANDS)
def test_tokenised_files_are_noted(command, folder, tmp_path, name):
    arguments = filled(COMMANDS[name], FILE=folder / "tokenized.txt", OUT=tmp_path / "noted")
    code, _, err = command(*arguments)
    assert code == 0 and len(NOTE.findall(err)) == 1
    arguments = filled(COMMANDS[name], FILE=folder / "tokenized.txt", OUT=tmp_path / "tokenized")
    assert "Note" not in command(*arguments, "--tokenized")[2]
    arguments = filled(COMMANDS[name], FILE=folder / "raw.txt", OUT=tmp_path / "raw")
    assert "Note" not in command(*arguments)[2]


@pytest.mark.parametrize("name", ON_SENTENCES)
def test_tokenised_sentences_are_noted(command, name):
    code, _, err = command(*filled(ON_SENTENCES[name], SENTENCE=SENTENCES[0]))
    assert code == 0 and len(NOTE.findall(err)) == 1
    assert "Note" not in command(*filled(ON_SENTENCES[name], SENTENCE=SENTENCES[0]), "--tokenized")[2]
    assert "Note" not in command(*filled(ON_SENTENCES[name], SENTENCE=RAW[0]))[2]


def test_neighbours_of_tokenised_sentences(command, folder, tmp_path):
    assert command("analyse", "index", "english", folder / "raw.txt", "-o", tmp_path / "index")[0] == 0
    assert len(NeighbourIndex(tmp_path / "index")) == 12
    arguments = ("analyse", "neighbours", "english", tmp_path / "index", SENTENCES[1], "--word", "late")
    assert NOTE.search(command(*arguments)[2]) and "Note" not in command(*arguments, "--tokenized")[2]


CHINESE = ["我爱北京天安门，天安门上太阳升。", "今天天气很好。"]
SEGMENTED = ["我 爱 北京 天安门 ， 天安门 上 太阳 升 。", "今天 天气 很 好 。"]
UNSEGMENTED_NOTE = "Note: the text has no spaces between words, but moses-en is for text with spaces"


@pytest.mark.parametrize("name", [*COMMANDS, "annotate"])
def test_text_without_spaces_is_noted(command, tmp_path, name):
    """Chinese, for a splitting that splits at spaces."""
    arguments = COMMANDS.get(name, ("annotate", "english-ner", "FILE"))
    for number, (lines, options, notes) in enumerate(
        [(CHINESE, (), 1), (SEGMENTED, ("--tokenized",), 0), ([RAW[0] + " (北京)"], (), 0)]
    ):
        path = tmp_path / f"{number}.txt"
        path.write_text("\n".join(lines), encoding="utf-8")
        code, _, err = command(*filled(arguments, FILE=path, OUT=tmp_path / f"out-{number}"), *options)
        assert code == 0 and err.count(UNSEGMENTED_NOTE) == err.count("Note: the text") == notes, (lines, err)


def test_text_without_spaces_is_not_noted_where_it_is_split(capsys):
    """Every character is a word, or words are segmented."""
    for splitting, lines in [("characters", CHINESE), ("unicode-words", CHINESE), ("whitespace", SEGMENTED)]:
        check_sentences(lines, splitting)
        assert capsys.readouterr().err == ""
    check_sentences(["ฉันรักกรุงเทพมหานคร"], "whitespace")
    assert "but whitespace is for text with spaces" in capsys.readouterr().err


def test_tokenised_text_scores_as_it_is(command, folder):
    rows = command("score", "english", folder / "tokenized.txt", "--tokenized")[1].splitlines()[1:]
    assert [row.split("\t")[-1] for row in rows] == SENTENCES


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_file_is_an_error(command, folder, tmp_path, name):
    code, out, err = command(*filled(COMMANDS[name], FILE=folder / "empty.txt", OUT=tmp_path / "out"))
    assert (code, out) == (1, "") and not (tmp_path / "out" / "_store.json").exists()
    assert err.endswith(f"Error: {folder / 'empty.txt'} contains no sentence. Expected text, a sentence a line.\n")
    if name != "embed":  # line n is sentence n there, also if it is blank
        assert command(*filled(COMMANDS[name], FILE=folder / "blank.txt", OUT=tmp_path / "out"))[0] == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_in_place_of_the_model(command, folder, tmp_path, name):
    swapped = {"english": folder / "raw.txt", "FILE": "english", "OUT": tmp_path / "out"}
    code, _, err = command(*filled(COMMANDS[name], **swapped))
    err = " ".join(err.replace("│", " ").split())  # typer draws a box
    assert code == 2 and "is a file. Expected a model: a folder" in err and "MODEL comes before the files" in err


def test_a_file_as_the_model_of_an_option(command, folder, tmp_path):
    """Its place among the arguments does not matter."""
    arguments = (
        "finetune",
        "ner",
        "--train",
        folder / "raw.txt",
        "--model",
        folder / "raw.txt",
        "-o",
        tmp_path / "out",
    )
    code, _, err = command(*arguments)
    err = " ".join(err.replace("│", " ").split())  # typer draws a box
    assert code == 2 and "Expected a model: a folder" in err and "comes before" not in err


def test_the_page_checks_names_before_it_loads_models(command, folder, monkeypatch):
    monkeypatch.setattr("elmo_hf.page.app.import_gradio", lambda: None)
    monkeypatch.setattr("elmo_hf.page.PageModels", None)  # calling it would be a TypeError
    code, _, err = command("page", "english", folder / "raw.txt")
    assert code == 2 and "is a file. Expected a model: a folder" in " ".join(err.replace("│", " ").split())
    code, _, err = command("page", "english", "--tagger", "englsh-ner")
    assert code == 1 and "Did you mean english-ner?" in err
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.setattr("elmo_hf.page.PageModels", None)
    code, _, err = command("page")
    assert code == 1 and "pip install 'elmo-hf[page]'" in err


def test_a_plot_of_many_sentences_is_refused_before_the_model_is_loaded(command, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("elmo_hf.ElmoScorer.from_pretrained", None)  # calling it would be a TypeError
    code, _, err = command("analyse", "surprise", "english", folder / "raw.txt", "--plot", tmp_path / "plot.png")
    assert code == 1 and err == "Error: Invalid `--plot`: the text has 2 sentences. Expected one sentence.\n"


def test_surprise_shows_its_progress(command, folder, tmp_path, monkeypatch):
    """The progress bar counts sentences as they are computed: a step at a time is asked for."""
    steps = []
    monkeypatch.setattr(sys.modules["elmo_hf.cli.analyse"], "SENTENCES_PER_STEP", 2)
    monkeypatch.setattr(
        "elmo_hf.analysis.word_surprisal", lambda scorer, step: steps.append(step) or word_surprisal(scorer, step)
    )
    (tmp_path / "text.txt").write_text("\n".join([*RAW, *RAW, RAW[0]]))
    assert command("analyse", "surprise", "english", tmp_path / "text.txt")[0] == 0
    assert steps == [RAW, RAW, RAW[:1]]


def test_help_imports_neither_torch_nor_transformers():
    """The names of the modules that are imported, in a fresh interpreter."""
    program = (
        "import sys\nfrom elmo_hf import cli\n"
        "for arguments in ([], ['embed'], ['analyse', 'surprise'], ['pretrain'], ['convert']):\n"
        "    sys.argv = ['elmo-hf', *arguments, '--help']\n"
        "    try: cli.main()\n"
        "    except SystemExit as end: assert not end.code\n"
        "print('\\nIMPORTED', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=TESTS.parent, capture_output=True, text=True, check=True)
    imported = run.stdout.splitlines()[-1].split()
    assert imported[0] == "IMPORTED" and "typer" in imported
    heavy = {"torch", "transformers", "tokenizers", "datasets", "h5py", "numpy", "huggingface_hub", "pyarrow"}
    assert not heavy.intersection(imported), f"--help imports {', '.join(imported[1:])}"


def test_annotate_notes_tokenised_text_and_refuses_an_empty_file(command, folder, tmp_path):
    labels = {"num_labels": 2, "character_cnn_filters": [[1, 8]], "projection_size": 8, "cell_size": 16}
    transformers.set_seed(0)
    ElmoForTokenClassification(ElmoConfig(**labels)).save_pretrained(tmp_path / "tagger")
    ElmoTokenizer("moses-en").save_pretrained(tmp_path / "tagger")
    code, _, err = command("annotate", tmp_path / "tagger", folder / "tokenized.txt")
    assert code == 0 and len(NOTE.findall(err)) == 1
    assert "Note" not in command("annotate", tmp_path / "tagger", folder / "tokenized.txt", "--tokenized")[2]
    code, _, err = command("annotate", tmp_path / "tagger", folder / "empty.txt", "-o", tmp_path / "out.jsonl")
    assert code == 1 and f"{folder / 'empty.txt'} contains no sentence" in err
    code, _, err = command("annotate", folder / "raw.txt", tmp_path / "tagger")
    assert code == 2 and "is a file. Expected a model" in " ".join(err.replace("│", " ").split())
