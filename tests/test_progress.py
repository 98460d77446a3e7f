"""Who is told what takes so long, and when."""

import sys
import time

import pytest

from jaxdp import _progress
from jaxdp._progress import telling


def on_a_terminal(monkeypatch):
    """To be called in the test itself: what captures stderr is another object before."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm")):  # rich draws as on a terminal
        monkeypatch.setenv(name, value)


def test_a_terminal_is_told_after_a_while(monkeypatch, capsys):
    on_a_terminal(monkeypatch)
    monkeypatch.setattr(_progress, "_PATIENCE", 0.05)
    with telling(None, "first") as tell:
        tell("second")
        time.sleep(0.5)
    shown = capsys.readouterr()
    assert "second" in shown.err
    assert shown.out == ""


def test_what_is_quick_is_not_told(monkeypatch, capsys):
    on_a_terminal(monkeypatch)
    with telling(None, "first") as tell:
        tell("second")
    assert "second" not in capsys.readouterr().err


@pytest.mark.parametrize("progress", [None, False])
def test_files_are_not_told(progress, monkeypatch, capsys):
    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: progress is False)
    with telling(progress, "first") as tell:
        tell("second")
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_an_error_ends_it(monkeypatch, capsys):
    on_a_terminal(monkeypatch)
    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
    with pytest.raises(KeyError), telling(None, "first"):
        raise KeyError(time.sleep(0.1))
    with pytest.raises(TypeError, match="progress must be"), telling("yes", "first"):  # pyright: ignore[reportArgumentType]
        pass
