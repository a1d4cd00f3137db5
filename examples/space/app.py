"""The page of `elmo-hf page` as a Space."""

import os

from elmo_hf.page import PageModels, launch_page

models = PageModels(os.environ.get("MODELS", "english").split())
models.get(models.names[0]).warm()
launch_page(models, host="0.0.0.0", port=int(os.environ.get("PORT", "7860")))
