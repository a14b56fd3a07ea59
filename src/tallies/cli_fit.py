"""`tallies fit MODEL DATA --out RUN`: one command a model. They parse; `tallies.commands` reads the data and fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

fit_app = typer.Typer(no_args_is_help=True, help="Fit a model to a file and write it to a RUN folder.")

Data = Annotated[Path, typer.Argument(help="Table: csv, tsv, jsonl or parquet, also .gz.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="RUN folder to write.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column with the class.")]
Columns = Annotated[str | None, typer.Option(help="Columns to use, comma separated; default: all but the target.")]
Weights = Annotated[str | None, typer.Option(help="Column with row weights.")]
Priors = Annotated[str | None, typer.Option(help="Class probabilities, comma separated, in the order of the sorted classes.")]
Semi = Annotated[bool, typer.Option("--semi-supervised", help="Use rows whose target is empty, by EM.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use; default: all cores. Changes no result.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing RUN folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no closing words.")]


@fit_app.command("gda")
def fit_gda(
    data: Data,
    target: Target,
    out: Out,
    covariance: Annotated[Literal["shared", "class", "diagonal"], typer.Option(help="Which covariance.")] = "shared",
    shrinkage: Annotated[str | None, typer.Option(help="auto, or a number from 0 to 1.")] = None,
    priors: Priors = None,
    columns: Columns = None,
    weights: Weights = None,
    semi_supervised: Semi = False,
    scheduler: Scheduler = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Gaussian discriminant analysis: a Gaussian for every class; empty cells are missing and summed out."""
    from tallies import GDA

    amount: Any = shrinkage if shrinkage is None or shrinkage == "auto" else _number(shrinkage, "--shrinkage")
    model = GDA(covariance=covariance, shrinkage=amount, priors=_numbers(priors, "--priors"), semi_supervised=semi_supervised)
    settings = {"target": target, "columns": _names(columns), "weights": weights}
    _fit("gda", model, data, settings, out, scheduler, threads, force, as_json, quiet)


@fit_app.command("naive-bayes")
def fit_naive_bayes(
    data: Data,
    target: Target,
    out: Out,
    families: Annotated[str, typer.Option(help="auto, one family, or column=family,... (the others by dtype).")] = "auto",
    smoothing: Annotated[float, typer.Option(help="Pseudo-rows of every state.")] = 1.0,
    priors: Priors = None,
    columns: Columns = None,
    weights: Weights = None,
    semi_supervised: Semi = False,
    scheduler: Scheduler = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Naive Bayes for numbers, counts and categories together; empty cells are missing and summed out."""
    from tallies import NaiveBayes

    given: Any = dict(pair.split("=", 1) for pair in families.split(",")) if "=" in families else families
    model = NaiveBayes(given, smoothing=smoothing, priors=_numbers(priors, "--priors"), semi_supervised=semi_supervised)
    settings = {"target": target, "columns": _names(columns), "weights": weights}
    _fit("naive-bayes", model, data, settings, out, scheduler, threads, force, as_json, quiet)


@fit_app.command("lda")
def fit_lda(
    data: Annotated[Path, typer.Argument(help="Texts: jsonl, csv, tsv or parquet (also .gz), or a folder of .txt files.")],
    out: Out,
    text: Annotated[str, typer.Option(help="Column with the text.")] = "text",
    topics: Annotated[int, typer.Option("--topics", "-k", help="Number of topics.")] = 20,
    alpha: Annotated[str, typer.Option(help="Prior of topics in a document: auto (estimated), or a number.")] = "auto",
    beta: Annotated[str, typer.Option(help="Prior of words in a topic: a number, or auto.")] = "0.01",
    sweeps: Annotated[int, typer.Option(help="Sweeps over all tokens.")] = 300,
    burn_in: Annotated[int | None, typer.Option(help="Sweeps before samples are kept; default: two thirds.")] = None,
    thin: Annotated[int, typer.Option(help="Keep every thin-th sweep after that.")] = 5,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 1,
    min_df: Annotated[float, typer.Option(help="Drop words in fewer documents (below 1: a share).")] = 1,
    max_df: Annotated[float, typer.Option(help="Drop words in more documents (up to 1: a share).")] = 1.0,
    stop_words: Annotated[str, typer.Option(help="english, or none.")] = "english",
    stem: Annotated[bool, typer.Option("--stem", help="Cut words to their stems.")] = False,
    bigrams: Annotated[bool, typer.Option("--bigrams", help="Pairs of neighbouring words count as words, too.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="The table has one column a word, with counts.")] = False,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Topics of texts: latent Dirichlet allocation by collapsed Gibbs sampling."""
    from tallies import LDA

    model = LDA(
        n_topics=topics,
        alpha="auto" if alpha == "auto" else _number(alpha, "--alpha"),
        beta="auto" if beta == "auto" else _number(beta, "--beta"),
        max_iter=sweeps,
        burn_in=sweeps * 2 // 3 if burn_in is None else burn_in,
        thin=thin,
        n_chains=chains,
        random_state=seed,
    )
    settings = {"text": text, "stop_words": stop_words, "stem": stem, "bigrams": bigrams}
    settings |= {"counts": counts, "min_df": _df(min_df), "max_df": _df(max_df, least=1.0)}
    _fit("lda", model, data, settings, out, scheduler, threads, force, as_json, quiet)


def _df(value: float, least: float = 0.0) -> int | float:
    """A bound on document frequency: a share as it is, a number of documents as a whole one."""
    return int(value) if value > least and value >= 1 else value


@fit_app.command("pln")
def fit_pln(
    data: Annotated[Path, typer.Argument(help="Counts, samples x species: csv, tsv, parquet, mtx, h5ad or biom.")],
    out: Out,
    covariates: Annotated[Path | None, typer.Option(help="Table of covariates, one row a sample.")] = None,
    formula: Annotated[str | None, typer.Option(help='Of the covariates, such as "~ 1 + site"; default: all of them.')] = None,
    offsets: Annotated[str | None, typer.Option(help="logsum, tss, css, rle, gmpr, tmm, wrench, or a table of logarithms.")] = None,
    rank: Annotated[int | None, typer.Option(help="Components of PLN-PCA; default: a full covariance.")] = None,
    method: Annotated[Literal["variational", "importance"], typer.Option(help="How to fit.")] = "variational",
    covariance: Annotated[Literal["full", "diagonal", "spherical"], typer.Option(help="Which covariance.")] = "full",
    seed: Seed = 0,
    scheduler: Scheduler = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Counts of many species in many samples: the Poisson log-normal model, or PLN-PCA with --rank."""
    from tallies import PLN

    model = PLN(rank=rank, method=method, covariance=covariance, random_state=seed)
    settings = {"covariates": None if covariates is None else str(covariates), "formula": formula, "offsets": offsets}
    _fit("pln", model, data, settings, out, scheduler, threads, force, as_json, quiet)


Degree = Annotated[str, typer.Option(help="Products of 1 to so many variables; several, such as 1,3, for these alone; or auto.")]
Ridge = Annotated[str, typer.Option(help="Strength of the ridge penalty: auto (cross-validation), or a number.")]
Missing = Annotated[Literal["state", "ignore"], typer.Option(help="An empty cell is a state of its own, or nothing.")]


@fit_app.command("fem")
def fit_fem(
    data: Data,
    target: Target,
    out: Out,
    degree: Degree = "1",
    ridge: Ridge = "auto",
    solver: Annotated[Literal["auto", "fem", "lbfgs", "kernel"], typer.Option(help="How to fit.")] = "auto",
    screen: Annotated[int | None, typer.Option(help="Keep so many pairs, the strongest of all.")] = None,
    bins: Annotated[int | None, typer.Option(help="Cut numbers into so many quantile intervals.")] = None,
    missing: Missing = "state",
    columns: Columns = None,
    weights: Weights = None,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How combinations of categories shape an outcome: named interactions, calibrated probabilities."""
    from tallies import FEM
    from tallies.commands.fem import parse_degree, parse_ridge

    degrees, strength = parse_degree(degree), parse_ridge(ridge)
    model = FEM(degrees, strength, solver=solver, screen=screen, bins=bins, missing=missing, random_state=seed)
    settings = {"target": target, "columns": _names(columns), "weights": weights}
    _fit("fem", model, data, settings, out, scheduler, threads, force, as_json, quiet)


@fit_app.command("fem-network")
def fit_fem_network(
    data: Annotated[Path, typer.Argument(help="Table of categories (csv, tsv, jsonl, parquet), or an alignment in FASTA.")],
    out: Out,
    degree: Degree = "1",
    ridge: Ridge = "auto",
    lag: Annotated[int, typer.Option(help="0: each variable from the others in its row; 1: from the row before.")] = 0,
    reweight: Annotated[float | None, typer.Option(help="Rows with this share of equal cells count as one.")] = None,
    bins: Annotated[int | None, typer.Option(help="Cut numbers into so many quantile intervals.")] = None,
    missing: Missing = "state",
    columns: Columns = None,
    weights: Weights = None,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The coupling network of a table of categories, of a time series, or of an alignment."""
    from tallies import FEMNetwork
    from tallies.commands.fem import parse_degree, parse_ridge

    degrees, strength, back = parse_degree(degree), parse_ridge(ridge), 1 if lag else 0
    model = FEMNetwork(degrees, strength, lag=back, reweight=reweight, bins=bins, missing=missing, random_state=seed)  # type: ignore[arg-type]
    _fit(
        "fem-network", model, data, {"columns": _names(columns), "weights": weights}, out, scheduler, threads, force, as_json, quiet
    )


@fit_app.command("author-concept")
def fit_author_concept(
    data: Annotated[Path, typer.Argument(help="Papers: jsonl, csv, tsv or parquet (also .gz), or a folder of .txt files.")],
    ontology: Annotated[Path, typer.Option(help="Concepts: OBO (also .gz), or a table with id, name, synonyms, parents.")],
    out: Out,
    text: Annotated[str, typer.Option(help="Column with the text.")] = "text",
    authors: Annotated[str, typer.Option(help="Column with the authors.")] = "authors",
    identifier: Annotated[str, typer.Option("--id", help="Column with the id of a paper.")] = "id",
    words: Annotated[Literal["mention", "multinomial"], typer.Option(help="How a concept makes words.")] = "mention",
    preset: Annotated[Literal["seed"] | None, typer.Option(help="seed: hard EM on bags of definition words.")] = None,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Which concept of an ontology each sentence speaks of, given who wrote it."""
    from tallies import AuthorConcept

    model = AuthorConcept(words=words, preset=preset, random_state=seed)
    settings = {"ontology": str(ontology), "text": text, "authors": authors, "id": identifier}
    _fit("author-concept", model, data, settings, out, scheduler, threads, force, as_json, quiet)


def _fit(
    name: str,
    model: Any,
    data: Path,
    settings: dict[str, Any],
    out: Path,
    scheduler: str | None,
    threads: int | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit, write the RUN, and say what came of it."""
    import tallies
    from tallies.commands import family
    from tallies.runs import check_free, write_run

    check_free(out, force)
    options = {"model": name, "data": str(data), **settings, **model.get_params(deep=False)}
    where = {"where": scheduler} if scheduler else {"where": "threads", "workers": threads}
    with tallies.backend(**where):
        family(model).fit(model, options, progress=False if quiet else None)
    write_run(out, model, {**options, "seed": model.seed_}, force)
    result = {
        "run": str(out),
        "model": type(model).__name__,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "objective": float(model.history_[-1]) if len(model.history_) else None,
    }
    if as_json:
        print_json(result)
    elif not quiet:
        print(model.summary())
        print(f"\nWrote {out}. Next: tallies info {out} · tallies score {out} DATA · tallies predict {out} DATA")


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"expected a number, got {text!r}", param_hint=option) from None


def _numbers(text: str | None, option: str) -> list[float] | None:
    return None if text is None else [_number(part, option) for part in text.split(",")]


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    print(json.dumps(value, default=str))
