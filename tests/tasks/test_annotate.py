"""`elmo-hf annotate` and ElmoAnnotator: labels, formats, sharing of a biLM, resuming after kills."""

import json
import shutil

import pytest
import torch
from kill_harness import complete, killed_at_rename, killed_when
from small_models import small

from elmo_hf import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.tasks import Annotation, ElmoAnnotator, annotate_corpus
from elmo_hf.tasks.annotation.corpus_source import CorpusSource
from elmo_hf.tasks.annotation.formats import html_paragraph, marked_text


@pytest.fixture(scope="module")
def models(tagger, base_model, tmp_path_factory):
    """A trained tagger of entities, a tagger of other labels, and a classifier, all on one biLM."""
    folder = tmp_path_factory.mktemp("annotators")
    for name, model_class in (("pos", ElmoForTokenClassification), ("mood", ElmoForSequenceClassification)):
        torch.manual_seed(1)
        labels = {0: "first", 1: "second", 2: "third"}
        model = model_class.from_pretrained(base_model, id2label=labels)
        model.save_pretrained(folder / name)
        ElmoTokenizer.from_pretrained(base_model).save_pretrained(folder / name)
    return {"tagger": str(tagger[0]), "pos": str(folder / "pos"), "mood": str(folder / "mood")}


def test_labels_are_those_of_the_model(models):
    annotator = ElmoAnnotator.from_pretrained(models["tagger"])
    sentences = ["No 3 Ivy Lee lives in New York .", "", ["Bob", "lives"]]
    found = annotator(sentences)
    assert [annotation.text for annotation in found] == ["No 3 Ivy Lee lives in New York .", "", None]
    assert found[0].tags["tagger"] != ["O"] * 9 and len(found[0].spans()) > 0
    assert found[1].words == [] and found[1].tags == {"tagger": []}
    model = ElmoForTokenClassification.from_pretrained(models["tagger"]).eval()
    for annotation in (found[0], found[2]):
        # One sentence at a time, without padding.
        batch = ElmoTokenizer()([annotation.words], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            scores, labels = model(**batch).logits[0, 1:-1].softmax(-1).max(-1)
        assert annotation.tags["tagger"] == [model.config.id2label[label] for label in labels.tolist()]
        assert annotation.tag_scores["tagger"] == pytest.approx(scores.tolist(), abs=2e-4)
    assert annotator("Bob lives").tags == annotator(["Bob lives"])[0].tags


def test_models_of_one_bilm_read_a_sentence_once(models, monkeypatch):
    names = [models[name] for name in ("tagger", "pos", "mood")]
    annotator = ElmoAnnotator.from_pretrained(*names)
    assert list(annotator.models) == ["tagger", "pos", "mood"]
    calls = []
    for labeler in annotator.models.values():
        run_layers = labeler.model.elmo.run_layers
        monkeypatch.setattr(
            labeler.model.elmo, "run_layers", lambda *a, run=run_layers, **k: calls.append(1) or run(*a, **k)
        )
    together = annotator(["Ann lives in Rome .", "Bob sleeps ."])
    assert len(calls) == 1
    for name in names:
        alone = ElmoAnnotator.from_pretrained(name)
        for one, other in zip(alone(["Ann lives in Rome .", "Bob sleeps ."]), together, strict=True):
            assert one.tags.items() <= other.tags.items() and one.labels.items() <= other.labels.items()


def test_bundled_taggers_share_their_bilm(monkeypatch):
    annotator = ElmoAnnotator.from_pretrained("english-ner", "english-pos")
    calls = []
    for labeler in annotator.models.values():
        run_layers = labeler.model.elmo.run_layers
        monkeypatch.setattr(
            labeler.model.elmo, "run_layers", lambda *a, run=run_layers, **k: calls.append(1) or run(*a, **k)
        )
    annotation = annotator("Barack Obama met Angela Merkel in Paris .")
    assert [span.text for span in annotation.spans("english-ner")] == ["Barack Obama", "Angela Merkel", "Paris"]
    assert annotation.tags["english-pos"][2] == "VERB" and len(calls) == 1


def test_formats_hold_the_same_labels(models, data, command, tmp_path):
    import pyarrow.parquet as pq

    names = (models["tagger"], models["mood"])
    for ending in ("conll", "jsonl", "parquet", "html"):
        output = tmp_path / f"out.{ending}"
        code, out, err = command("annotate", *names, data / "corpus.txt", "-o", output, "--processes", 1)
        assert code == 0, err
        assert "384 sentences, " in out and "words/s)" in out and not output.with_name(f"{output.name}.parts").exists()
    expected = ElmoAnnotator.from_pretrained(*names)((data / "corpus.txt").read_text().splitlines())
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["tagger"] for record in records] == [annotation.tags["tagger"] for annotation in expected]
    assert [record["mood"] for record in records] == [annotation.labels["mood"] for annotation in expected]
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["tagger_spans"] for row in rows] == [record["tagger_spans"] for record in records]
    assert [row["sentence"] for row in rows] == list(range(384))
    blocks = (tmp_path / "out.conll").read_text().strip().split("\n\n")
    assert len(blocks) == 384
    first = [line.split("\t") for line in blocks[0].splitlines() if not line.startswith("# ")]
    assert [word for word, _ in first] == expected[0].words and [tag for _, tag in first] == expected[0].tags["tagger"]
    assert blocks[0].startswith(f"# mood = {expected[0].labels['mood']}\n")
    page = (tmp_path / "out.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n") and page.count("<p>") == 384


def annotate(models, data, output, **settings):
    source = CorpusSource(data / "corpus.txt")
    annotate_corpus([models["tagger"]], source, output, part_sentences=40, part_characters=10**6, **settings)


@pytest.mark.parametrize("ending", ["conll", "parquet"])
def test_killed_runs_end_with_the_same_bytes(models, data, tmp_path, ending):
    whole, killed = tmp_path / f"whole.{ending}", tmp_path / f"killed.{ending}"
    complete(lambda: annotate(models, data, whole))

    def again():
        annotate(models, data, killed)

    assert killed_at_rename(again, r"part-000002")
    assert killed_at_rename(again, r"part-000005", after=True)
    assert killed_at_rename(again, rf"killed\.{ending}$")
    assert not killed.exists()
    complete(again)
    assert killed.read_bytes() == whole.read_bytes()


def test_a_run_that_was_killed_after_its_last_rename_is_finished(models, data, tmp_path):
    output = tmp_path / "out.conll"
    for after in (False, True):
        assert killed_at_rename(lambda: annotate(models, data, output), r"out\.conll$", after=after)
    before = output.read_bytes()
    annotate(models, data, output)
    assert output.read_bytes() == before and [*tmp_path.iterdir()] == [output]
    with pytest.raises(ValueError, match="out.conll is there already. Expected a new file"):
        annotate(models, data, output)


@pytest.mark.slow
def test_processes_and_shards_write_the_same_bytes(models, data, tmp_path):
    complete(lambda: annotate(models, data, tmp_path / "one.jsonl"))
    complete(lambda: annotate(models, data, tmp_path / "two.jsonl", processes=2))
    for number in (1, 2, 3):
        complete(lambda number=number: annotate(models, data, tmp_path / "three.jsonl", shard=(number, 3)))
    moment = (tmp_path / "four.jsonl.parts" / "part-000003.jsonl").exists
    killed_when(lambda: annotate(models, data, tmp_path / "four.jsonl", processes=2), moment)
    complete(lambda: annotate(models, data, tmp_path / "four.jsonl", processes=2))
    expected = (tmp_path / "one.jsonl").read_bytes()
    assert all((tmp_path / f"{name}.jsonl").read_bytes() == expected for name in ("two", "three", "four"))


def test_another_model_or_input_does_not_go_on(models, data, tmp_path):
    output = tmp_path / "out.conll"
    assert killed_at_rename(lambda: annotate(models, data, output), r"part-000002")
    with pytest.raises(ValueError, match="was made with names = "):
        annotate({"tagger": models["pos"]}, data, output)
    with pytest.raises(ValueError, match="other sentences"):
        annotate_corpus([models["tagger"]], ["Other text ."] * 100, output, part_sentences=40, part_characters=10**6)


def test_other_weights_in_the_same_folder_do_not_go_on(models, data, tmp_path):
    output, folder = tmp_path / "out.conll", str(shutil.copytree(models["pos"], tmp_path / "pos"))
    assert killed_at_rename(lambda: annotate({"tagger": folder}, data, output), r"part-000002")
    model = ElmoForTokenClassification.from_pretrained(folder)
    with torch.no_grad():
        model.elmo.bilm.forward_layers[0].bias[0] += 0.5
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match="was made with weights = "):
        annotate({"tagger": folder}, data, output)


def test_damaged_shards_are_named(models, data, tmp_path):
    output = tmp_path / "out.jsonl"
    assert killed_at_rename(lambda: annotate(models, data, output), r"part-000002")
    path = tmp_path / "out.jsonl.parts" / "part-000001.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="part-000001.jsonl is damaged: its checksum is wrong"):
        annotate(models, data, output)


def test_inputs_of_annotated_files_give_their_words(tmp_path):
    files = {
        "a.conll": ("-DOCSTART- O\n\n#tag O\nRome\tB-LOC\n\n", [["#tag", "Rome"]]),
        "b.conllu": ("# text = I'm\n1-2\tI'm\t_\t_\n1\tI\t_\t_\n2\t'm\t_\t_\n", [["I", "'m"]]),
        "c.iob2": ("# id = 1\n1\tRome\tB-LOC\n2\tburns\tO\n", [["Rome", "burns"]]),
        "d.txt": ("Rome\tburns\n", ["Rome\tburns"]),
    }
    for name, (text, expected) in files.items():
        (tmp_path / name).write_text(text)
        assert list(CorpusSource(tmp_path / name)) == expected


def test_text_is_marked_for_a_terminal_and_in_html(models, command, monkeypatch, tmp_path):
    (tmp_path / "some.txt").write_text("No 3 Ann lives in Rome .\n")
    code, out, _ = command("annotate", models["tagger"], tmp_path / "some.txt")
    expected = marked_text(ElmoAnnotator.from_pretrained(models["tagger"])("No 3 Ann lives in Rome ."))
    assert code == 0 and out == f"{expected}\n" and "[Rome " in out
    annotation = Annotation(["A", "<b>"], tags={"pos": ["X", "Y"]}, labels={"mood": "good"})
    assert marked_text(annotation) == "good: A/X <b>/Y"
    shown = html_paragraph(annotation, 0)
    assert "<ruby>&lt;b&gt;<rt>Y</rt></ruby>" in shown and "mood: good" in shown


def test_models_that_cannot_annotate_say_why(base_model, tmp_path):
    small(ElmoForSequenceClassification, head={"sentence_pairs": True}).save_pretrained(tmp_path / "pairs")
    ElmoTokenizer().save_pretrained(tmp_path / "pairs")
    with pytest.raises(ValueError, match="base has no head for a task: it is an ElmoModel"):
        ElmoAnnotator.from_pretrained(base_model)
    with pytest.raises(ValueError, match="pairs is a model for linear, which needs a second text"):
        ElmoAnnotator.from_pretrained(tmp_path / "pairs")
    small(ElmoForTokenClassification).save_pretrained(tmp_path / "other")
    ElmoTokenizer(splitting="whitespace").save_pretrained(tmp_path / "other")
    small(ElmoForTokenClassification).save_pretrained(tmp_path / "third")
    ElmoTokenizer().save_pretrained(tmp_path / "third")
    with pytest.raises(ValueError, match="other splits text by 'whitespace', and third by 'moses-en'"):
        ElmoAnnotator.from_pretrained(tmp_path / "other", tmp_path / "third")
