"""Fenced code blocks of Markdown pages, for the tests that run them."""

import re
from collections.abc import Iterator


def fenced(text: str, language: str) -> Iterator[tuple[int, str]]:
    """(line number, content) of the fenced blocks of one language, in order."""
    for block in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text[: block.start(1)].count("\n"), block[1]
