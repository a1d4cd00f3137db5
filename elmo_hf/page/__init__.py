"""A page to see in a browser what the layers of a model know; takes gradio (the extra `page`)."""

from .app import build_page, launch_page
from .page_models import PageError, PageModel, PageModels

__all__ = ["PageError", "PageModel", "PageModels", "build_page", "launch_page"]
