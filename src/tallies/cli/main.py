"""The command `tallies`: fit, look, predict, score, sample. Models and data libraries are imported only when they are needed.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 stopped by Ctrl-C. Results go to stdout; progress, warnings and what
to do next to stderr.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from tallies._version import __version__
from tallies.cli.fit import fit_app, resume
from tallies.cli.options import Json, Quiet, Run, Threads, print_json, say, where
from tallies.errors import DataError, MissingExtra, TalliesError


class InOrder(typer.core.TyperGroup):
    """Commands in the order in which they are met."""

    def list_commands(self, ctx: Any) -> list[str]:
        return ["fit", *(name for name in super().list_commands(ctx) if name != "fit")]


app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Generative models for words, counts and categories.",
    epilog="Begin with: tallies demo · tallies fit lda texts.jsonl --out RUN · tallies report RUN texts.jsonl",
)
app.add_typer(fit_app, name="fit")
app.command()(resume)

Data = Annotated[Path, typer.Argument(metavar="DATA", help="A file like the one that was fitted.")]
Covariates = Annotated[Path | None, typer.Option(help="Covariates of these samples (pln); default: those of the fit.")]
Table = Annotated[
    Path | None, typer.Option("--out", "-o", help="File to write (csv, tsv, jsonl, parquet); default: csv to stdout.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the draws, where a score needs any.")]


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


def _read(run: Path, covariates: Path | None = None) -> tuple[Any, dict[str, Any], Any]:
    """Model, options and command module of a RUN."""
    from tallies.registry import furniture
    from tallies.runs import read_run

    model, options = read_run(run)
    if covariates is not None:
        if options["model"] != "pln":
            raise DataError(f"--covariates is for pln, but {str(run)!r} is a fit of {options['model']}; leave it out")
        options["covariates"] = str(covariates)
    return model, options, furniture(model, "command")


@app.command()
def info(run: Run, as_json: Json = False, quiet: Quiet = False) -> None:
    """What a RUN holds: the model, the options that made it, how the fit ended."""
    from tallies.runs import read_run

    model, options = read_run(run)
    if as_json:
        result = {
            "n_iter": model.n_iter_,
            "converged": model.converged_,
            "stopped": model.stopped_,
            "history": model.history_.tolist(),
            "summary": model.summary(),
        }
        print_json({"options": options, **result})
    else:
        print(model.summary())
        print("\n".join(["", *(f"{key}: {value}" for key, value in options.items())]))
    say(f"\nNext: tallies report {run} · tallies fit --config {run / 'run.toml'} --out NEW (the same again)", quiet or as_json)


@app.command()
def predict(
    run: Run,
    data: Data,
    out: Table = None,
    covariates: Covariates = None,
    top: Annotated[int, typer.Option(min=1, help="Concepts a sentence (author-concept).")] = 5,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict every row of a file."""
    model, options, family = _read(run, covariates)
    with where(threads=threads):
        table = family.predict(model, {**options, "top": top}, str(data))
    _give(table, out, as_json, quiet, f"tallies score {run} DATA · tallies report {run} {data}")


@app.command()
def score(
    run: Run,
    data: Data,
    covariates: Covariates = None,
    seed: Seed = 0,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How good the model is on a file with known answers."""
    model, options, family = _read(run, covariates)
    with where(threads=threads):
        result = family.score(model, options, str(data), seed)
    if as_json:
        print_json(result)
        return
    _print_scores(result)
    say(f"\nNext: tallies report {run} {data} · tallies compare {run} OTHER --data {data}", quiet)


def _print_scores(result: dict[str, Any]) -> None:
    flat: dict[str, Any] = {}
    for key, value in result.items():
        flat |= {f"{key} {k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    for key, value in flat.items():
        if key not in ("classes", "confusion"):
            number = isinstance(value, float | int) and not isinstance(value, bool)
            print(f"{key:24}{value:,.6g}" if number else f"{key:24}{'-' if value is None else value}")
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
    n: Annotated[int, typer.Option("-n", min=1, help="Rows to draw.")] = 100,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed; default: a new one each time.")] = None,
    out: Table = None,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw new data from a fitted model."""
    model, options, family = _read(run)
    with where(threads=threads):
        table = family.sample(model, options, n, seed)
    _give(table, out, as_json, quiet, f"tallies fit {options['model']} {out} --out NEW (to see what a fit makes of them)")


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="Two or more RUN folders.")],
    data: Annotated[Path, typer.Option("--data", "-d", help="Unseen data to compare them on.")],
    covariates: Covariates = None,
    seed: Seed = 0,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Scores of several RUNs on the same file, a row each."""
    if len(runs) < 2:
        raise DataError(f"compare needs two or more RUN folders, got {len(runs)}; for one there is: tallies score {runs[0]} {data}")
    rows, columns = {}, set()
    for run in runs:
        model, options, family = _read(run, covariates)
        columns.add(tuple(getattr(model, "feature_names_in_", ())))
        with where(threads=threads):
            found = family.score(model, options, str(data), seed)
        if "kind" not in found and all(isinstance(value, dict) for value in found.values()):  # several kinds: the last is the best
            found = list(found.values())[-1]
        rows[str(run)] = {"model": type(model).__name__, **{k: v for k, v in found.items() if not isinstance(v, list)}}
    kinds = {row["kind"] for row in rows.values() if "kind" in row}
    if len(kinds) > 1:
        warnings.warn(
            f"comparing scores of different kind: {', '.join(sorted(kinds))}; they are not the same quantity", stacklevel=1
        )
    elif len(columns) > 1 and kinds != {"conditional"}:  # those of a target may come from any columns
        warnings.warn("comparing likelihoods of different columns: they are not the same quantity", stacklevel=1)
    if as_json:
        print_json(rows)
        return
    from pandas import DataFrame

    print(DataFrame.from_dict(rows, orient="index").to_string(float_format=lambda value: f"{value:,.6g}"))
    say(f"\nNext: tallies report RUN {data}, for the one you choose", quiet)


@app.command()
def report(
    run: Run,
    data: Annotated[Path | None, typer.Argument(metavar="DATA", help="Unseen data to judge the model by.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page to write; default: report.html in the RUN folder.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of DATA (or of the fit's data): topics by date or group (lda), colours (pln).")
    ] = None,
    covariates: Covariates = None,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page about a fitted model."""
    model, options, family = _read(run, covariates)
    fitted = Path(options["data"])
    told: dict[str, Any] = {"data_name": fitted.name, "command": f"tallies fit --config {run / 'run.toml'} --out NEW"}
    with where(threads=threads):
        if group is not None:
            if not hasattr(family, "report_group"):
                raise DataError(f"--group is for lda and pln, but {str(run)!r} is a fit of {options['model']}; leave it out")
            data, more = family.report_group(model, options, None if data is None else str(data), group)
            told |= more
        rows = () if data is None else family.report_data(model, options, str(data))
        told["held_out"] = None if data is None else Path(data).resolve() != fitted.resolve()
        page = model.report(out or run / "report.html", *rows, **told)
    if as_json:
        print_json({"report": str(page), "bytes": page.stat().st_size})
    say(f"Wrote {page}. Next: open it in a browser; it needs no network.", quiet or as_json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("demo"),
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit models to data that need no download and write a gallery of reports."""
    from tallies.demo import run

    with where(threads=threads):
        index = run(out, quiet)
    if as_json:
        print_json({"gallery": str(index), "reports": sorted(str(p) for p in index.parent.glob("*.html") if p != index)})


def _give(table: Any, out: Path | None, as_json: bool, quiet: bool, after: str) -> None:
    """A table to a file, or to stdout as csv or JSON."""
    if out is not None:
        from tallies.data.files import write_frame

        write_frame(table, out)
        if as_json:
            print_json({"wrote": str(out), "rows": len(table), "columns": list(table.columns)})
        say(f"Wrote {len(table):,} rows to {out}. Next: {after}", quiet or as_json)
    elif as_json:
        print_json(table.to_dict("records"))
    else:
        print(table.to_csv(index=False), end="")
        say(f"{len(table):,} rows. Next: --out FILE writes them to a file", quiet or not sys.stdout.isatty())


def main() -> None:
    """Entry point: turn errors into one paragraph and an exit code, warnings into one line."""
    warnings.showwarning = _show_warning
    try:
        code = app(prog_name="tallies", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        say("\nStopped.")
        sys.exit(130)
    except Exception as error:
        code = _explain(error)
    if code:
        sys.exit(code)


def _explain(error: Exception) -> int:
    """Say what went wrong, and give the exit code; what nobody foresaw is raised again, with its traceback."""
    if hasattr(error, "format_message"):  # typer's own: a wrong option, command or value
        words = error.format_message().rstrip()
        ctx = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            say(words)
        elif words:
            end = "" if words.endswith((".", "?", ")")) else "."
            say(f"Error: {words}{end}" + (f" See: {ctx.command_path} --help" if ctx is not None else ""))
        return int(getattr(error, "exit_code", 2))
    if not isinstance(error, TalliesError | ValueError | TypeError | OSError | MemoryError):
        raise error
    say(f"Error: {' '.join(str(error).split()) or type(error).__name__}")
    return 2 if isinstance(error, TalliesError | ValueError | FileNotFoundError) and not isinstance(error, MissingExtra) else 1


def _show_warning(message: Any, category: Any, *rest: Any, **more: Any) -> None:
    say(f"Warning: {message}")
