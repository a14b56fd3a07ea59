"""The cases of benchmarks/measurements.py: functions that yield pairs, one a repeat or seed, or the rows of a table that compares no two.

Each calls the script that has the case, which checks that both came to the same end; what is heavy is imported inside.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple


class Given(NamedTuple):
    """What a measurement may use."""

    folder: Path | None  # that of its first file
    quick: bool  # tiny sizes, to see that it runs
    repeats: int


class Pair(NamedTuple):
    """One run of both."""

    case: str
    ours: float
    rival: float
    cold: bool = False  # the first of its process, with compilers and caches to wait for: told apart


WHOLE = ", whole fits"  # each by its own rule, ours to the higher bound


def level(case: str, ours: float, theirs: float) -> None:
    """Refuse a comparison in which ours ended below the rival: both are bounds on a log likelihood."""
    if ours < theirs - 1e-4 * abs(theirs):
        raise SystemExit(f"{case}: ours ended at {ours:.6g}, the rival at {theirs:.6g}: seconds do not compare")


def pairs_of(rows: Iterable[dict]) -> Iterator[Pair]:
    """Rows of scripts; where bounds are in them, ours must not be below, and seconds are those to the rival's."""
    for row in rows:
        if "bounds" in row:
            level(row["case"], *row["bounds"])
            yield Pair(row["case"], *row["near"])
        yield Pair(row["case"] + WHOLE * ("bounds" in row), row["ours"], row["theirs"])


def printed(script: str, *words: str, skip: int = 0) -> Callable[[Given], Iterator[dict[str, str]]]:
    """The rows of the table in Markdown that a script prints, but for some columns at the end; FOLDER among its words is that of the data."""

    def run(given: Given) -> Iterator[dict[str, str]]:
        told = [str(given.folder / word.removeprefix("FOLDER/")) if word.startswith("FOLDER/") else word for word in words]
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name(script), *told], stdout=subprocess.PIPE, text=True, check=True
        )
        print(done.stdout, flush=True)
        columns, _, *rows = (
            [cell.strip() for cell in line.strip("| \n").split(" | ")] for line in done.stdout.splitlines() if line.startswith("|")
        )
        yield from (dict(zip(columns, row, strict=False)) for row in rows)

    return run


# bayes


def classifiers(given: Given) -> Iterator[Pair]:
    from classifiers import cases, measure

    for case in cases(2_000 if given.quick else 1_000_000):
        for row in measure(case, given.repeats):
            yield from (Pair(f"{row['case']}: {row['step']}", *pair) for pair in row["pairs"])


# topics


def compared(X, T, topics: tuple[int, ...], given: Given) -> Iterator[Pair]:
    from lda import compare

    for K in (5,) if given.quick else topics:
        for row in compare(X, T, K, ["tomotopy"], [20] if given.quick else [20, 50, 100], given.repeats):
            yield from (Pair(f"{K} topics, to its perplexity after {row['mark']} sweeps", *pair) for pair in row["pairs"])


def lda_made(given: Given) -> Iterator[Pair]:
    from scaling import texts

    held = 100 if given.quick else 1_000
    X, _ = texts(1_600 if given.quick else 11_000, 50)
    return compared(X[held:], X[:held], (100,), given)


def lda_abstracts(given: Given) -> Iterator[Pair]:
    from lda import read

    X, T = read(str(given.folder / "acl_medium.npz"))
    return compared(X[:2000], T[:100], (5,), given) if given.quick else compared(X, T, (100, 500), given)


def lda_peps(given: Given) -> Iterator[Pair]:
    from lda import read

    X, T = read(str(given.folder / "peps.jsonl.gz"))
    return compared(X, T, (100,), given)


def grown(given: Given) -> tuple[Any, Any]:
    """64,000 documents of the shape of the abstracts."""
    from lda import grow, read

    return grow(read(str(given.folder / "acl_medium.npz"))[0], 64_000)


def lda_grown(given: Given) -> Iterator[Pair]:
    from lda import compare

    for row in compare(*grown(given), 100, ["tomotopy"], [60, 100], given.repeats):
        yield from (Pair(f"100 topics, to its perplexity after {row['mark']} sweeps", *pair) for pair in row["pairs"])


def lda_limit(given: Given) -> list[dict[str, Any]]:
    from lda_limit import limit

    return limit(grown(given)[0], 100, 100)


def lda_others(given: Given) -> Iterator[Pair]:
    from lda import compare, read

    for row in compare(*read(str(given.folder / "acl_medium.npz")), 100, ["gensim", "sklearn", "lda"], [20, 50], given.repeats):
        what = f"{row['mark']} sweeps" if row["rival"] == "lda" else f"{row['mark'] // 10} passes"
        yield from (Pair(f"100 topics, to the perplexity of {row['rival']} after {what}", *pair) for pair in row["pairs"])


def lda_transform(given: Given) -> Iterator[Pair]:
    from lda import read, transform_rates

    for _ in range(given.repeats):
        rates = transform_rates(*read(str(given.folder / "acl_medium.npz")), 100, ["tomotopy", "gensim"])
        yield from (Pair(f"beside {name}", rates["tallies"], rates[name]) for name in ("tomotopy", "gensim"))


# counts


def pln_rows(found: dict, given: Given) -> Iterator[Pair]:
    from pln import full

    for row in full(found, given.repeats):
        for k, (theirs, ours, *_) in enumerate(row["runs"]):
            yield Pair(row["data"], ours, theirs, cold=k == 0)


def sizes(given: Given) -> tuple[tuple[int, int], ...]:
    return ((80, 20),) if given.quick else ((1000, 200), (5000, 100), (500, 1000))


def pln(given: Given) -> Iterator[Pair]:
    from pln import tables

    return pln_rows(tables(None, sizes(given)), given)


def pln_oaks(given: Given) -> Iterator[Pair]:
    from pln import tables

    return pln_rows(tables(str(given.folder), ()), given)


def pln_rank(given: Given) -> Iterator[Pair]:
    from pln import rank, tables

    for row in rank(tables(None, sizes(given)), given.repeats):
        case = f"{row['data']}, rank {row['q']}"
        level(case, row["ours"], row["theirs_400"])
        yield from (Pair(case, *pair) for pair in row["near"])
        yield from (Pair(case + WHOLE, *pair) for pair in row["pairs"])


def pln_rare(given: Given) -> Iterator[Pair]:
    from pln import rival

    for row in rival({}, given.repeats, (120, 30) if given.quick else ()):
        level(row["data"], row["bound"], row["theirs_bound"])
        case = "rare species" if "rare" in row["data"] else "cells"
        yield Pair(case, row["within"], row["theirs_within"])
        yield Pair(case + WHOLE, row["seconds"], row["theirs"])


def family(part: str) -> Callable[[Given], Iterator[Pair]]:
    """A part of benchmarks/pln_family.py, a pair a draw; that of `lda` has one draw, and is repeated."""

    def run(given: Given) -> Iterator[Pair]:
        import pln_family

        for _ in range(given.repeats if part == "lda" else 1):
            yield from pairs_of(
                getattr(pln_family, f"part_{part}")(SimpleNamespace(seeds=given.repeats, first=0, small=given.quick))
            )

    return run


def network(given: Given) -> Iterator[Pair]:
    from networks import part_rival

    import tallies

    for _ in range(given.repeats):
        with tallies.backend("threads", workers=1):
            rows = part_rival(SimpleNamespace(small=given.quick, data=given.folder))
        for row in rows:
            case = f"{row['data']}, its penalty {row['penalty']:g}"
            level(case, row["ours"], row["theirs"])
            yield Pair(case, row["near"], row["their near"])
            yield Pair(case + ", past its last bound", row["past theirs"], row["their seconds"])
            yield Pair(case + WHOLE, row["seconds"], row["their seconds"])


def graphical_lasso(given: Given) -> Iterator[Pair]:
    from networks import part_lasso

    for _ in range(given.repeats):
        for row in part_lasso(SimpleNamespace(sizes=[30] if given.quick else [100, 300])):
            case = f"{row['p']} columns, {row['edges']:.0%} of pairs joined"
            yield Pair(case, row["seconds"], row.get("near", row["sklearn"]))


def misfit(given: Given) -> Iterator[Pair]:
    import pln_family

    return pairs_of(pln_family.part_misfit(SimpleNamespace(seeds=given.repeats)))


def pln_bounds(given: Given) -> list[dict[str, str]]:
    from pln import bounds

    return bounds(given.folder)


def pln_memory(given: Given) -> list[dict[str, Any]]:
    from pln import memory

    return memory()


def pln_importance(given: Given) -> list[dict[str, Any]]:
    from pln import importance

    return importance()


def of_networks(part: str, **options: Any) -> Callable[[Given], list[dict[str, Any]]]:
    """A part of benchmarks/networks.py whose rows are those of a table."""

    def run(given: Given) -> list[dict[str, Any]]:
        import networks

        import tallies

        with tallies.backend("threads", workers=1):
            return getattr(networks, f"part_{part}")(SimpleNamespace(data=given.folder, first=0, **options))

    return run


def recovery(given: Given) -> list[dict[str, Any]]:
    """Means over draws."""
    import pandas as pd
    from networks import KINDS

    options = {"draws": 10, "means": [3.0, 1.0], "kinds": list(KINDS), "subsamples": 50, "joint": False, "theirs": False}
    found = pd.DataFrame(of_networks("recovery", **options)(given))
    rows = []
    for (mean, graph), some in found.groupby(["mean", "graph"], sort=False):
        row = {"mean count, graph": f"{mean:g}, {graph}", "two steps": some["two steps"].mean()}
        row |= {"support": some["support"].mean(), "centred log ratios": some["clr"].mean()}
        row |= {"probability, then size": some["probability"].mean()}
        right, sure = int(some["right"].sum()), int(some["sure"].sum())
        rows.append(row | {"sure and true": f"{right} of {sure} ({right / max(sure, 1):.0%})"})
    return rows


# categories


def fem_network(given: Given) -> Iterator[Pair]:
    from fem import speed

    for _ in range(given.repeats):
        for row in speed(SimpleNamespace(rows=500 if given.quick else 10_000, variables=[20] if given.quick else None)):
            yield Pair(row["case"], row["ours"], row["theirs"])
            yield Pair(f"{row['case']}, beside the seed's iteration", row["ours"], row["seed"])


def fem_single(given: Given) -> Iterator[Pair]:
    from fem import single

    for _ in range(given.repeats):
        yield from pairs_of(single(SimpleNamespace(rows=300 if given.quick else 3200)))


def fem_search(given: Given) -> Iterator[Pair]:
    from fem import search

    names = ["binary"] if given.quick else None  # all
    for row in search(SimpleNamespace(names=names, seeds=given.repeats)):
        if (
            not row["case"].startswith("categories") or "rules" in row["case"]
        ):  # of the others losses are near 0: a ratio says nothing
            yield Pair(f"{row['case']}: log loss", row["ours"], row["theirs"])
        yield Pair(f"{row['case']}: CPU s", row["seconds"], row["their seconds"])


def fem_nested(given: Given) -> Iterator[Pair]:
    from fem import nested

    for split in range(given.repeats):
        names = ["votes"] if given.quick else ["car", "splice", "votes"]
        yield from pairs_of(nested(SimpleNamespace(folder=given.folder, names=names, split=split)))


def fem_recover(given: Given) -> list[dict[str, Any]]:
    from fem import recover

    return recover(SimpleNamespace(draws=6, rows=10_000))


def fem_splice(given: Given) -> list[dict[str, Any]]:
    from fem import splice

    return splice(SimpleNamespace(folder=given.folder))


def fem_large(given: Given) -> Iterator[dict[str, Any]]:
    """132 sites of 13 states; beside scipy's L-BFGS on sparse rows, of which four outputs are timed."""
    from fem_networks import networks, reference

    shape = {"sites": 132, "states": 13, "rows": 6500, "ancestors": 0, "seed": 0}
    more = {"reweight": None, "sweeps": 2000, "threads": 1, "save": None, "outputs": 4}
    for ridge in ("30", "auto"):
        options = SimpleNamespace(**shape, **more, ridge=ridge)
        yield networks(options) | ({"scipy's L-BFGS, CPU s": reference(options)} if ridge == "30" else {})


# how time grows


def scaling(given: Given) -> list[dict[str, str]]:
    import scaling

    scaling.measure(list(scaling.CASES), ["ours", "rival"], 3.0, 2, True)
    scaling.draw()
    return scaling.curves()


def on_threads(given: Given) -> list[dict[str, Any]]:
    import scaling

    scaling.measure_threads(60.0, 3)
    return scaling.on_threads()


# concepts


def concept_step(given: Given) -> Iterator[Pair]:
    from author_concept import speed

    for _ in range(given.repeats):
        row = speed(SimpleNamespace(go=None, dense_sentences=500 if given.quick else 20_000))
        if row["wrong"]:
            raise SystemExit(f"{row['case']}: another best concept in {row['wrong']} sentences")
        yield Pair(row["case"], row["ours"], row["theirs"])
