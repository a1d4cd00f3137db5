"""Sphinx configuration of the documentation. `make docs` builds it."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "extensions")]

from elmo_hf import __version__  # noqa: E402

project = "elmo_hf"
author = "elmo_hf contributors"
copyright = "elmo_hf contributors"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_parser",
    "docstrings",
    "api_pages",
    "command_pages",
]
exclude_patterns = ["_build", "extensions"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Everything is readable offline: no inventories, fonts or scripts come from elsewhere.
html_theme = "furo"
html_title = f"elmo_hf {version}"
html_static_path = ["static"]
html_css_files = ["custom.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False
html_copy_source = False
