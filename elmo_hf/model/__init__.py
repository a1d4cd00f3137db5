"""The files that travel to the Hub with a saved model."""

# Loads transformers before any file here, so that ELMo is registered with whole modules (see hub/registration.py).
import transformers  # noqa: F401
