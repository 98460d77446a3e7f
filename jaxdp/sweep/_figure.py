"""Drawing results, the same bytes every time."""

from typing import TYPE_CHECKING

from .. import figures
from ._experiment import Experiment
from ._store import Store, figure_files

if TYPE_CHECKING:
    import pyarrow as pa


def save_figure(experiment: Experiment, results: "pa.Table", store: Store) -> None:
    """Draws an experiment's figure, in the project's style, and writes it in each format."""
    assert experiment.figure is not None
    with figures.style():
        figure = experiment.figure(results)
        files = {file.rpartition(".")[2]: file for file in figure_files(experiment.name)}
        for kind, content in figures.encode(figure, list(files), name=experiment.name).items():
            store.folder.replace(files[kind], content)
