"""transformers' own tests of tokenizers, for ElmoTokenizer."""

import tempfile
import unittest

import pytest
from transformers_suites.suites import not_applicable, suite

from elmo_hf import ElmoTokenizer

tokenization = suite("test_tokenization_common")

# Name of a test, or of the tests whose names begin with it -> why it says nothing about rows of characters.
ROWS = "expects one number for each token; here it is a row of characters"
NOT_APPLICABLE = {
    "test_batch_encode_dynamic_overflowing": ROWS,
    "test_chat_template_return_assistant_tokens_mask": ROWS,
    "test_encode_basic_padding": ROWS,
    "test_encode_plus_with_padding": ROWS,
    "test_internal_consistency": ROWS,
    "test_padding_with_attention_mask": ROWS,
    "test_tokenizer_store_full_signature": "the words of `word_vocabulary` are saved in a file of their own",
    "test_training_new_tokenizer_with_special_tokens_change": "nothing is trained: <S> and </S> are fixed rows",
}

# The suites call what transformers itself deprecates.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.filterwarnings("default::pytest.PytestWarning")]


class Suite(tokenization.TokenizerTesterMixin, tokenization.TokenizersBackendTesterMixin):
    tokenizer_class = rust_tokenizer_class = ElmoTokenizer
    test_seq2seq = test_sentencepiece = test_tokenizer_from_extractor = False

    @classmethod
    def setUpClass(cls):
        cls.tmpdirname = tempfile.mkdtemp()
        ElmoTokenizer("whitespace").save_pretrained(cls.tmpdirname)
        cls.from_pretrained_id = [cls.tmpdirname]
        cls.tokenizers_list = [(ElmoTokenizer, cls.tmpdirname, {})]

    def get_clean_sequence(self, tokenizer, with_prefix_space=False, max_length=20, min_length=5):
        """There is no list of tokens to draw from: every word has characters."""
        text = " ".join(["words", "of", "a", "sentence", "again"] * 4)[: 5 * (max_length or 20)].rsplit(" ", 1)[0]
        text = f" {text}" if with_prefix_space else text
        return text, tokenizer.encode(text, add_special_tokens=False)


@not_applicable(NOT_APPLICABLE, Suite)
class ElmoTokenizerTest(Suite, unittest.TestCase):
    pass
