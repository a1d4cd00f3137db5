"""Fine-tuning: annotated files as examples, the tasks, the report on data, and the run that trains."""
