"""Sphinx configuration. Build: `sphinx-build -W docs docs/_build/html` with the `docs` extra."""

import gc
import os
import pathlib
import sys

# Before numpy is loaded: the threads of its linear algebra spin, and figures' matrices are small.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib

import jaxdp
from jaxdp import figures

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(pathlib.Path(__file__).parent / "_ext"))
sys.path.append(str(ROOT))  # benchmarks, which are not installed

# Pages and programs are many objects that live long, and each collection of garbage visits them.
gc.freeze()
gc.set_threshold(200_000, 20, 100)

project = "jaxdp"
author = "The jaxdp authors"
copyright = author
release = jaxdp.__version__

extensions = [
    "myst_parser",
    "back_links",
    "budgets",
    "checked_by",
    "external_links",
    "gallery",
    "mechanisms",
    "notebooks",
    "numbered_plots",
    "offline_math",
    "proved_in",
    "public_names",
    "reference",
    "signatures",
    "tables",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Of inherited members `_ext/reference.py` keeps those of private bases.
autodoc_default_options = {
    "members": True,
    "imported-members": True,
    "inherited-members": "object",
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # `_ext/signatures.py` has them as the code does
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 72  # a line for each argument where they do not fit into one
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False  # docstrings state types themselves
napoleon_custom_sections = ["Formal guarantees", "Edge cases"]

with figures.style():
    plot_rcparams = {
        name: value
        for name, value in matplotlib.rcParams.items()
        if value != matplotlib.rcParamsDefault[name]
    }
plot_apply_rcparams = True
plot_working_directory = str(ROOT)  # where the results of the benchmarks are
plot_formats = ["svg"]
plot_include_source = False
plot_html_show_source_link = False
plot_html_show_formats = False

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = f"jaxdp {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("keys.js", {"defer": "defer"})]
