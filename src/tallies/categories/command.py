"""FEM and FEMNetwork on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallies.cli import tables as classifiers
from tallies.data.files import read_frame
from tallies.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def _network(model: Any) -> bool:
    return type(model).__name__ == "FEMNetwork"


def _table(path: str) -> pd.DataFrame:
    """A table, or an alignment in FASTA."""
    suffixes = [s.lower() for s in Path(path).suffixes if s.lower() != ".gz"]
    if suffixes and suffixes[-1] in (".fasta", ".fa", ".a2m", ".a3m", ".aln"):
        from tallies.categories.fasta import read_fasta

        return read_fasta(path)
    return read_frame(path)


def _columns(frame: pd.DataFrame, names: list[str] | None) -> pd.DataFrame:
    return frame if names is None else frame[[classifiers.column(frame, name, "--columns").name for name in names]]


def fit(model: Any, options: Mapping[str, Any], **run: Any) -> Any:
    """Fit a model to the table that the options name."""
    if not _network(model):
        return classifiers.fit(model, options, **run)
    frame, weight = _table(options["data"]), None
    if options.get("weights"):
        weight = classifiers.column(frame, options["weights"], "--weights").to_numpy()
        frame = frame.drop(columns=[options["weights"]])
    return model.fit(_columns(frame, options.get("columns")), sample_weight=weight, **run)


def predict(model: Any, options: Mapping[str, Any], path: str) -> pd.DataFrame:
    """FEM: the predicted class and the probability of each. FEMNetwork: log p of each cell given the rest, and the energy."""
    import pandas as pd

    if _network(model):
        X = _own(model, _table(path), path)
        logs = pd.DataFrame(model.log_conditional(X), columns=[f"log p({name})" for name in model.categories_.names])
        return logs.assign(energy=model.energy(X))
    X, _ = classifiers.features(model, path, options, need_target=False)
    shares = pd.DataFrame(model.predict_proba(X), columns=[f"p({name})" for name in model.classes_.tolist()])
    return pd.concat([pd.Series(model.predict(X), name="prediction"), shares], axis=1)


def _own(model: Any, frame: pd.DataFrame, path: str) -> pd.DataFrame:
    absent = [name for name in model.feature_names_in_ if name not in frame]
    if absent:
        raise DataError(
            f"{path!r} lacks the columns {absent[:10]} that the model was fitted on; add them (empty cells are allowed)"
        )
    return frame[list(model.feature_names_in_)]


def score(model: Any, options: Mapping[str, Any], path: str, seed: int = 0) -> dict[str, Any]:
    """FEM: accuracy, log loss, Brier score, confusion. FEMNetwork: mean log p of a row (pseudo-likelihood)."""
    if not _network(model):
        return classifiers.score(model, options, path)
    found = model._evaluate(_own(model, _table(path), path))
    return {"log_likelihood": found.value, "stderr": found.stderr, "unit": found.unit, "kind": found.kind}


def sample(model: Any, options: Mapping[str, Any], n: int, seed: int | None) -> pd.DataFrame:
    """FEMNetwork: new rows. FEM says nothing about how its inputs come about."""
    if not _network(model):
        raise DataError("FEM models an output given its inputs and cannot draw inputs; fit fem-network to draw whole rows")
    return model.sample(n, random_state=seed) if not model.lag else model.simulate(n, random_state=seed)


def report_data(model: Any, options: Mapping[str, Any], path: str) -> tuple[Any, ...]:
    """What the report judges the model by."""
    return (_own(model, _table(path), path),) if _network(model) else classifiers.report_data(model, options, path)
