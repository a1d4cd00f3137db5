"""The converted model against every layer and every state that bilm itself computed."""

import json

import h5py
import numpy as np
import pytest
from golden_files import BATCH_SIZE, GOLDEN, SHARED_FIXTURES, leaves, run, run_differences, step_differences
from reference_bilm import ReferenceBilm
from torch_bilm import TorchBilm

from elmo_hf import ElmoModel
from elmo_hf.conversion import verify

modes = pytest.mark.parametrize("mode", ["stateful", "stateless"])

# What bilm wrote is itself rounded. Where exact arithmetic (ReferenceBilm in float64) is farther from the file than
# half of 1e-6, nothing can promise 1e-6: bounds of (layers, states) for those, twice the distance of the exact values.
BOUNDS = {
    "allennlp": (2.4e-6, 2.0e-6),  # exact: 1.2e-6, 1.0e-6
    "bilm-tf": (1.5e-6, 2.2e-6),  # exact: 7.5e-7, 1.1e-6
    "cell-equals-projection": (1.6e-6, 3.0e-6),  # exact: 6.9e-7, 1.5e-6
    "no-highway": (1e-6, 1.3e-6),  # exact: 3.8e-7, 6.3e-7
    "one-layer": (1.1e-6, 1.5e-6),  # exact: 5.5e-7, 7.5e-7
    "plain": (2.2e-6, 2.0e-6),  # exact: 1.1e-6, 9.9e-7
    "short-words": (1e-6, 1.6e-6),  # exact: 3.8e-7, 7.7e-7
    "tanh": (1e-6, 1.4e-6),  # exact: 2.6e-7, 6.7e-7
    "three-layers": (1e-6, 1.5e-6),  # exact: 4.0e-7, 7.2e-7
    "three-layers-no-skip": (1e-6, 1.4e-6),  # exact: 4.5e-7, 6.9e-7
    "word-input": (1e-6, 1.3e-6),  # exact: 2.7e-7, 6.4e-7
}


@modes
def test_all_layers_and_states_are_those_of_bilm(golden, mode, converted):
    model = ElmoModel.from_pretrained(converted(golden))
    if golden.expands_rounding:
        # Rounding grows from token to token here: bilm's own values are no measure of a whole run, exact ones are.
        exact, of_exact = run(ReferenceBilm(golden.options_content, golden.arrays), golden, mode)
        layers, states = run(TorchBilm(model.double()), golden, mode)
        of_layers = max(np.abs(a - b).max() for a, b in zip(layers, exact, strict=True))
        pairs = zip(leaves(sum(states, [])), leaves(sum(of_exact, [])), strict=True)
        of_states, bounds = max(np.abs(a - b).max() for a, b in pairs), (1e-6, 1e-6)
    else:
        of_layers, of_states = run_differences(TorchBilm(model), golden, mode)
        bounds = BOUNDS.get(golden.name, (1e-6, 1e-6))
    print(f"{golden.name:24} {mode:9} layers {of_layers:.1e}  states {of_states:.1e}")
    assert of_layers <= bounds[0] and of_states <= bounds[1]


@modes
def test_every_single_step_is_that_of_bilm(golden, mode, converted):
    model = TorchBilm(ElmoModel.from_pretrained(converted(golden)).double())
    of_output, of_state = step_differences(model, golden, mode)
    print(f"{golden.name:24} {mode:9} one step: output {of_output:.1e}  state {of_state:.1e}")
    assert of_output <= golden.step_tolerance and of_state <= golden.step_tolerance


@modes
def test_verify_reproduces_the_originals_state_handling(golden, mode, converted, tmp_path):
    if golden.expands_rounding:
        pytest.skip(f"{golden.name} expands differences in rounding; its single steps are compared above")
    with h5py.File(tmp_path / "expected.hdf5", "w") as file:
        for number in range(len(golden.sentences)):
            file[str(number)] = golden.expected_layers(mode, number)
    outcome = verify(
        converted(golden), tmp_path / "expected.hdf5", golden.sentences, BATCH_SIZE, stateless=mode == "stateless"
    )
    assert outcome.largest <= 2.4e-6 and len(outcome.differences) == len(golden.expected_layers(mode, 0))


@pytest.mark.parametrize("name, bound", [("bilm-tf", 1e-6), ("allennlp", 2e-6)])
def test_top_layer_files_of_the_originals(name, bound, converted, request):
    """Three streams of ten sentences; batch i is the i-th sentence of each, and the state is carried."""
    folder = SHARED_FIXTURES / name
    if not folder.exists():
        pytest.skip(f"the files of {name} are not in {SHARED_FIXTURES}")
    lists = json.loads(next(folder.glob("*sentences.json")).read_text(encoding="utf-8"))
    model = TorchBilm(ElmoModel.from_pretrained(converted(GOLDEN[name])))
    states, worst = None, 0.0
    files = [h5py.File(folder / f"lm_embeddings_{stream}.hdf5") for stream in range(3)]
    for number in range(10):
        sentences = [lists[stream][number].split() for stream in range(3)]
        layers, states = model([GOLDEN[name].rows(words) for words in sentences], states)
        for file, ours, words in zip(files, layers, sentences, strict=True):
            expected = file[str(number)][()]  # (2, words, P)
            assert expected.shape[1] == len(words)
            halves = np.stack(np.split(ours[-1, 1:-1], 2, -1))
            worst = max(worst, np.abs(halves - expected).max())
    print(f"{name}: top layer {worst:.1e}")
    assert worst <= bound
