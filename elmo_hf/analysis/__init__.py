"""What the layers know: similarity, surprise, neighbours, probes, senses, layer weights, sample efficiency.

Plots take matplotlib.
"""

from .efficiency import Efficiency, EfficiencyRun, efficiency
from .findings import Finding
from .neighbour_index import NeighbourIndex
from .neighbours import Neighbour, Neighbours, neighbours
from .probe import Probe, ProbeResult, probe
from .sense_files import SenseData, SenseInstance, read_senses
from .senses import Senses, SenseScore, senses
from .similarity import SentenceSimilarity, WordSimilarity, sentence_similarity, word_similarity
from .surprise import Surprise, surprise
from .vectors import LayerReader
from .weights import MixWeights, mix_weights

__all__ = [
    "Efficiency",
    "EfficiencyRun",
    "Finding",
    "LayerReader",
    "MixWeights",
    "Neighbour",
    "NeighbourIndex",
    "Neighbours",
    "Probe",
    "ProbeResult",
    "SenseData",
    "SenseInstance",
    "SenseScore",
    "Senses",
    "SentenceSimilarity",
    "Surprise",
    "WordSimilarity",
    "efficiency",
    "mix_weights",
    "neighbours",
    "probe",
    "read_senses",
    "senses",
    "sentence_similarity",
    "surprise",
    "word_similarity",
]
