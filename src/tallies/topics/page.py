"""The report of a topic model: which topics, in which documents, how well they predict, and whether the sampler had settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from tallies.errors import DataError
from tallies.html.common import About, begin, finish, listing, plural, sampled, statisticians, told
from tallies.html.page import Page, Run, Tag
from tallies.maths import Array, pointer
from tallies.topics import answers
from tallies.topics import views as topics
from tallies.topics.answers import NAMING
from tallies.topics.door import are_texts, opened
from tallies.topics.scores import tokens_of
from tallies.topics.views import Groups, Learned

JUDGED = 2000  # documents that are scored: their error is far below any difference that matters, and a report takes seconds
TYPICAL = 5  # documents shown for a topic
PASSAGES = 700  # documents in the page
LETTERS = 600  # of a document
FEW = 0.1  # a topic with less than this part of an even share is hardly used
FINDABLE = 20_000  # words that the search knows, the most frequent
FEWEST = 5  # documents of a group that say something of it
TOGETHER = 0.1  # correlation of two topics that is worth a sentence
TWINS = 0.3  # Hellinger distance under which two topics say the same


def page(
    model: Any, about: About, X: Any = None, *, texts: Sequence[str] | None = None, group: Any = None, names: Any = None
) -> Page:
    """The report of an LDA. `X`, documents, adds scores and typical documents; `texts`, their texts; `names`, their names;
    `group`, a group, number or date for each, or "authors"."""
    X = X if are_texts(X) else opened(X, model.language_, model.vocabulary_, sentences=True)
    t = _named(topics.learned(model))
    total = float(model.chains_[0].n_k.sum())
    counts = None if X is None else model._counts(X)
    if counts is None and model.fitted_.documents is None:
        told = "this fit holds no documents: they are in files, or the topics came without them"
        raise DataError(f"{told}; give some of them, or new ones, to the report")
    ours = counts is None or _same(counts, model)
    theta = (model.document_topics_ if ours else np.asarray(model.transform(counts)))[:, t.order]
    names = getattr(X, "documents", None) if names is None else names
    if isinstance(group, str) and group == "authors":
        group = [who[0] if who else None for who in X.authors]
    groups = None if group is None else topics.by_group(theta, group)
    score = _score(model, counts) if counts is not None else None
    D, settled = topics.distances(t.phi), settled_after(model.history_, model.n_iter_) if model.converged_ else None
    out = begin(model, about, "Topics of", _lead(model, t))
    out.findings = _findings(about, t, theta, groups, score)
    out.warnings = _warnings(model, about, t, D, counts)
    out.pick("topic", "Topic", t.names, edit=True)
    common = np.argsort(-t.n_w, kind="stable")[:FINDABLE]
    out.search("topics, words, documents", "topic", t.words[common].tolist(), (t.phi[:, common] * t.share[:, None]).argmax(axis=0))
    sizes, words = topics.shares_of(t), topics.words_of(t, total)
    out.hero(sizes, words, None if groups is None else topics.over_groups(groups, t))
    out.face = sizes if len(t.names) > 1 else words
    learned = out.section("learned", "What it learned")
    tops, wide = model.top_words(10, relevance=NAMING), (theta > 0.1).sum(axis=0)
    columns: dict[str, list[Any]] = {
        "topic": t.names,
        "words that tell it": [" ".join(tops[k]) for k in t.order],
        "share of words": [f"{share:.1%}" for share in t.share],
        "documents with a tenth of it": wide.tolist(),
        "number in the model": t.order.tolist(),
    }
    rows = zip(*columns.values(), strict=True)
    learned.table(list(columns), rows, "Topics, the largest first", "topic", range(len(t.names)), first=0)
    learned.charts(topics.map_of(t, D), topics.correlations(theta, t))
    _documents(out, t, theta, counts, _texts(X) if texts is None else texts, names)
    _statistics(out, model, t, score, counts)
    _settled(out, model, settled)
    facts = [
        ("Documents", int(model.chains_[0].lengths.sum())),
        ("Words", f"{model.n_features_in_:,} different, {answers.tokens(model.fitted_):,} tokens"),
        ("Language", model.language_ and f"{model.language_}, without its stop words"),
        ("Kept sweeps", int(model.chains_[0].kept)),
        ("Documents in this report", None if counts is None else counts.shape[0]),
        ("Were these in the fit?", None if counts is None else "yes" if ours else about.whose("no, held out", "yes", "not said")),
    ]
    return finish(out, model, about, facts, _CODE, *_SHELL)


def _same(counts: sp.csr_array, model: Any) -> bool:
    """Whether these are the documents of the fit, token by token."""
    if model.fitted_.documents is None:
        return False
    offsets, words, _ = model.assignments_
    return np.array_equal(pointer(counts.sum(axis=1)), offsets) and np.array_equal(np.repeat(counts.indices, counts.data), words)


def _score(model: Any, counts: sp.csr_array) -> tuple[Any, float, int] | None:
    """The score by document completion, the perplexity of the word frequencies alone, and the number of documents scored."""
    long = np.flatnonzero(counts.sum(axis=1) > 1)
    if not len(long):
        return None
    long = sampled(long, JUDGED)
    some = sp.csr_array(counts[long])
    n_w, n = model.chains_[0].n_wk.sum(axis=1) + len(model.alpha_) * model.beta_, some.sum(axis=0)
    alone = float(np.exp(-(n @ np.log(n_w / n_w.sum())) / n.sum()))
    return model._evaluate(some), alone, len(long)


def _named(t: Learned) -> Learned:
    """With names of words alone, joined by dots; a number only where two would be the same."""
    names = [" · ".join(name.split()[1:]) for name in t.names]
    return t._replace(names=[f"{name} ({k})" if names.count(name) > 1 else name for name, k in zip(names, t.order, strict=True)])


def _lead(model: Any, t: Learned) -> str:
    what = f"{plural(len(t.names), 'topic')} in {plural(int(model.chains_[0].lengths.sum()), 'document')}"
    if len(t.names) == 1:
        return f"{what}: {t.names[0]}."
    first = [f"{name} ({share:.0%})" for name, share in zip(t.names[:3], t.share, strict=False)]
    first[0] = first[0].replace("%)", "% of all words)")
    return f"{what}. The largest are {', '.join(first[:-1])} and {first[-1]}."


def _findings(about: About, t: Learned, theta: Array, groups: Groups | None, score: Any) -> list[str]:
    """What was found, a sentence each."""
    found = []
    if len(t.names) > 1 and len(theta) > 1:
        one = float((theta.max(axis=1) > 0.5).mean())
        found.append(f"In {one:.0%} of the documents one topic has more than half of the words.")
    if groups is not None and len(groups.names) > 1 and len(t.names) > 1:
        enough = groups.n >= FEWEST
        for k in np.argsort(-groups.mean[enough].std(axis=0), kind="stable")[:2] if enough.sum() > 1 else ():
            share = np.where(enough, groups.mean[:, k], np.nan)
            high, low = int(np.nanargmax(share)), int(np.nanargmin(share))
            most, least = (f"{groups.what} {groups.names[g]} ({share[g]:.0%}" for g in (high, low))
            found.append(f"{t.names[k]} is written of most in {most} of the words) and least in {least}).")
    R = np.triu(answers.correlations(theta), 1)
    a, b = np.unravel_index(R.argmax(), R.shape)
    if len(theta) >= FEWEST and R[a, b] > TOGETHER:
        found.append(f"{t.names[a]} and {t.names[b]} are written of in the same documents more than any other two.")
    if score is not None:
        whose, (value, alone, _) = about.whose("unseen", "the fitted", "the given"), score
        good = f"On {whose} documents it predicts words as well as choosing among {np.exp(-value.value):,.0f}"
        found.append(f"{good}; word frequencies alone need {alone:,.0f}.")
    return found


def settled_after(history: Array, n_iter: int) -> int | None:
    """The first sweep whose objective lies where those of the last quarter do; None where there are too few to tell.

    The history ends at sweep `n_iter` and may begin late.

    >>> settled_after(np.append(np.linspace(-9, 0, 10), np.zeros(30)), 40)
    10
    """
    history = np.asarray(history, dtype=float)
    if len(history) < 8:
        return None
    last = history[-(len(history) // 4) :]
    inside = np.flatnonzero(history >= last.mean() - 2 * last.std() - 1e-9 * abs(last.mean()))
    return n_iter - len(history) + int(inside[0]) + 1 if len(inside) else None


def _rise(model: Any) -> str:
    """How much it still gained over the last quarter of the sweeps, in the unit of the score: nats a word."""
    history, words = np.asarray(model.history_), float(model.chains_[0].n_k.sum())
    if len(history) < 8 or not words:
        return ""
    late, before = history[-(len(history) // 8) :], history[-(len(history) // 4) : -(len(history) // 8)]
    rise = float(late.mean() - before.mean()) / words
    return f", by {rise:.2g} nats a word over the last quarter of them" if rise > 0 else ""


def _warnings(model: Any, about: About, t: Learned, D: Array, counts: Any) -> list[str]:
    K, r_hat = len(t.names), model.diagnostics()["r_hat"] if len(model.chains_) > 1 else 1.0
    few = [name for name, share in zip(t.names, t.share, strict=True) if share < FEW / K]
    twins = np.argwhere(np.triu(D < TWINS, 1)).tolist()
    near = [f"{t.names[a]} and {t.names[b]}" for a, b in twins if t.share[b] >= FEW / K]
    empty = 0 if counts is None else int((counts.sum(axis=1) == 0).sum())
    ours = counts is not None and about.held_out is False
    hardly = f"{'is' if len(few) == 1 else 'are'} hardly used ({listing(few, 8)}): fewer topics may do."
    when = f"when the chain was stopped after {plural(model.n_iter_, 'sweep')}{_rise(model)}"
    return told(
        (few, f"{len(few)} of {plural(K, 'topic')} {hardly}"),
        (near, f"{plural(len(near), 'pair')} of topics use nearly the same words ({listing(near, 5)})."),
        (not model.converged_, f"The log likelihood was still rising {when}: raise max_iter and burn_in."),
        (model.chains_[0].kept < 2, "Everything here is of one sweep, not a mean over kept ones: raise max_iter above burn_in."),
        (r_hat > 1.05, f"The chains have not reached the same level (R-hat {r_hat:.2f}, should be under 1.05): raise max_iter."),
        (empty, f"{plural(empty, 'document has', 'documents have')} no word that the model knows."),
        (ours, "The scores are of documents that the model was fitted to; expect less on new ones."),
    )


def _statistics(out: Page, model: Any, t: Learned, score: Any, counts: Any) -> None:
    """Criteria of the fit, and what only those ask for who know the model."""
    rows: list[tuple[str, Any, str]] = []
    columns: dict[str, list[Any]] = {"topic": t.names, "alpha": model.alpha_[t.order].tolist()}
    if score is not None:
        value, alone, n = score
        perplexity = float(np.exp(-value.value))
        more, less = ("", "") if value.stderr is None else (f" ± {perplexity * value.stderr:,.0f}", f" ± {value.stderr:.3f}")
        rows += [
            ("Perplexity", f"{perplexity:,.0f}{more}", f"{value.kind} by document completion on {plural(n, 'document')}"),
            ("Perplexity without topics", f"{alone:,.0f}", "of word frequencies alone; smaller is better"),
            ("Log likelihood of a word", f"{value.value:.3f}{less}", value.unit),
        ]
    if counts is not None and model.n_features_in_ > 1:
        columns["coherence (NPMI)"] = model.coherence(counts)[t.order].round(3).tolist()
        mean = f"{float(np.mean(columns['coherence (NPMI)'])):.3f}"
        rows.append(("Coherence", mean, "mean NPMI of the ten most probable words of a topic; 1 is the most, 0 is chance"))
    last = f"{model.history_[-1]:,.0f}" if len(model.history_) else None
    rows += [
        (model._measure(), last, "after the last sweep, in nats"),
        ("Sum of alpha", f"{model.alpha_.sum():.3g}", "prior of the topics of a document"),
        ("Beta", f"{model.beta_:g}", "prior of the words of a topic"),
    ]
    section = statisticians(out, rows)
    section.table(list(columns), zip(*columns.values(), strict=True), "By topic", "topic", range(len(t.names)))


def _texts(X: Any) -> list[str] | None:
    """Documents that are texts, or the texts of a corpus that kept its sentences."""
    if are_texts(X):
        return list(X)
    if getattr(X, "sentences", None) is None:
        return None
    import pandas as pd

    whole = pd.Series(X.sentences, dtype=object).groupby(X.sentence_document).agg(" ".join)
    return whole.reindex(range(len(X)), fill_value="").tolist()


def _documents(out: Page, t: Learned, theta: Array, counts: Any, texts: Any, names: Any) -> None:
    """Typical documents of every topic: with their words marked where they are known."""
    if texts is not None and len(texts) != len(theta):
        raise DataError(f"there are {len(texts)} texts, but {len(theta)} documents; give one text for each document")
    section = out.section("documents", "Typical documents")
    name = (lambda d: f"document {d}") if names is None else (lambda d: str(names[d]))
    n = np.full(len(theta), 100) if counts is None else counts.sum(axis=1)
    fair = theta * (n / (n + 20.0))[:, None]  # ten words of one topic say less than a thousand
    best = np.argsort(-fair, axis=0, kind="stable")[: max(1, min(TYPICAL, PASSAGES // len(t.names)))]  # (most, K)
    if counts is None:
        keys, most = np.repeat(np.arange(best.shape[1]), len(best)).tolist(), best.T.ravel()
        rows = [[t.names[k], name(d), f"{theta[d, k]:.0%}"] for k, d in zip(keys, most, strict=True)]
        section.table(["topic", "document", "share of its words"], rows, "The documents with most of each topic", "topic", keys)
        section.text("Give the documents to the report to see their words.", soft=True)
        return
    section.text("Words are underlined by the topic that most probably wrote them.", soft=True)
    lookup = {str(w): v for v, w in enumerate(t.words)}
    home: dict[int, list[int]] = {}
    for (_, k), row in np.ndenumerate(best):  # the most typical document of every topic first
        if t.share[k] > 0:
            home.setdefault(int(row), []).append(k)
    items = []
    for d, keys in home.items():
        first = np.argsort(-theta[d], kind="stable")[:4].tolist()
        lead = [k for k in first if theta[d, k] >= 0.05 or k == first[0]]
        tags: list[Tag] = [(f"{t.names[k]} {theta[d, k]:.0%}", "topic", k, _mark(k)) for k in lead]
        text = texts[d] if texts is not None else None
        runs = _marked(text, theta[d], t, lead, lookup) if text is not None else _bag(counts, d, theta[d], t, lead)
        items.append((keys, f"{name(d)}, {int(n[d]):,} words", tags, runs))
    section.passages(items, "topic", "Search in these documents", most=6)


def _run(text: str, v: int, theta: Array, t: Learned, lead: list[int]) -> Run:
    k = int((theta * t.phi[:, v]).argmax())
    return (text, _mark(k), f"topic {t.names[k]}") if k in lead else (text, "", "")


def _mark(k: int) -> str:
    """The mark of a topic: its colour, and a line of its own."""
    return f"m{k % 12}"


def _marked(text: str, theta: Array, t: Learned, lead: list[int], lookup: dict[str, int]) -> list[Run]:
    """A text with each known word marked by the topic that most probably wrote it."""
    from tallies.data.text import WORD

    text = text if len(text) <= LETTERS else text[: LETTERS - 1].rsplit(" ", 1)[0] + " …"
    runs: list[Run] = []
    end = 0
    for match in WORD.finditer(text):
        word = match[0].lower().replace("’", "'")
        v = lookup.get(word, lookup.get(word.rpartition("'")[2]))  # "l'homme" is the word "homme"
        if v is not None:
            runs += [(text[end : match.start()], "", ""), _run(match[0], v, theta, t, lead)]
            end = match.end()
    return [*runs, (text[end:], "", "")]


def _bag(counts: sp.csr_array, d: int, theta: Array, t: Learned, lead: list[int]) -> list[Run]:
    """A document of which only counts are known: its most frequent words."""
    words, n = np.unique(tokens_of(counts, d), return_counts=True)
    runs: list[Run] = []
    for i in np.argsort(-n, kind="stable")[:40]:
        runs += [_run(str(t.words[words[i]]), int(words[i]), theta, t, lead), (f" ×{n[i]}  " if n[i] > 1 else "  ", "", "")]
    return [*runs, ("…" if len(words) > 40 else "", "", "")]


def _settled(out: Page, model: Any, when: int | None) -> None:
    say, chains = "No, or there were too few sweeps to tell: see the curve.", ""
    if when is not None:
        say = f"Yes: from sweep {when:,} on the log likelihood stayed where it ended; {model.n_iter_:,} sweeps were made."
    if len(model.chains_) > 1:
        chains = (
            f"{len(model.chains_)} chains: R-hat {{r_hat:.3f}} (under 1.05 they agree), effective sample size of the log "
            "likelihood {effective_size:.0f}. Predictions are averaged over them; the topics shown are of the first."
        ).format(**model.diagnostics())
    curve = topics.chains(model) if len(model.history_) > 1 else None
    out.section("convergence", "Did the sampler settle?").text(say, chains).charts(curve)


_CODE = """\
model.transform(["a new text"])          # shares of the topics; words are matched to the model's by name
model.topic_names_                       # number and words of every topic
model.similar(["a new text"], n=5)       # the fitted documents nearest in topics"""
_SHELL = "predict RUN texts.jsonl   # topics of new texts", "score RUN texts.jsonl", "report RUN texts.jsonl"
