"""Topics that another program has found, as a fitted LDA: for reports, `transform` and scores, or to go on from. And a fitted LDA
for other programs: into an AnnData, and its chains for ArviZ."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from tallies.data.annotated import annotate, check
from tallies.errors import DataError, FileError, need, need_file
from tallies.estimator import Inputs, Run
from tallies.evaluation.draws import inference_data
from tallies.topics.answers import (
    Array,
    Assignments,
    Documents,
    Fitted,
    document_topics,
    settled,
    topic_names,
    word_probabilities,
)
from tallies.topics.model import Params

MALLET = "#doc source pos typeindex type topic"  # the first line of a state


def of_tokens(document: Array, word: Array, topic: Array, alpha: Array, beta: float, vocabulary: Any, documents: int) -> Fitted:
    """From the document, the word and the topic of every token."""
    V, K, N = len(vocabulary), len(alpha), len(word)
    one = np.ones(N, dtype=np.int64)
    n_wk, n_dk = (sp.csr_array((one, (row, topic)), shape=(n, K)) for row, n in ((word, V), (document, documents)))
    for counts in (n_wk, n_dk):
        counts.sum_duplicates()
    lengths = np.bincount(document, minlength=documents)
    n_k = np.asarray(n_wk.sum(axis=0))
    chain = Params(alpha, beta, np.bincount(lengths), n_k, n_wk, np.zeros(K), t=1).with_sample()
    order = np.lexsort((word, document))
    assignments = Assignments(np.append(0, np.cumsum(lengths)), word[order], topic[order])
    history = np.array([log_joint(n_wk, n_dk, alpha, beta)])
    run = Run(history, 1, converged=True, stopped="limit", seed=0)
    inputs = Inputs(V, np.asarray(vocabulary, dtype=object))
    return Fitted(run, inputs, 0, (chain,), (history,), Documents(n_dk.astype(np.float64), assignments))


def log_joint(n_wk: sp.csr_array, n_dk: sp.csr_array, alpha: Array, beta: float) -> float:
    """log p(w, z), eq. 2 of `model`."""
    V, A, rest = n_wk.shape[0], alpha.sum(), n_dk.tocoo()
    words = np.sum(gammaln(V * beta) - gammaln(n_wk.sum(axis=0) + V * beta)) + np.sum(gammaln(n_wk.data + beta) - gammaln(beta))
    mixed = np.sum(gammaln(rest.data + alpha[rest.col]) - gammaln(alpha[rest.col]))
    return float(words + mixed + np.sum(gammaln(A) - gammaln(n_dk.sum(axis=1) + A)))


def read_mallet(path: str | Path) -> Fitted:
    """From a state that MALLET has written (`--output-state`), compressed or not."""
    path = need_file(path, "a state written by MALLET")
    with open(path, "rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    prior: dict[str, Array] = {}
    rows: list[tuple[int, str, int]] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") if packed else open(path, encoding="utf-8") as lines:
            if next(lines, "").strip() != MALLET:
                raise FileError(f"expected a state written by MALLET, whose first line is {MALLET!r}, but {path} has another")
            for number, line in enumerate(lines, 2):
                if line.startswith(("#alpha", "#beta")):
                    name, _, values = line[1:].partition(":")
                    prior[name.strip()] = np.array(values.split(), dtype=float)
                    continue
                cells = line.strip("\n ").split(" ")  # a word may hold other blanks, such as that in 10\u00a0km
                if len(cells) < 6 or not (cells[0].isdigit() and cells[-1].isdigit()):
                    raise FileError(
                        f"line {number} of {path} should have a document, a word and a topic, and is {line.strip()[:60]!r}"
                    )
                rows.append((int(cells[0]), cells[-2], int(cells[-1])))  # a source may have blanks
    except FileError:
        raise
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise FileError(f"expected a state written by MALLET, but {path} is truncated or damaged ({error})") from error
    if not rows or "alpha" not in prior or len(prior.get("beta", ())) != 1:
        raise FileError(f"{path} has no tokens, or no lines #alpha and #beta; write it with --output-state")
    document, words, topic = zip(*rows, strict=True)
    vocabulary, word = np.unique(np.array(words, dtype=object), return_inverse=True)
    if max(topic) >= len(prior["alpha"]):
        raise FileError(f"{path} has topic {max(topic)}, but #alpha tells of {len(prior['alpha'])}")
    return of_tokens(
        np.array(document), word, np.array(topic), prior["alpha"], float(prior["beta"][0]), vocabulary, max(document) + 1
    )


def load_tomotopy(path: Path) -> Any:
    """The model in a file. A damaged file ends the process that reads it, or keeps it for ever: another process tries first."""
    tomotopy = need("tomotopy", "bench", "Reading models of tomotopy")
    load = "import sys, tomotopy; tomotopy.LDAModel.load(sys.argv[1])"
    wait = 60 + path.stat().st_size / 1e6  # seconds; a sound file is read faster than a megabyte in each
    try:
        subprocess.run([sys.executable, "-c", load, str(path)], capture_output=True, check=True, timeout=wait)
    except subprocess.SubprocessError as error:
        raise FileError(
            f"expected a file that tomotopy.LDAModel.save has written, but {path} is of another model, or damaged"
        ) from error
    return tomotopy.LDAModel.load(str(path))


def of_tomotopy(model: Any) -> Fitted:
    """From a `tomotopy.LDAModel`, or the file of one."""
    if isinstance(model, str | Path):
        model = load_tomotopy(need_file(model, "a model saved by tomotopy"))
    name = type(model).__name__
    if name != "LDAModel":  # its other models derive from this one, and mean other things by the same names
        hint = "pass model.convert_to_lda()[0]" if name == "HDPModel" else "pass the trained model"
        raise DataError(f"expected a tomotopy.LDAModel, or the path of one, got {name}; {hint}")
    if int(model.tw) != 0:
        raise DataError("expected a model of tomotopy whose tokens count 1 each, got one that weights them; train it with tw=0")
    kept = len(model.used_vocabs)  # words that are left out have larger numbers
    pairs = [(np.asarray(doc.words, dtype=np.int64), np.asarray(doc.topics, dtype=np.int64)) for doc in model.docs]
    if not any(len(topics) for _, topics in pairs):  # none before training
        raise DataError("the model of tomotopy has no documents with topics; train it, and save it with full=True")
    tokens = [np.array(pair)[:, pair[0] < kept] for pair in pairs]
    document = np.repeat(np.arange(len(tokens)), [part.shape[1] for part in tokens])
    word, topic = np.hstack(tokens)
    alpha = np.broadcast_to(np.asarray(model.alpha, dtype=float), (model.k,)).copy()
    return of_tokens(document, word, topic, alpha, float(model.eta), list(model.used_vocabs), len(tokens))


def check_model(model: Any, wanted: str, *attributes: str) -> None:
    """Refuse what is no model of another library."""
    if not all(hasattr(model, name) for name in attributes):
        raise DataError(f"expected a {wanted}, got {type(model).__name__}; pass the trained model")


def of_gensim(model: Any) -> Fitted:
    """From a `gensim.models.LdaModel`: topics and their weights; it keeps no documents."""
    check_model(model, "gensim.models.LdaModel", "get_topics", "state", "id2word", "passes")
    phi, weights = np.asarray(model.get_topics(), dtype=float), np.asarray(model.state.get_lambda(), dtype=float)
    (K, V), eta = phi.shape, float(np.mean(model.eta))
    counts = np.rint(np.maximum(weights - eta, 0.0)).astype(np.int64)
    n_wk = sp.csr_array(counts.T)
    vocabulary = np.array([model.id2word[v] for v in range(V)], dtype=object)
    chain = Params(
        alpha=np.broadcast_to(np.asarray(model.alpha, dtype=float), (K,)).copy(),
        beta=eta,
        lengths=np.zeros(1, dtype=np.int64),  # not known
        n_k=counts.sum(axis=1),
        n_wk=n_wk,
        smooth=np.zeros(K),
        phi=sp.csr_array(phi.T),
        kept=1,
        t=1,
    )
    run = Run(np.zeros(0), int(model.passes), converged=True, stopped="limit", seed=0)
    return Fitted(run, Inputs(V, vocabulary), 0, (chain,), (np.zeros(0),), None)


# for other programs


def into_anndata(fitted: Fitted, data: Any, key: str, settings: str) -> Any:
    """Write topics of documents and words into the AnnData that the fit was made of, or one of the same rows and columns."""
    held = fitted.documents is not None
    check(data, fitted.known.n_dk.shape[0] if held else None, fitted.inputs.n, None, fitted.inputs.names)
    rows = {f"X_{key}": document_topics(fitted) if held else None}
    about = {
        "model": settings,
        "converged": bool(fitted.run.converged),
        "alpha": fitted.first.alpha,
        "beta": float(fitted.first.beta),
    }
    last = {"log_joint": float(fitted.run.history[-1])} if len(fitted.run.history) else {}
    return annotate(
        data, rows, {f"{key}_topics": word_probabilities(fitted).T}, key, about | last | {"topics": topic_names(fitted)}
    )


def chains(fitted: Fitted) -> Any:
    """The log joint of each chain by sweep: after burn-in as the posterior, before it as warm-up.

    Chains that ended apart are cut to the sweeps that the shortest has, the last of each.
    """
    late = settled(fitted)
    early = [h[: len(h) - len(kept)] for h, kept in zip(fitted.histories, late, strict=True)]
    groups: dict[str, Any] = {}
    for group, histories in (("posterior", late), ("warmup_posterior", early)):
        n = min(map(len, histories))
        if n:
            groups[group] = {"log_joint": (("chain", "draw"), np.array([history[-n:] for history in histories]))}
    if "posterior" not in groups:
        raise DataError(
            "there is no sweep with a log joint to show: the topics came from elsewhere, or the fit was cut; fit longer"
        )
    return inference_data({"chain": np.arange(len(late))}, **groups)
