"""What users ask of a network of counts: edges, neighbours, graphs. Functions of the fitted record."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pandas as pd

from tallies.counts.answers import bic, place
from tallies.counts.fitted import Fitted, Graph
from tallies.counts.network.plan import criterion
from tallies.errors import DataError

UNSETTLED = 1e-6  # duality gap, a column, from which on a lasso is called unsettled
SURE = 0.9  # selection probability from which an edge is called sure


def _graph(fitted: Fitted) -> Graph:
    assert fitted.graph is not None
    return fitted.graph


def partial_correlations(fitted: Fitted) -> np.ndarray:
    """Partial correlations of the columns given all others (p, p): 0 where they are not joined, 1 on the diagonal."""
    Omega = _graph(fitted).Omega
    size = np.sqrt(Omega.diagonal())
    out = -Omega / np.outer(size, size) + 0.0  # no -0
    np.fill_diagonal(out, 1.0)
    return out


def probabilities(fitted: Fitted) -> np.ndarray | None:
    """Shares of the subsamples in which each pair was chosen, at the chosen penalty (p, p); None without subsamples."""
    graph = _graph(fitted)
    if graph.probability is None:
        return None
    out, (a, b) = np.zeros_like(graph.Omega), graph.pairs.T
    out[a, b] = out[b, a] = graph.probability
    return out


def support(fitted: Fitted) -> np.ndarray | None:
    """How early each pair enters the path, and how often subsamples choose it along the path, the mean of both (p, p): the order of
    the pairs by which most true edges come first; None without subsamples."""
    return _graph(fitted).support


def path(fitted: Fitted) -> pd.DataFrame:
    """The penalties that were tried, the largest first: edges, and what was known of them; `chosen` marks the one taken."""
    graph = _graph(fitted)
    found = graph.path
    table = pd.DataFrame({"penalty": found.penalty, "edges": found.edges})
    if found.loglik is not None:
        (d, p), N = fitted.model.B.shape, float(fitted.data.v.sum())
        bic, ebic = (criterion(found, d, p, N, gamma) for gamma in (0.0, graph.gamma))
        table = table.assign(loglik=found.loglik, bic=bic, ebic=ebic)
    if found.instability is not None:
        table["instability"] = found.instability
    return table.assign(chosen=found.penalty == graph.penalty)


def ebic_of(fitted: Fitted) -> float:
    """Extended BIC of the fit: BIC + 4 gamma |edges| log p, with the `gamma` of the fit; smaller is better."""
    Omega, gamma = _graph(fitted).Omega, _graph(fitted).gamma
    return bic(fitted) + 4 * gamma * np.count_nonzero(np.triu(Omega, 1)) * np.log(len(Omega))


def edges(fitted: Fitted) -> pd.DataFrame:
    """The edges, those chosen most often first: names a and b, partial correlation, sign, probability, the share of the subsamples
    in which the edge was chosen, and support, by which those chosen as often are ordered (both NaN without subsamples)."""
    graph, names = _graph(fitted), np.array([str(c) for c in fitted.columns], dtype=object)
    a, b = graph.pairs.T
    there = graph.Omega[a, b] != 0
    a, b, strength = a[there], b[there], partial_correlations(fitted)[a[there], b[there]]
    share = np.full(len(a), np.nan) if graph.probability is None else graph.probability[there]
    support = np.full(len(a), np.nan) if graph.support is None else graph.support[a, b]
    order = np.lexsort((-np.abs(strength), -np.nan_to_num(support), -np.nan_to_num(share)))
    columns = {"a": names[a], "b": names[b], "partial_correlation": strength, "sign": np.where(strength > 0, "+", "-")}
    return pd.DataFrame({**columns, "probability": share, "support": support}).iloc[order].reset_index(drop=True)


def neighbours(fitted: Fitted, column: Any) -> pd.DataFrame:
    """The columns joined to one, the strongest first."""
    name, table = str(fitted.columns[place(fitted, column)]), edges(fitted)
    mine = table[(table["a"] == name) | (table["b"] == name)]
    out = mine.drop(columns=["a", "b"])
    out.insert(0, "neighbour", np.where(mine["a"] == name, mine["b"], mine["a"]))
    return out.iloc[np.argsort(-np.abs(out["partial_correlation"].to_numpy()), kind="stable")].reset_index(drop=True)


def likely(fitted: Fitted, probability: float, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """The edges of at least that probability, of a table that may have more columns."""
    table = edges(fitted) if table is None else table
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must lie between 0 and 1, got {probability!r}")
    if probability and _graph(fitted).probability is None:
        raise DataError('there are no selection probabilities without subsamples; fit with select="stability"')
    return table[~(table["probability"] < probability)]


def to_networkx(fitted: Fitted, probability: float = 0.0, table: pd.DataFrame | None = None) -> Any:
    """The network as a graph of networkx."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError('graphs need networkx: pip install "tallies[graphs]", or read edges_, a table') from error
    graph = networkx.Graph()
    graph.add_nodes_from((str(name), {"total": float(n)}) for name, n in zip(fitted.columns, fitted.data.seen, strict=True))
    for row in likely(fitted, probability, table).to_dict("records"):
        a, b = row.pop("a"), row.pop("b")
        known = {str(k): v for k, v in row.items() if v == v}  # without NaN
        graph.add_edge(a, b, weight=abs(row["partial_correlation"]), **known)
    return graph


def communities(fitted: Fitted, probability: float = 0.0, resolution: float = 1.0) -> list[list[str]]:
    """Groups of columns with many edges inside; columns without an edge are in none."""
    graph = to_networkx(fitted, probability)
    graph.remove_nodes_from([node for node, degree in list(graph.degree) if not degree])
    if not len(graph):
        return []
    from networkx.algorithms.community import greedy_modularity_communities

    return [sorted(map(str, group)) for group in greedy_modularity_communities(graph, weight="weight", resolution=resolution)]


def export(fitted: Fitted, path: str | FilePath, probability: float = 0.0, table: pd.DataFrame | None = None) -> FilePath:
    """Write the edges, or the table of them that is given, to a file whose ending says how."""
    path = FilePath(path)
    kind = path.suffix.lower()
    if kind == ".graphml":
        graph = to_networkx(fitted, probability, table)
        import networkx

        networkx.write_graphml(graph, path)
    elif kind in (".csv", ".tsv"):
        likely(fitted, probability, table).to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    else:
        raise DataError(f"a network is written to .csv, .tsv or .graphml, got {path.name!r}; choose one of these endings")
    return path


def export_difference(table: pd.DataFrame, path: str | FilePath, probability: float) -> FilePath:
    """Write differences between two networks to a file."""
    path = FilePath(path)
    if probability:
        raise DataError("differences are those of all pairs, whatever their probability; leave probability out")
    if path.suffix.lower() not in (".csv", ".tsv"):
        raise DataError(f"differences are written to .csv or .tsv, got {path.name!r}; choose one of these endings")
    table.to_csv(path, index=False, sep="\t" if path.suffix.lower() == ".tsv" else ",")
    return path


# in words


def how(fitted: Fitted) -> str:
    """How many edges, and how the penalty was chosen."""
    graph = _graph(fitted)
    k, p = int(np.count_nonzero(np.triu(graph.Omega, 1))), len(graph.Omega)
    text = f"{k} edges of {p * (p - 1) // 2} pairs, penalty {graph.penalty:.3g}"
    if graph.rule == "stability" and graph.path.instability is not None:
        at = int(np.flatnonzero(graph.path.penalty == graph.penalty)[0])
        text += f", chosen by stability of {graph.subsamples} subsamples (instability {graph.path.instability[at]:.3f})"
    elif graph.rule is not None:
        text += f", chosen by {graph.rule.upper()}" if graph.rule != "stability" else ""
    if graph.probability is not None:
        table = edges(fitted)
        text += f"; {int((table['probability'] >= SURE).sum())} edges with a probability of {SURE} or more"
    return text


def strongest(fitted: Fitted) -> list[tuple[str, str]]:
    """The first edges."""
    table = edges(fitted)[:3]
    told = [f"{a} {sign} {b} ({strength:+.2f})" for a, b, strength, sign in table.iloc[:, :4].to_numpy()]
    return [("strongest edges", ", ".join(told))] if told else []


def caveats(fitted: Fitted, limit: float) -> list[str]:
    """What a user should know before trusting the network."""
    graph, found = _graph(fitted), []
    if graph.rule is not None and graph.penalty == graph.path.penalty[-1] and graph.path.edges[-1]:
        found.append(
            f"the smallest penalty of the path, {graph.penalty:.3g}, was chosen: an even smaller one might be better; lower "
            "min_ratio, or pass smaller penalties"
        )
    if graph.rule is not None and not graph.Omega[np.triu_indices(len(graph.Omega), 1)].any() and graph.path.edges.any():
        rule, why, other = graph.rule.upper(), "none is worth its price", 'try select="stability"'
        if graph.rule == "stability":
            rule, why, other = "stability", "with edges the subsamples agree too little", f"try a larger instability than {limit:g}"
        most, some = graph.path.edges.max(), graph.path.penalty[len(graph.path.penalty) // 2]
        found.append(
            f"{rule} chose a network without any edge, though smaller penalties have up to {most:,}: {why}; {other}, "
            f"a penalty of your own such as {some:.3g}, fewer columns (leave out the rarest), or more samples"
        )
    if graph.rule == "stability" and graph.probability is None:
        found.append("the fit was stopped before two subsamples were done: there are no selection probabilities; resume it")
    if graph.gap > UNSETTLED:
        found.append(
            f"the graphical lasso did not settle: its value may be {graph.gap:.2g} a column above the least; use a larger penalty, "
            "or drop columns that are nearly the same as others"
        )
    return found
