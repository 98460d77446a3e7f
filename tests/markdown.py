"""Fenced code blocks of Markdown pages, for the tests that run them."""

import re
import textwrap
from collections.abc import Iterator


def fenced(text: str, language: str) -> Iterator[tuple[int, str]]:
    """(line number, content) of the fenced blocks of one language, in order, those of lists too."""
    fence = rf"^( *)```{language}\n(.*?)^\1```$"
    for block in re.finditer(fence, text, re.MULTILINE | re.DOTALL):
        yield text[: block.start(2)].count("\n"), textwrap.dedent(block[2])
