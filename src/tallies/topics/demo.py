"""LDA in the gallery of `tallies demo`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallies.datasets import letters
from tallies.demo import Exhibit
from tallies.topics.estimator import LDA


def _topics() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    data = letters()
    late = np.arange(len(data.texts)) % 4 == 0
    early, later = data.take(~late), data.take(late)
    corpus = early.corpus(min_df=3, max_df=0.3)
    unseen = later.corpus(vocabulary=corpus.vocabulary.tolist())
    model = LDA(n_topics=8, random_state=1).fit(corpus)
    group = [int(month) for month in later.authors]
    return model, (unseen,), {"texts": later.texts, "group": group, "data_name": data.about, "held_out": True}


EXHIBITS = (Exhibit("topics.html", "Topics of letters to a newspaper", _topics),)
