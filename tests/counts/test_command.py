"""The command module of PLN, without the command line around it."""

import numpy as np
import pandas as pd
import pytest

from tallies.counts import command as commands
from tallies.counts.estimator import PLN
from tallies.errors import DataError


def test_fit_predict_score_sample(tmp_path):
    rng = np.random.default_rng(0)
    site = np.array(["east", "west"])[np.arange(40) % 2]
    Y = pd.DataFrame(rng.poisson(np.exp(rng.normal(1, 0.5, (40, 3)))), columns=list("abc"), index=[f"s{i}" for i in range(40)])
    Y.to_csv(tmp_path / "y.csv")
    pd.DataFrame({"sample": Y.index, "site": site}).iloc[::-1].to_csv(tmp_path / "x.csv", index=False)
    options = {"data": str(tmp_path / "y.csv"), "covariates": str(tmp_path / "x.csv"), "formula": "~ 1 + site", "offsets": "logsum"}
    model = commands.fit(PLN(), options)
    assert list(model.covariate_names_) == ["Intercept", "site[T.west]"]
    assert commands.fit(PLN(), {**options, "formula": None}).elbo_ == pytest.approx(model.elbo_)
    assert commands.predict(model, options, options["data"]).index.tolist() == Y.index.tolist()
    found = commands.score(model, options, options["data"])
    assert found["variational"]["value"] <= found["importance"]["value"] + 4 * found["importance"]["stderr"]
    assert commands.sample(model, options, 4, 0).columns.tolist() == list("abc")
    with pytest.raises(DataError, match="needs --covariates"):
        commands.fit(PLN(), {"data": options["data"], "formula": "~ 1"})
