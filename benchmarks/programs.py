"""What is measured: the peers, elmo_hf in its variants, and the machine's limit."""

import sys
from dataclasses import dataclass
from pathlib import Path

from setup_peers import ALLENNLP, TENSORFLOW, TRANSFORMERS, Environment


@dataclass(frozen=True)
class Program:
    """One row of the tables.

    Args:
        name: as it is called in tables and by `--program`.
        worker: the file in workers/ that runs it.
        environment: the peer's environment; None is the Python that runs this.
        variant: of elmo_hf: see workers/elmo_hf_worker.py.
        exact: its vectors must be those of all others; False for fewer bits.
        embeds: False where there are no vectors to compare: of the limit, and of other models.
        starts: whether its start is of interest: load time and memory in a fresh process.
    """

    name: str
    worker: str
    environment: Environment | None = None
    variant: str = ""
    exact: bool = True
    embeds: bool = True
    starts: bool = True

    @property
    def python(self) -> Path:
        return self.environment.python if self.environment else Path(sys.executable)


OURS = Program("elmo_hf", "elmo_hf_worker.py", variant="cold words")
REMEMBERED = Program("elmo_hf, words remembered", "elmo_hf_worker.py", variant="words remembered", starts=False)
BILM = Program("bilm", "bilm_worker.py", TENSORFLOW)
SIMPLE_ELMO = Program("simple-elmo", "simple_elmo_worker.py", TENSORFLOW)
ALLEN = Program("AllenNLP", "allennlp_worker.py", ALLENNLP)
# Other models, which people would use in place of an ELMo.
TRANSFORMER_NAMES = ["MiniLM-L6", "MiniLM-L6, onnxruntime", "BERT-base"]
OTHER_MODELS = [
    Program(name, "transformer_worker.py", TRANSFORMERS, variant=name, exact=False, embeds=False, starts=False)
    for name in TRANSFORMER_NAMES
]
LIMIT = Program("limit", "gemm_worker.py", exact=False, embeds=False, starts=False)
PROGRAMS = [
    OURS,
    BILM,
    SIMPLE_ELMO,
    ALLEN,
    REMEMBERED,
    Program("elmo_hf, bfloat16", "elmo_hf_worker.py", variant="bfloat16", exact=False),
    Program("elmo_hf, int8", "elmo_hf_worker.py", variant="int8", exact=False),
    Program("elmo_hf, plain torch", "elmo_hf_worker.py", variant="plain torch", starts=False),
    *OTHER_MODELS,
    LIMIT,
]
