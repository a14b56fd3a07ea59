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
from tallies.cli_fit import Data, Json, Quiet, fit_app, print_json

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="Generative models for words, counts and categories.")
app.add_typer(fit_app, name="fit")

Run = Annotated[Path, typer.Argument(help="Folder written by `tallies fit`.")]
Covariates = Annotated[Path | None, typer.Option(help="Covariates of these samples (pln); default: those of the fit.")]
Table = Annotated[
    Path | None, typer.Option("--out", "-o", help="File to write (csv, tsv, jsonl, parquet); default: csv to stdout.")
]


def _version(value: bool) -> None:
    if value:
        print(f"tallies {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def info(run: Run, as_json: Json = False) -> None:
    """What a RUN holds: the model, the options that made it, how the fit ended."""
    from tallies.runs import read_run

    model, options = read_run(run)
    if as_json:
        result = {
            "n_iter": model.n_iter_,
            "converged": model.converged_,
            "history": model.history_.tolist(),
            "summary": model.summary(),
        }
        print_json({"options": options, **result})
        return
    print(model.summary())
    print("\n".join(["", *(f"{key}: {value}" for key, value in options.items())]))


@app.command()
def predict(
    run: Run,
    data: Data,
    out: Table = None,
    covariates: Covariates = None,
    top: Annotated[int, typer.Option(help="Concepts a sentence (author-concept).")] = 5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict every row of a file."""
    from tallies.commands import family
    from tallies.runs import read_run

    model, options = read_run(run)
    told = {"covariates": str(covariates)} if covariates is not None else {}
    _give(family(model).predict(model, {**options, "top": top, **told}, str(data)), out, as_json, quiet)


@app.command()
def score(run: Run, data: Data, covariates: Covariates = None, as_json: Json = False) -> None:
    """How good the model is on a file with known answers."""
    from tallies.commands import family
    from tallies.runs import read_run

    model, options = read_run(run)
    told = {"covariates": str(covariates)} if covariates is not None else {}
    result = family(model).score(model, {**options, **told}, str(data))
    if as_json:
        print_json(result)
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


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more RUN folders.")],
    data: Annotated[Path, typer.Option("--data", "-d", help="Unseen data to compare them on.")],
    covariates: Covariates = None,
    as_json: Json = False,
) -> None:
    """Scores of several RUNs on the same file, a row each."""
    from pandas import DataFrame

    from tallies.commands import family
    from tallies.runs import read_run

    told = {"covariates": str(covariates)} if covariates is not None else {}
    rows = {}
    for run in runs:
        model, options = read_run(run)
        found = family(model).score(model, {**options, **told}, str(data))
        rows[str(run)] = {"model": type(model).__name__, **{k: v for k, v in found.items() if not isinstance(v, list)}}
    kinds = {row["kind"] for row in rows.values() if "kind" in row}
    if len(kinds) > 1:
        warnings.warn(
            f"comparing scores of different kind: {', '.join(sorted(kinds))}; they are not the same quantity", stacklevel=1
        )
    if as_json:
        print_json(rows)
    else:
        print(DataFrame.from_dict(rows, orient="index").to_string())


@app.command()
def report(
    run: Run,
    data: Annotated[Path | None, typer.Argument(help="Unseen data to judge the model by.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page to write; default: report.html in the RUN folder.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page about a fitted model."""
    from tallies.commands import family
    from tallies.runs import read_run

    model, options = read_run(run)
    rows = () if data is None else family(model).report_data(model, options, str(data))
    fitted = Path(options["data"])
    told = {"held_out": None if data is None else data.resolve() != fitted.resolve(), "data_name": fitted.name}
    page = model.report(out or run / "report.html", *rows, **told, command=f"tallies fit {options['model']} {options['data']} ...")
    if not quiet:
        print(f"Wrote {page}. Open it in a browser; it needs no network.")


@app.command()
def demo(out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("demo")) -> None:
    """Fit models to data that need no download and write a gallery of reports."""
    from tallies.demo import run

    run(out)


def _give(table: Any, out: Path | None, as_json: bool, quiet: bool) -> None:
    """A table to a file, or to stdout as csv or JSON."""
    from tallies.data.files import write_frame

    if out is not None:
        write_frame(table, out)
        if not quiet:
            print(f"Wrote {len(table):,} rows to {out}.", file=sys.stderr)
    elif as_json:
        print_json(json.loads(table.to_json(orient="records")))
    else:
        print(table.to_csv(index=False), end="")


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
