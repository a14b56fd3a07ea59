"""Ontologies at the door: OBO files, tables of concepts, or the pairs (concept, word) and (concept, parent).

The reader is tolerant: what it cannot use it leaves out and says so in `problems`, with the line, instead of giving up a file
of forty thousand good entries. Obsolete entries are left out; ids that were merged or replaced still lead to the living one.
"""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tallies.data.files import KINDS, read_records, reading
from tallies.data.pairs import grouped, text_of
from tallies.errors import DataError, DataWarning, FileError, need_file
from tallies.maths import ragged
from tallies.phases import phase

QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*([A-Z]+)?')  # "text" SCOPE, as after def: and synonym:
ESCAPE = re.compile(r"\\(.)")
COLUMNS = ("id", "name", "definition", "synonyms", "parents")  # of a table of concepts; only id is required
LISTS = re.compile(r"[|;]")  # what separates synonyms or parents in one cell of a table


@dataclass(frozen=True, eq=False)
class Ontology:
    """Concepts with names, definitions, synonyms and parents, in the order of the file.

    >>> animals = Ontology(["a", "b"], ["animal", "bird"], parents=[[], ["a"]], synonyms=[[], ["fowl"]])
    >>> len(animals), animals.index("b"), animals.ancestors("b")
    (2, 1, ['a'])
    """

    ids: list[str]
    names: list[str]
    definitions: list[str] = field(default_factory=list)
    synonyms: list[list[str]] = field(default_factory=list)
    parents: list[list[str]] = field(default_factory=list)  # ids, of is_a and part_of alike
    scopes: list[list[str]] = field(default_factory=list)  # EXACT, NARROW, ... of each synonym; "" where not given
    alternatives: dict[str, str] = field(default_factory=dict)  # merged or replaced id -> living id
    obsolete: list[str] = field(default_factory=list)  # ids left out because the ontology has given them up
    problems: list[str] = field(default_factory=list)  # what was skipped or mended while reading, with the line

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name, empty in (("definitions", str), ("synonyms", list), ("parents", list)):
            if not getattr(self, name):
                object.__setattr__(self, name, [empty() for _ in range(n)])
        if not self.scopes:
            object.__setattr__(self, "scopes", [[""] * len(s) for s in self.synonyms])
        sizes = {name: len(getattr(self, name)) for name in ("names", "definitions", "synonyms", "parents", "scopes")}
        if set(sizes.values()) != {n}:
            raise DataError(f"an ontology needs one entry per id in every list; there are {n} ids, but {sizes}")
        if n == 0:
            raise DataError("; ".join(["an ontology needs at least one concept, but none was given", *self.problems[:3]]))
        if len(self._places) < n:
            twice = sorted({c for c in self.ids if self.ids.count(c) > 1})[:5] if n < 5000 else "several"
            raise DataError(f"ids of concepts must differ, but {twice} occur more than once; merge or rename them")
        strange = [p for above in self.parents for p in above if self.resolve(p) is None]
        if strange:
            raise DataError(f"parents must be ids of concepts, but {strange[:5]} are none; add these concepts, or drop the links")

    def __len__(self) -> int:
        return len(self.ids)

    # ways in

    @classmethod
    def read(cls, path: str | Path) -> Ontology:
        """Read an OBO file, also .gz, or a table, see `read_table`, with the columns id, name, definition, synonyms, parents."""
        path = need_file(path, "an ontology (OBO, or a table)")
        kind = next((s for s in reversed(path.suffixes) if s not in (".gz", ".zip")), "").lower()
        with reading(path, "an ontology"), phase(f"reading {path.name}"):
            if kind in KINDS:
                import pandas as pd

                return cls.from_table(pd.DataFrame(list(read_records(path)), dtype=object))
            return _parse_obo(_text(path))

    @classmethod
    def from_table(cls, table: Any) -> Ontology:
        """From a data frame (pandas, polars, pyarrow) with a column id, and name, definition, synonyms, parents where known.

        Synonyms and parents are lists, or texts with | or ; between the items.

        >>> import pandas as pd
        >>> t = Ontology.from_table(pd.DataFrame({"id": ["x", "y"], "name": ["cat", "tabby"], "parents": ["", "x"]}))
        >>> t.parents
        [[], ['x']]
        """
        import narwhals as nw

        from tallies.data.table import check_names

        check_names(table)
        frame = nw.from_native(table, eager_only=True, pass_through=True)
        if not isinstance(frame, nw.DataFrame):
            raise DataError(f"expected a table of concepts, got a {type(table).__name__}; make it a data frame, or see from_pairs")
        lower = [str(name).lower() for name in frame.columns]
        if "id" not in lower:
            raise DataError(f"a table of concepts needs a column 'id' (and of {COLUMNS[1:]} what there is); it has {frame.columns}")
        terms, problems = [], []
        for row, cells in enumerate(frame.rows(), 1):
            record = dict(zip(lower, cells, strict=True))
            concept, name, definition = (text_of(record.get(column)) for column in COLUMNS[:3])
            synonyms, parents = (_items(record.get(column)) for column in COLUMNS[3:])
            if concept:
                terms.append(_Term(concept, row, name, definition, [(s, "") for s in synonyms], parents))
            else:
                problems.append(f"row {row}: no id; left out")
        return _assemble(terms, problems)

    @classmethod
    def from_pairs(cls, words: Iterable[tuple[Any, Any]], parents: Iterable[tuple[Any, Any]] = ()) -> Ontology:
        """From pairs (concept, word) and (concept, parent), as lists or two-column tables; the words become the definition.

        >>> Ontology.from_pairs([("g1", "cell"), ("g1", "death"), ("g2", "growth")], [("g2", "g1")]).definitions
        ['cell death', 'growth']
        """
        bags, above = grouped(words, "(concept, word)"), grouped(parents, "(concept, parent)")
        concepts = dict.fromkeys([*bags, *above])
        terms = [_Term(c, i, "", " ".join(bags.get(c, [])), [], above.get(c, [])) for i, c in enumerate(concepts, 1)]
        return _assemble(terms, [], named=False)

    # use

    @cached_property
    def _places(self) -> dict[str, int]:
        return {c: i for i, c in enumerate(self.ids)}

    def resolve(self, concept: str) -> str | None:
        """The living id that `concept` stands for: itself, or what it was merged into or replaced by; None if unknown."""
        return concept if concept in self._places else self.alternatives.get(concept)

    def index(self, concept: str) -> int:
        """Position of a concept, by its id or one merged into it."""
        living = self.resolve(concept)
        if living is None:
            more = " (it is obsolete and has no replacement)" if concept in self.obsolete else ""
            raise KeyError(f"no concept {concept!r} in this ontology of {len(self)}{more}")
        return self._places[living]

    @cached_property
    def links(self) -> sp.csr_array:
        """(G, G) 1 where column h is a parent of row g."""
        ptr, above = ragged([list(dict.fromkeys(map(self.index, several))) for several in self.parents], np.int64)
        return sp.csr_array((np.ones(len(above)), above, ptr), shape=(len(self), len(self)))

    def ancestors(self, concept: str) -> list[str]:
        """Ids of all concepts above this one, nearest first; a cycle is walked once."""
        from scipy.sparse.csgraph import breadth_first_order

        return [self.ids[g] for g in breadth_first_order(self.links, self.index(concept), return_predecessors=False)[1:]]

    @cached_property
    def lineage(self) -> sp.csr_array:
        """(G, G) 1 where column h is row g or above it: values of concepts times this are rolled up along the ontology."""
        return lineage(self.links)

    def distances(self) -> np.ndarray:
        """(G, G) steps between concepts along parent links, either way; where no path joins them, one more than the farthest."""
        from scipy.sparse.csgraph import shortest_path

        steps = shortest_path(self.links, directed=False, unweighted=True)
        reached = np.isfinite(steps)
        return np.where(reached, steps, steps[reached].max() + 1)

    def __repr__(self) -> str:
        return (
            f"Ontology({len(self):,} concepts, {sum(map(len, self.synonyms)):,} synonyms, {len(self.obsolete):,} obsolete left out)"
        )


def lineage(up: sp.csr_array) -> sp.csr_array:
    """(G, G) 1 where column h is row g or above it, from the links (G, G) of concepts to their parents."""
    reach = sp.eye_array(up.shape[0], format="csr")
    while True:
        more = sp.csr_array(reach + reach @ up)
        more.data[:] = 1.0
        if more.nnz == reach.nnz:
            return reach
        reach = more


def _text(path: Path) -> str:
    """The text of a file, plain or gz whatever its name says."""
    raw = path.read_bytes()
    try:
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path} is a damaged gzip file ({error}); fetch it again") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FileError(f"expected UTF-8, but line {line} of {path} is not; convert it, such as with iconv -t utf-8") from error


class _Term:
    """One stanza or row while reading; `synonyms` are texts with their scopes."""

    alternatives: Sequence[str] = ()
    replaced: Sequence[str] = ()
    obsolete = False

    def __init__(self, id: str, line: int, name: str, definition: str, synonyms: list[tuple[str, str]], parents: list[str]):
        self.id, self.line, self.name, self.definition, self.synonyms, self.parents = id, line, name, definition, synonyms, parents


def _parse_obo(text: str) -> Ontology:
    terms: list[_Term] = []
    problems: list[str] = []
    for line, stanza in _stanzas(text):
        try:
            terms.append(_term(line, stanza))
        except ValueError as error:
            problems.append(f"{error}; the stanza was skipped")
    if all(term.obsolete for term in terms):
        raise FileError("; ".join(["expected an OBO file with [Term] stanzas, but found no usable term", *problems[:3]]))
    return _assemble(terms, problems)


def _stanzas(text: str) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """The [Term] stanzas as (line, [(line, text)]); headers, [Typedef] and [Instance] are passed over."""
    start, wanted = 0, False
    body: list[tuple[int, str]] = []
    for number, raw in enumerate([*text.split("\n"), "["], 1):  # the last begins nothing: it ends the stanza before
        row = raw.strip()
        if row.startswith("["):
            if wanted:
                yield start, body
            start, body, wanted = number, [], row.startswith("[Term]")
        elif wanted and row and not row.startswith("!"):
            body.append((number, row))


def _term(line: int, stanza: list[tuple[int, str]]) -> _Term:
    last = {"id": "", "name": "", "is_obsolete": ""}
    texts: dict[str, list[tuple[str, str]]] = {"def": [("", "")], "synonym": []}
    links: dict[str, list[str]] = {"is_a": [], "alt_id": [], "replaced_by": []}
    for number, row in stanza:
        tag, colon, value = row.partition(": " if ": " in row else ":")
        if not colon:
            raise ValueError(f"line {number}: expected 'tag: value', got {row[:60]!r}")
        if tag == "relationship" and value.startswith("part_of "):
            tag, value = "is_a", value.removeprefix("part_of ")
        if tag in last:
            last[tag] = value.strip()
        elif tag in links:
            links[tag].append(value.split()[0] if value.split() else "")
        elif tag in texts:
            found = QUOTED.match(value)
            if found is None:
                raise ValueError(f"line {number}: expected a text in double quotes after {tag}:, got {value[:60]!r}")
            texts[tag].append((_unescape(found[1]), found[2] or ""))
    if not last["id"]:
        raise ValueError(f"line {line}: a [Term] without an id")
    term = _Term(last["id"], line, _unescape(last["name"]), texts["def"][-1][0], texts["synonym"], links["is_a"])
    term.alternatives, term.replaced = links["alt_id"], links["replaced_by"]
    term.obsolete = last["is_obsolete"].lower().startswith("true")
    return term


def _assemble(terms: Sequence[_Term], problems: list[str], named: bool = True) -> Ontology:
    """An Ontology from raw terms: duplicates merged, missing names mended, unknown parents and cycles reported."""
    from scipy.sparse.csgraph import connected_components

    living: dict[str, _Term] = {}
    for term in (t for t in terms if not t.obsolete):
        first = living.setdefault(term.id, term)
        if first is not term:
            problems.append(f"line {term.line}: id {term.id} was defined at line {first.line}; the second was joined to the first")
            first.synonyms += [(term.name, "")] * (term.name != first.name) + term.synonyms
            first.parents += term.parents
        elif named and not term.name:
            remedy = "its first synonym is used" if term.synonyms else "it can only be found by its definition"
            problems.append(f"line {term.line}: {term.id} has no name; {remedy}")
            term.name = next((text for text, _ in term.synonyms), "")
    alternatives = {a: t.id for t in living.values() for a in t.alternatives if a not in living}
    gone = [t for t in terms if t.obsolete and t.id not in living]
    heirs = {t.id: t.replaced[0] for t in gone if t.replaced}
    for old in heirs:
        line = [old]  # a replacement may itself have been replaced
        while line[-1] in heirs and heirs[line[-1]] not in line:
            line.append(heirs[line[-1]])
        new = alternatives.get(line[-1], line[-1])
        if new in living:
            alternatives[old] = new
    for t in living.values():
        t.parents = list(dict.fromkeys(alternatives.get(p, p) for p in t.parents))
        strange = [p for p in t.parents if p not in living]
        if strange:
            some = ", ".join(strange[:3])
            problems.append(f"line {t.line}: {t.id} names parents that are not here: {some}; the links were dropped")
            t.parents = [p for p in t.parents if p in living]
    texts = [[[pair[i] for pair in t.synonyms] for t in living.values()] for i in (0, 1)]
    names, definitions, parents = ([getattr(t, what) for t in living.values()] for what in ("name", "definition", "parents"))
    found = Ontology([*living], names, definitions, texts[0], parents, texts[1], alternatives, [t.id for t in gone], problems)
    _, circle = connected_components(found.links, connection="strong")
    size = np.bincount(circle)[circle]
    on = [c for c, n in zip(living, size, strict=True) if n > 1 or c in living[c].parents]
    if on:  # the links stay, and walks along them end where they began
        problems.append(f"line {living[on[0]].line}: the parents of {', '.join(on[:5])} run in a circle; roll-up walks it once")
    if problems:
        told = f"{len(problems)} problems while reading the ontology, such as: {problems[0]}; see .problems"
        warnings.warn(told, DataWarning, stacklevel=4)
    return found


def _items(value: Any) -> list[str]:
    found = LISTS.split(value) if isinstance(value, str) else [] if value is None or np.ndim(value) == 0 else list(value)
    return [t for t in map(text_of, found) if t]


def _unescape(text: str) -> str:
    return ESCAPE.sub(lambda m: {"n": " ", "W": " ", "t": " "}.get(m[1], m[1]), text.strip()) if "\\" in text else text.strip()
