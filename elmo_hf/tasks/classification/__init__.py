"""Classification and regression of sentences and pairs, as tasks to fine-tune on."""
