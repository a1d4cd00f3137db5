"""What a fresh process loads before its first vector, or its first line of help."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from fork_server import run_forked

import elmo_hf
from elmo_hf import analysis, embedding, pretraining
from elmo_hf.lazy_imports import pause_gc

HEAVY = ("torch", "transformers", "numpy", "datasets", "elmo_hf.model")


def _imports(*arguments):
    """Exit code, output, and every module that Python says it imports on the way."""
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    lines = [line.rsplit("|", 1) for line in done.stderr.splitlines() if line.startswith("import time:")]
    return done.returncode, done.stdout, {name.strip() for _, name in lines}


@pytest.mark.parametrize("verb", [[], ["embed"], ["pretrain"], ["analyse", "probe"]], ids=" ".join)
def test_help_waits_for_nothing_that_it_does_not_show(verb):
    code, out, modules = _imports("-m", "elmo_hf.cli", *verb, "--help")
    assert code == 0 and "Usage" in out and "elmo_hf.cli" in modules
    assert modules.isdisjoint(HEAVY)


def test_a_verb_finds_the_auto_classes_registered(tmp_path):
    from elmo_hf import ElmoConfig, ElmoForTokenClassification

    config = ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8, num_labels=2)
    ElmoForTokenClassification(config).save_pretrained(tmp_path)
    done = run_forked(["-m", "elmo_hf.cli", "analyse", "weights", tmp_path])
    assert done.returncode == 0, done.stderr
    assert "elmo.scalar_mix     0.33" in done.stdout


PROGRAM = """
import gc
import sys
import elmo_hf
loaded = {"h5py", "datasets", "pyarrow", "sklearn", "elmo_hf.embedding.corpus"} & set(sys.modules)
from transformers import AutoConfig, AutoModel
model = AutoModel.from_pretrained(elmo_hf.bundled_model())
print(type(model) is elmo_hf.ElmoModel, sorted(loaded), gc.isenabled())
"""


def test_the_package_registers_and_loads_no_more_than_that():
    code, out, _ = _imports("-c", PROGRAM)
    assert (code, out.split("\n")[0]) == (0, "True [] True")


@pytest.mark.parametrize(
    "first",
    [
        "import transformers; import elmo_hf",
        "import elmo_hf; import importlib.util; importlib.util.find_spec('transformers')",
        "import elmo_hf; from transformers import AutoConfig",
        "import elmo_hf.model.configuration_elmo",
        "from elmo_hf.model.modeling_elmo_heads import ElmoForTokenClassification",
        "from elmo_hf import ElmoTrainer",
    ],
)
def test_the_auto_classes_know_the_package_whatever_is_imported_first(first):
    code = (
        first
        + """
import sys
from transformers import AutoConfig, AutoModel, AutoTokenizer, pipeline
from transformers.pipelines import PIPELINE_REGISTRY
import elmo_hf
folder = elmo_hf.bundled_model()
assert type(AutoConfig.from_pretrained(folder)) is elmo_hf.ElmoConfig
assert type(AutoTokenizer.from_pretrained(folder)) is elmo_hf.ElmoTokenizer
assert type(AutoModel.from_pretrained(folder)) is elmo_hf.ElmoModel
print(type(PIPELINE_REGISTRY.supported_tasks["token-classification"]["impl"]).__name__)
print(type(sys.modules["transformers"].__spec__.loader).__module__)
print(len([finder for finder in sys.meta_path if type(finder).__module__ == "elmo_hf.hub.registration"]))
"""
    )
    done = run_forked(["-c", code])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["PipelineDispatch", "_frozen_importlib_external", "0"]


def test_the_names_of_splittings_are_those_of_the_tokenizer():
    from elmo_hf.model.splitting_elmo import SPLITTINGS
    from elmo_hf.text.splitting import SPLITTING_NAMES

    assert SPLITTING_NAMES == tuple(SPLITTINGS)


@pytest.mark.parametrize("package", [elmo_hf, analysis, embedding, pretraining], ids=lambda package: package.__name__)
def test_every_name_of_a_stub_exists(package):
    assert len(package.__all__) > 10 and set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        value = getattr(package, name)
        # A module of the same name, imported by somebody, would take the name's place.
        assert find_spec(f"{package.__name__}.{name}") is None, name
        assert value is getattr(package, name)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'elmo_hf' has no attribute 'ElmoTokeniser'"):
        elmo_hf.ElmoTokeniser  # noqa: B018


def test_a_collector_that_was_switched_off_stays_off():
    import gc

    gc.disable()
    try:
        with pause_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(ValueError), pause_gc():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
