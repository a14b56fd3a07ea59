"""The command `tallies`: fit, look, predict, score, sample. Models and data libraries are imported only when they are needed.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input. Results go to stdout, progress and warnings to stderr.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from tallies._version import __version__

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="Generative models for words, counts and categories.")
fit_app = typer.Typer(no_args_is_help=True, help="Fit a model to a file and write it to a RUN folder.")
app.add_typer(fit_app, name="fit")

Data = Annotated[Path, typer.Argument(help="Table: csv, tsv, jsonl or parquet, also .gz.")]
Run = Annotated[Path, typer.Argument(help="Folder written by `tallies fit`.")]
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
Table = Annotated[Path | None, typer.Option("--out", "-o", help="File to write (csv, tsv, jsonl, parquet); default: csv to stdout.")]


def _version(value: bool) -> None:
    if value:
        print(f"tallies {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")] = False,
) -> None:
    pass


@fit_app.command("gda")
def fit_gda(
    data: Data,
    target: Target,
    out: Out,
    covariance: Annotated[str, typer.Option(help="shared, class or diagonal.")] = "shared",
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

    amount = shrinkage if shrinkage in (None, "auto") else _number(shrinkage, "--shrinkage")
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
    with tallies.backend(**where):  # type: ignore[arg-type]
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
        _print_json(result)
    elif not quiet:
        print(model.summary())
        print(f"\nWrote {out}. Next: tallies info {out} · tallies score {out} DATA · tallies predict {out} DATA")


@app.command()
def info(run: Run, as_json: Json = False) -> None:
    """What a RUN holds: the model, the options that made it, how the fit ended."""
    from tallies.runs import read_run

    model, options = read_run(run)
    if as_json:
        result = {"n_iter": model.n_iter_, "converged": model.converged_, "history": model.history_.tolist(), "summary": model.summary()}
        _print_json({"options": options, **result})
        return
    print(model.summary())
    print("\n".join(["", *(f"{key}: {value}" for key, value in options.items())]))


@app.command()
def predict(run: Run, data: Data, out: Table = None, as_json: Json = False, quiet: Quiet = False) -> None:
    """Predict every row of a file."""
    from tallies.commands import family
    from tallies.runs import read_run

    model, options = read_run(run)
    _give(family(model).predict(model, options, str(data)), out, as_json, quiet)


@app.command()
def score(run: Run, data: Data, as_json: Json = False) -> None:
    """How good the model is on a file with known answers."""
    from tallies.commands import family
    from tallies.runs import read_run

    model, options = read_run(run)
    result = family(model).score(model, options, str(data))
    if as_json:
        _print_json(result)
        return
    for key, value in result.items():
        if key not in ("classes", "confusion"):
            print(f"{key:24}{value:,.6g}" if isinstance(value, float | int) else f"{key:24}{value}")
    if "confusion" in result:
        print("\nconfusion (rows: truth, columns: prediction)")
        names = [str(name) for name in result["classes"]]
        width = max(map(len, [*names, "1,000,000"])) + 2
        print(" " * width + "".join(f"{name:>{width}}" for name in names))
        for name, row in zip(names, result["confusion"], strict=True):
            print(f"{name:>{width}}" + "".join(f"{count:>{width},}" for count in row))


@app.command()
def sample(
    run: Run,
    n: Annotated[int, typer.Option("-n", help="Rows to draw.")] = 100,
    seed: Annotated[int | None, typer.Option(help="Seed; default: a new one each time.")] = None,
    out: Table = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw new data from a fitted model."""
    from tallies.commands import family
    from tallies.runs import read_run

    model, options = read_run(run)
    _give(family(model).sample(model, options, n, seed), out, as_json, quiet)


def _give(table: Any, out: Path | None, as_json: bool, quiet: bool) -> None:
    """A table to a file, or to stdout as csv or JSON."""
    from tallies.data.files import write_frame

    if out is not None:
        write_frame(table, out)
        if not quiet:
            print(f"Wrote {len(table):,} rows to {out}.", file=sys.stderr)
    elif as_json:
        _print_json(json.loads(table.to_json(orient="records")))
    else:
        print(table.to_csv(index=False), end="")


def _print_json(value: Any) -> None:
    print(json.dumps(value, default=str))


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"expected a number, got {text!r}", param_hint=option) from None


def _numbers(text: str | None, option: str) -> list[float] | None:
    return None if text is None else [_number(part, option) for part in text.split(",")]


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def main() -> None:
    """Entry point: turn errors into one sentence and an exit code, warnings into one line."""
    warnings.showwarning = _show_warning
    try:
        app()
    except Exception as error:
        from tallies.errors import TalliesError

        expected = isinstance(error, TalliesError | ValueError | TypeError | OSError)
        if not expected:
            raise
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, TalliesError | ValueError | FileNotFoundError) else 1)


def _show_warning(message: Any, category: Any, *where: Any, **more: Any) -> None:
    print(f"Warning: {message}", file=sys.stderr)
