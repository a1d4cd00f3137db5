"""The public names of the package: the list that type checkers and `lazy_imports` read."""

from .layer_reader import LayerReader as LayerReader
from .layer_weights import MixWeights as MixWeights
from .layer_weights import mix_weights as mix_weights
from .nearest_neighbours import Neighbour as Neighbour
from .nearest_neighbours import Neighbours as Neighbours
from .nearest_neighbours import neighbours as neighbours
from .neighbour_index import NeighbourIndex as NeighbourIndex
from .probing import Probe as Probe
from .probing import ProbeResult as ProbeResult
from .probing import probe as probe
from .results import AnalysisResult as AnalysisResult
from .sample_efficiency import Efficiency as Efficiency
from .sample_efficiency import EfficiencyRun as EfficiencyRun
from .sample_efficiency import efficiency as efficiency
from .sense_disambiguation import Senses as Senses
from .sense_disambiguation import SenseScore as SenseScore
from .sense_disambiguation import senses as senses
from .sense_files import SenseData as SenseData
from .sense_files import SenseInstance as SenseInstance
from .sense_files import read_senses as read_senses
from .similarity import SentenceSimilarity as SentenceSimilarity
from .similarity import WordSimilarity as WordSimilarity
from .similarity import sentence_similarity as sentence_similarity
from .similarity import word_similarity as word_similarity
from .surprisal import WordSurprisal as WordSurprisal
from .surprisal import word_surprisal as word_surprisal
