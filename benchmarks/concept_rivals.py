"""Other ways to rank the concepts of an ontology for a sentence: TF-IDF, BM25, and a dictionary with a back-off."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import scipy.sparse as sp

from tallies.concepts import mention

DEEP = 100  # concepts ranked for each sentence


def surfaces(text):
    return [mention.analyse(t)[0] for t in mention.content(text)]


def stems(text):
    return [mention.analyse(t)[1] for t in mention.content(text)]


class Retrieval:
    """Best string of each concept by a sparse product: TF-IDF cosine, or BM25."""

    def __init__(self, ontology, words, synonyms, kind):
        self.words, self.G = words, len(ontology)
        texts = list(enumerate(ontology.names))
        if synonyms:
            texts += [(g, s) for g, several in enumerate(ontology.synonyms) for s in several]
        rows = [words(t) for _, t in texts]
        self.owner = np.array([g for g, _ in texts])
        self.place = {}
        cells = [(i, self.place.setdefault(w, len(self.place))) for i, row in enumerate(rows) for w in row]
        i, j = np.array(cells).T
        X = sp.csr_array((np.ones(len(i)), (i, j)), shape=(len(rows), len(self.place)))
        X.sum_duplicates()
        df = np.bincount(X.indices, minlength=X.shape[1])
        self.idf = np.log((1 + len(rows)) / (1 + df)) + 1
        length = np.asarray(X.sum(axis=1)).ravel()
        if kind == "tfidf":
            X = X * self.idf
            norm = np.sqrt(np.asarray((X * X).sum(axis=1)).ravel())
            X = sp.csr_array(X / np.maximum(norm, 1e-12)[:, None])
        else:
            n = np.repeat(length, np.diff(X.indptr))
            X.data = (
                X.data
                * 2.2
                / (X.data + 1.2 * (0.25 + 0.75 * n / length.mean()))
                * np.log(1 + (len(rows) - df + 0.5) / (df + 0.5))[X.indices]
            )
        self.kind, self.T = kind, sp.csr_array(X.T)

    def scores(self, text):
        """(G,) score of the best string of every concept."""
        n = Counter(self.place[w] for w in self.words(text) if w in self.place)
        best = np.zeros(self.G)
        if not n:
            return best
        at, x = np.array(list(n)), np.array(list(n.values()), dtype=float)
        if self.kind == "tfidf":
            x *= self.idf[at]
            x /= np.linalg.norm(x)
        part = sp.csr_array((x, at, [0, len(at)]), shape=(1, len(self.place))) @ self.T
        np.maximum.at(best, self.owner[part.indices], part.data)
        return best


class Dictionary:
    """Exact phrases of names and synonyms, longest first, names before synonyms; then the best string by TF-IDF."""

    def __init__(self, ontology):
        self.back = Retrieval(ontology, stems, True, "tfidf")
        self.phrases = defaultdict(dict)
        for g, name in enumerate(ontology.names):
            for text, other in ((name, 0.5), *((s, 0.0) for s in ontology.synonyms[g])):
                key = tuple(surfaces(text))
                if key:
                    self.phrases[key][g] = max(other, self.phrases[key].get(g, 0.0))
        self.longest = max(map(len, self.phrases))

    def scores(self, text):
        words, best = surfaces(text), self.back.scores(text)
        found = {}
        for a in range(len(words)):
            for n in range(1, min(self.longest, len(words) - a) + 1):
                for g, bonus in self.phrases.get(tuple(words[a : a + n]), {}).items():
                    found[g] = max(found.get(g, 0.0), n + bonus)
        for g, value in found.items():
            best[g] += 10 + value
        return best


def ranked(scores):
    best = np.argpartition(-scores, DEEP)[:DEEP]
    best = best[np.argsort(-scores[best], kind="stable")]
    return best[scores[best] > 0]
