"""Wrongs in what is read and counted before any model sees it."""

from wrongs import Wrong

COLUMNS, DIALECT, DRESSED, EDGES, TABLE = (f"data/{name}.py" for name in ("columns", "dialect", "dressed", "edges", "table"))
BAGS, CORPUS, KINDS, LABELS, LAZY, ONTOLOGY, WRITTEN, TEXT = (
    f"data/{name}.py" for name in ("bags", "corpus", "kinds", "labels", "lazy", "ontology", "written", "text")
)

WRONGS = [
    Wrong(CORPUS, "pieces.sum_duplicates()", "pieces.sum_duplicates(), pieces.data.fill(1)", "a word counted once a sentence"),
    Wrong(
        CORPUS,
        "frequency = np.bincount(counts.indices, minlength=counts.shape[1])",
        "frequency = np.asarray(counts.sum(axis=0)).ravel()",
        "min_df of occurrences, not of documents",
    ),
    Wrong(CORPUS, "(frequency >= least) & (frequency <= most)", "(frequency > least) & (frequency <= most)", "min_df off by one"),
    Wrong(CORPUS, "(frequency >= least) & (frequency <= most)", "(frequency >= least) & (frequency < most)", "max_df off by one"),
    Wrong(CORPUS, "max_df * D if isinstance", "max_df if isinstance", "a share of documents taken for a number of them"),
    Wrong(
        BAGS, "first + order", "order", "texts in files: rows of a document counted from its piece on", ("topics/test_files.py",)
    ),
    Wrong(
        BAGS, "BETWEEN {least!r} AND", "BETWEEN {least + 1!r} AND", "texts in files: min_df off by one", ("topics/test_files.py",)
    ),
    Wrong(CORPUS, "home.append(d)", "home.append(max(d - 1, 0))", "sentences of the document before"),
    Wrong(CORPUS, "for a, b in pairwise(words)", "for a, b in pairwise(words[1:])", "the first pair of words lost"),
    Wrong(CORPUS, "np.repeat(np.arange(len(d)), ends[1] - ends[0])", "of[s]", "sentences of a part keep the numbers of the whole"),
    Wrong(KINDS, "gaps, levels = len(column) - len(known)", "gaps, levels = len(known)", "cells with a value counted as gaps"),
    Wrong(KINDS, "own = levels == len(known) > FEW", "own = levels == len(column) > FEW", "a code with a gap is no id"),
    Wrong(KINDS, "len(unique(values[~missing]))", "len(unique(values))", "a gap counted as a level"),
    Wrong(
        LABELS, "(np.cumsum(seen) - 1).astype(np.int32)", "np.arange(len(seen), dtype=np.int32)", "codes with holes between classes"
    ),
    Wrong(
        LABELS,
        "np.bincount(present.astype(np.int64) - low) > 0",
        "np.bincount(present.astype(np.int64) - low) > 1",
        "classes of one row lost",
    ),
    Wrong(LABELS, "return absent | (y == -1) if", "return absent if", "the class -1 taken for a label"),
    Wrong(
        LAZY,
        "return Fact(type, kind, known, levels, low, high, rows - known, cell)",
        "return Fact(type, kind, known, levels, low, high, known, cell)",
        "gaps of a lazy table",
    ),
    Wrong(LAZY, "at + n - ends[-1] > size", "at + n > size", "pieces of a row group each after the first"),
    Wrong(WRITTEN, "\"english\": \"replace(CELL, ',', '')\"", "\"english\": \"replace(CELL, ',', '.')\"", "1,234 read as 1.234"),
    Wrong(WRITTEN, "replace(replace(CELL, '.', ''), ',', '.')", "replace(CELL, ',', '.')", "1.234,5 not read"),
    Wrong(WRITTEN, 'comma == point and sep == ";"', "comma == point", "a lone comma is always decimal"),
    Wrong(
        WRITTEN,
        "if ways.filled == ways.whole and not ways.codes:",
        "if ways.filled == ways.whole:",
        "codes such as 007 become numbers",
    ),
    Wrong(ONTOLOGY, "steps[reached].max() + 1)", "steps[reached].max())", "what no path joins is as far as the farthest"),
    Wrong(ONTOLOGY, "more = sp.csr_array(reach + reach @ up)", "more = sp.csr_array(reach + up)", "lineage of parents alone"),
    Wrong(TEXT, "sum(seen[best]) >= 0.1 * n.total()", "sum(seen[best]) >= 0.1 * len(n)", "a share of words for one of tokens"),
]

WRITTEN_TABLES = [
    Wrong(
        DIALECT, "all(2 * cells <= width for cells in filled)", "all(cells <= width for cells in filled)", "rows taken for titles"
    ),
    Wrong(DIALECT, "return 2 * again <= len(names)", "return True", "a first row of data taken for the header"),
    Wrong(
        DIALECT, "if numbers and not (numbers[0] >= 0 and all(", "if numbers and not (all(", "numbers taken for names of columns"
    ),
    Wrong(DIALECT, "OFFSET {above}", "OFFSET {above + 1}", "the first line below titles lost"),
    Wrong(
        DRESSED,
        "negative = f\"{part}.open = '(' OR {part}.sign",
        'negative = f"{part}.sign',
        "losses in parentheses taken for gains",
    ),
    Wrong(DRESSED, "return bool(dresses == 1 and numbers", "return bool(numbers", "metres and feet in one column"),
    Wrong(DRESSED, "CASE WHEN lower(c{i}) IN", "CASE WHEN c{i} IN", "a gap that is written Unknown"),
    Wrong(EDGES, "<= 1e-6 * np.abs(column).sum()", "<= 0.2 * np.abs(column).sum()", "a large last row taken for a total"),
    Wrong(EDGES, "if not sums or not (sums > 1 or new or gap):", "if not sums:", "a last row that is a sum by accident"),
    Wrong(EDGES, "body = frame.iloc[:-1]\n", "body = frame.iloc[:-2]\n", "the row above the totals lost"),
    Wrong(COLUMNS, "return np.sort(np.asarray(states))", "return np.asarray(states)", "states in the order in which they come"),
    Wrong(TABLE, "frame.select(known.tolist())", "frame.select(names)", "columns in another order than that of the fit"),
    Wrong(
        TABLE,
        "self.indptr[rows.start : rows.stop + 1] - first",
        "self.indptr[rows.start : rows.stop + 1]",
        "rows of a sparse part begin too late",
    ),
]
WRONGS += [w._replace(tests=("data/test_derived.py", "data/test_column_order.py", "data/test_messy.py")) for w in WRITTEN_TABLES]
WRONGS += [
    Wrong(
        "data/annotated.py",
        "if known is None or size is None",
        "if size or known is None",
        "names not compared",
        ("data/test_annotated.py",),
    ),
    Wrong(
        "data/scoring.py", "None if array == -inf else", "0.0 if array == -inf else", "log 0 exported as log 1", ("test_export.py",)
    ),
]
