"""Math without a network: MathJax from the wheel `sphinx-mathjax-offline`, as one file of the site.

The wheel's own extension would copy all of MathJax, 20 MB; formulas in SVG need no fonts beside it.
"""

import importlib.util
import pathlib

from sphinx.application import Sphinx
from sphinx.util.fileutil import copy_asset_file

SCRIPT = "tex-svg.js"


def _copy_script(app: Sphinx, error: Exception | None) -> None:
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if error is None and spec is not None and spec.origin:
        script = pathlib.Path(spec.origin).parent / "static" / "mathjax" / SCRIPT
        copy_asset_file(script, app.outdir / "_static")


def setup(app: Sphinx) -> dict[str, bool]:
    """Has pages load the script, and copies it once they are built."""
    if importlib.util.find_spec("sphinx-mathjax-offline") is None:
        raise ModuleNotFoundError(
            "formulas need the package sphinx-mathjax-offline, of the extra docs"
        )
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = SCRIPT
    app.connect("build-finished", _copy_script)
    return {"parallel_read_safe": True}
