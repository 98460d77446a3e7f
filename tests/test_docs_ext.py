"""What the extensions of the docs make of code and of pages."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from jaxdp import central, design, pairwise, randomizers

pytest.importorskip("sphinx")
import external_links
import numbered_plots
import reference
import signatures
import tables


def signature(what: str, obj: Any) -> tuple[str, str | None] | None:
    return signatures._signature(None, what, "", obj, None, "()", None)


Shade = Literal["light", "dark"]


def paint(
    key: "Sequence[int]", /, shade: Shade | None = None, *rest: float, size=3
) -> "tuple[Shade]":
    """A function with all that a signature has."""
    raise NotImplementedError(key, shade, rest, size)


def test_signatures_are_those_of_the_code():
    found = (
        "(key: Sequence[int], /, shade: Literal['light', 'dark'] | None=None, *rest: float, size=3)"
    )
    assert signature("function", paint) == (found, "tuple[Literal['light', 'dark']]")
    assert signature("function", len) is None


def test_signatures_of_specs_have_types_and_defaults():
    assert signature("class", randomizers.KRR) == ("(num_values: int, epsilon: float)", None)
    found = signature("class", pairwise.BilinearAUC)
    assert found is not None
    assert "labels: Literal['public', 'private', 'randomized'] = 'public'" in found[0]
    assert found[0].endswith("= PrivUnitG)")
    plan = signature("class", design.Plan)
    assert plan is not None
    assert plan[0].endswith("asked: Mapping[str, Any] = ...)")


def test_signatures_of_methods_have_shapes_and_no_self():
    shaped = signature("method", central.Marginals.noise_variance)
    assert shaped == ("(num_users: int)", "Float64[np.ndarray, 'N']")
    inherited = signature("method", randomizers.KRR.variance)
    assert inherited is not None
    assert inherited[0] == "(counts: ArrayLike, inputs: Tree=None)"


def test_public_classes_have_their_full_names():
    found = signature("function", design.plan)
    assert found is not None
    assert found[0].startswith("(question: jaxdp.design.Question, *")
    assert found[1] == "jaxdp.design.Plan"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2.97 ± 0.06 (3.04)", "2.97~±~0.06 (3.04)"),
        ("ε = 0.5", "ε~=~0.5"),
        ("24 %", "24~%"),
        ("n = 3 users and a long text of words", "n = 3 users and a long text of words"),
        ("a long text that ends with 3 ± 1", "a long text that ends with 3~±~1"),
    ],
)
def test_numbers_of_a_cell_stay_together(text, shown):
    assert tables.together(text).replace(tables.SPACE, "~") == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (":param users: n.", r":param users: \n."),
        (
            ":param users: n. Drawn anew in each trial.",
            r":param users: \n. Drawn anew in each trial.",
        ),
        (":param users:\n              n.", ":param users:\n              " + r"\n."),
        (":param users: n, at least 2.", ":param users: n, at least 2."),
        ("n. b.: a text", "n. b.: a text"),
    ],
)
def test_a_letter_is_no_list(line, shown):
    lines = line.split("\n")
    reference._escape_letters(None, "class", "", None, None, lines)
    assert lines == shown.split("\n")


def test_external_links_are_listed_with_their_pages(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a class="x" href="https://b.org/?x=1&amp;y">b</a><a href="b/c.html">'
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b/c.html").write_text(
        '<a href="https://b.org/?x=1&amp;y"></a><a href="http://a.org">'
    )
    assert external_links.external_links(tmp_path) == {
        "http://a.org": ["b/c.html"],
        "https://b.org/?x=1&y": ["a.html", "b/c.html"],
    }


def test_figures_are_enlarged_once():
    figure = (
        '<?xml?>\n<svg height="72pt" viewBox="0 0 144.5 72" width="144.5pt"><g width="1pt"/></svg>'
    )
    found = numbered_plots.enlarged(figure)
    assert found.startswith('<?xml?>\n<svg height="144" viewBox="0 0 144.5 72" width="289">')
    assert found.endswith('<g width="1pt"/></svg>')
    assert numbered_plots.enlarged(found) == found
