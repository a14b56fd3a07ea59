"""Networks of categories as graphs."""

import numpy as np
import pandas as pd
import pytest

from tallies import FEMNetwork


@pytest.mark.parametrize("lag", [0, 1])
def test_a_network_as_a_graph_has_the_pairs_of_the_table(lag):
    networkx = pytest.importorskip("networkx", reason="needs tallies[graphs]")
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=300)
    X = pd.DataFrame({"a": a, "b": np.where(rng.random(300) < 0.9, a, 1 - a), "c": rng.integers(2, size=300), "d": a[::-1]})
    model = FEMNetwork(ridge=1.0, lag=lag).fit(X)
    graph, table = model.to_networkx(), model.top_couplings(100).query("score > 0")
    assert isinstance(graph, networkx.DiGraph) == bool(lag)
    assert list(graph) == ["a", "b", "c", "d"]
    assert len(table) == graph.number_of_edges() > 0
    for row in table.itertuples():
        assert graph.edges[row.a, row.b] == {
            "weight": row.score,
            "score": row.score,
            "strongest": row.strongest,
            "coupling": row.coupling,
        }
    assert graph.has_edge("a", "b") or lag
    assert len(model.to_networkx(top=1).edges) == 1
