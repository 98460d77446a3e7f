"""What all figures and pages of the project share: one style, axes that can be read, one page.

Figures are drawn by matplotlib, of the extra `sweep`, which is imported when it is used.
Pages are single files of HTML that ask nothing of any server.
"""

from ._axis import Axis as Axis
from ._axis import short as short
from ._axis import ticks as ticks
from ._encode import encode as encode
from ._page import copied_text as copied_text
from ._page import filled as filled
from ._page import key_numbers as key_numbers
from ._page import page as page
from ._page import paragraphs as paragraphs
from ._page import section as section
from ._panels import legend as legend
from ._panels import panels as panels
from ._panels import tidy as tidy
from ._style import COLUMN as COLUMN
from ._style import PAGE as PAGE
from ._style import Mark as Mark
from ._style import mark as mark
from ._style import shades as shades
from ._style import style as style
from ._svg import CHART as CHART
from ._svg import interval_chart as interval_chart
from ._svg import svg as svg
from ._svg import svg_line as svg_line
from ._svg import svg_text as svg_text
from ._theme import DARK as DARK
from ._theme import LIGHT as LIGHT
from ._theme import Theme as Theme
