"""The command `tallies`: fit, look, predict, score, sample. Models and data libraries are imported only when they are needed.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 stopped by Ctrl-C, SIGTERM or SIGHUP. Results go to stdout; progress,
warnings and what to do next to stderr.
"""

from __future__ import annotations

import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from tallies import phases
from tallies._version import __version__
from tallies.aside import left_behind
from tallies.cli import holdout
from tallies.cli.configs import SWEEPS, WHERE
from tallies.cli.fit import fit_app, resume
from tallies.cli.options import READING, RUN, Answer, Late, Line, Option, command, read_as, say, speak_any_language
from tallies.errors import ClusterError, DataError, FitError, MissingExtra, TalliesError
from tallies.registry import WORDS, furniture, part
from tallies.runs import read_judged, read_run

app = typer.Typer(
    cls=Late,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Generative models for words, counts and categories.",
    epilog="Begin with: tallies demo · tallies fit MODEL DATA --out RUN · tallies report RUN DATA",
)
app.add_typer(fit_app, name="fit")
command(app, lambda: (RUN, SWEEPS, *WHERE))(resume)
DATA = Option("data", "A file like the one that was fitted.", ..., Path, "DATA")
TABLE = Option("out", "File to write (csv, tsv, jsonl, parquet); default: csv to stdout.", None, Path, "out,o")
ESCAPE = Option("escape", "In csv and tsv, an apostrophe before texts that a spreadsheet would take for a formula.", True, bool)
SEED = Option("seed", "Seed of the draws, where a score needs any.", 0, int, least=0)


def _version(value: bool) -> None:
    if value:
        print(f"tallies {__version__}")
        raise typer.Exit


VERSION = typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")


@app.callback()
def _options(version: Annotated[bool, VERSION] = False) -> None:
    """Options of the command itself."""


def _own(what: str) -> list[Option]:
    """Options that not every model has, with the models that do and what they mean to each; `what`: PREDICT, SCORE or REPORT."""
    found: dict[str, Option] = {}
    for word, name in WORDS.items():
        for option in getattr(part(name, "command"), what, ()):
            before = found.get(option.name, option._replace(help=""))
            help = f"{before.help.rstrip('.')}; {option.help.rstrip('.')} ({word})."
            found[option.name] = before._replace(help=help.removeprefix("; "), models=(*before.models, word))
    return list(found.values())


def _spare(out: Any, *given: Any) -> None:
    """Refuse to write over a file that is read, or that a fit was made of."""
    for path in given if out is not None and Path(out).exists() else ():
        if isinstance(path, str | Path) and Path(path).exists() and Path(path).samefile(out):
            raise DataError(f"--out {str(out)!r} is a file of data, which would be lost; choose another name")


def _read(run: Path, line: Line, what: str = "") -> tuple[Any, dict[str, Any], Any]:
    """Model, options and command module of a RUN; with those options of the line that are the model's own."""
    model, options = read_run(run)
    options["told"] = [option.name for option in _own(what) if option.name in line.told]  # now, and not at the fit
    for option in (option for option in _own(what) if option.name in line.told):
        if options["model"] not in option.models:
            whose = f"{option.title} is for {' and '.join(option.models)}"
            raise DataError(f"{whose}, but {str(run)!r} is a fit of {options['model']}; leave it out")
        options[option.name] = line.told[option.name]
    _spare(line.told.get("out"), *options.values(), *(value for name, value in line.told.items() if name != "out"))
    same = "data" not in line.told or Path(line.told["data"]).resolve() == Path(options["data"]).resolve()
    for option in READING:  # another file may be in another dialect
        options[option.name] = line.told.get(option.name, options.get(option.name) if same else None)
    return model, options, furniture(model, "command")


@command(app, lambda: (RUN,))
def info(line: Line, run: Path) -> Answer:
    """What a RUN holds: the model, the options that made it, how the fit ended."""
    model, options = read_run(run)
    ended = {"n_iter": model.n_iter_, "converged": model.converged_, "stopped": model.stopped_, "history": model.history_}
    judged = read_judged(run)
    told = [holdout.sentence(judged)] if judged is not None else []
    ended["held_out"] = judged
    text = "\n".join([model.summary(), *told, "", *(f"{key}: {value}" for key, value in options.items())])
    after = f"\nNext: tallies report {run} · tallies fit --config {run / 'run.toml'} --out NEW (the same again)"
    return Answer({"options": options, **ended, "summary": model.summary()}, text, after)


@command(app, lambda: (RUN, DATA, TABLE, ESCAPE, *_own("PREDICT"), *READING))
def predict(line: Line, run: Path, data: Path, out: Path | None, escape: bool, **own: Any) -> Answer:
    """Predict every row of a file."""
    model, options, family = _read(run, line, "PREDICT")
    folder = family.predict_files(model, options, str(data), out) if hasattr(family, "predict_files") else None
    if folder is not None:
        return Answer({"out": str(folder)}, "", f"\nWrote {folder}, a folder of Parquet files.")
    with phases.phase(f"predicting {data.name}"), read_as(options, data):
        table = family.predict(model, options, str(data))
    return _table(line, table, out, escape, f"tallies score {run} DATA · tallies report {run} {data}")


@command(app, lambda: (RUN, DATA, SEED, *_own("SCORE"), *READING))
def score(line: Line, run: Path, data: Path, seed: int, **own: Any) -> Answer:
    """How good the model is on a file with known answers."""
    model, options, family = _read(run, line, "SCORE")
    with phases.phase(f"scoring by {data.name}"), read_as(options, data):
        result, _ = family.score(model, options, str(data), seed)
    after = f"\nNext: tallies report {run} {data} · tallies compare {run} OTHER --data {data}"
    return Answer(result, _scores(result), after)


def _scores(result: dict[str, Any]) -> str:
    """Numbers a line each, and a confusion matrix."""
    from pandas import DataFrame

    lines = []
    for key, value in result.items():
        for name, number in value.items() if isinstance(value, dict) else [("", value)]:
            if key not in ("classes", "confusion"):
                told = f"{number:,.6g}" if isinstance(number, float | int) and not isinstance(number, bool) else number
                lines.append(f"{f'{key} {name}'.strip():24}{'-' if told is None else told}")
    if "confusion" in result:
        table = DataFrame(result["confusion"], result["classes"], result["classes"]).map("{:,}".format)
        lines += ["", "confusion (rows: truth, columns: prediction)", table.to_string(col_space=11)]
    return "\n".join(lines)


ROWS = Option("n", "Rows to draw.", 100, int, least=1)
ANY_SEED = Option("seed", "Seed; default: a new one each time.", None, int, least=0)


@command(app, lambda: (RUN, ROWS, ANY_SEED, TABLE, ESCAPE))
def sample(line: Line, run: Path, n: int, seed: int | None, out: Path | None, escape: bool) -> Answer:
    """Draw new data from a fitted model."""
    model, options, family = _read(run, line)
    with phases.phase(f"drawing {n:,} rows"):
        table = family.sample(model, options, n, seed)
    return _table(line, table, out, escape, f"tallies fit {options['model']} {out} --out NEW (to see what a fit makes of them)")


RUNS = Option("runs", "Two or more RUN folders.", ..., Path, "RUN RUN...", many=True)
UNSEEN = Option("data", "Unseen data to compare them on.", ..., Path, "data,d")


@command(app, lambda: (RUNS, UNSEEN, SEED, *_own("SCORE"), *READING))
def compare(line: Line, runs: list[Path], data: Path, seed: int, **own: Any) -> Answer:
    """Scores of several RUNs on the same file, a row each, best first, with the paired difference to the best and its error."""
    from pandas import DataFrame

    from tallies.evaluation.score import difference, ranked, warn_if_unlike

    if len(runs) < 2:
        raise DataError(f"compare needs two or more RUN folders, got {len(runs)}; for one there is: tallies score {runs[0]} {data}")
    rows, models, made = {}, [], {}
    for run in runs:
        model, options, family = _read(run, line, "SCORE")
        models.append(model)
        with phases.phase(f"scoring {run.name} by {data.name}"), read_as(options, data):
            found, made[str(run)] = family.score(model, options, str(data), seed)
        if "kind" not in found and all(isinstance(value, dict) for value in found.values()):  # several kinds: the last is the best
            found = list(found.values())[-1]
        rows[str(run)] = {"model": type(model).__name__, **{k: v for k, v in found.items() if not isinstance(v, list)}}
    warn_if_unlike(models, {row["kind"] for row in rows.values() if "kind" in row})
    order = ranked(made)
    for name in order:
        rows[name]["difference"], rows[name]["difference_stderr"] = difference(made[name], made[order[0]])
    rows = {name: rows[name] for name in order}
    text = DataFrame.from_dict(rows, orient="index").to_string(float_format=lambda value: f"{value:,.6g}")
    return Answer(rows, text, f"\nNext: tallies report RUN {data}, for the one you choose")


JUDGE = Option("data", "Unseen data to judge the model by.", None, Path, "DATA")
PAGE = Option("out", "Page to write; default: report.html in the RUN folder.", None, Path, "out,o")
FORCE = Option("force", "Replace a page that was made with more, such as data.", False, bool, run=True)


@command(app, lambda: (RUN, JUDGE, PAGE, FORCE, *_own("REPORT"), *READING))
def report(line: Line, run: Path, data: Path | None, out: Path | None, force: bool, **own: Any) -> Answer:
    """Write one self-contained HTML page about a fitted model."""
    model, options, family = _read(run, line, "REPORT")
    fitted, path = Path(options["data"]), None if data is None else str(data)
    about: dict[str, Any] = {"data_name": fitted.name, "command": f"tallies fit --config {run / 'run.toml'} --out NEW"}
    judged = read_judged(run)
    if judged is not None:
        about["note"] = holdout.sentence(judged)
    with phases.phase(f"reading {data or fitted}"), read_as(options, data or fitted):
        if hasattr(family, "report_options"):
            path, more = family.report_options(model, options, path)
            about |= more
        its = path is None or Path(path).resolve() == fitted.resolve()
        unseen = options.get("holdout") is not None and its and fitted.exists()
        if unseen:  # the rows of the fit's own file that were held out
            path, options["rows"] = str(fitted), holdout.splitter(options, family, model)(1, True)
        rows = () if path is None else family.report_data(model, options, path)
    about["held_out"] = None if path is None else unseen or Path(path).resolve() != fitted.resolve()
    page = model.report(out or run / "report.html", *rows, force=force, **about)
    result = {"report": str(page), "bytes": page.stat().st_size}
    return Answer(result, after=f"Wrote {page}. Next: open it in a browser; it needs no network.")


FILE = Option("out", "File to write; its ending says how.", ..., Path, "out,o")


@command(app, lambda: (RUN, FILE, *_own("EXPORT")))
def export(line: Line, run: Path, out: Path, **own: Any) -> Answer:
    """Write what was learned for other programs: edges of a network as .csv, .tsv or .graphml, how rows are scored as .json."""
    model, options, _ = _read(run, line, "EXPORT")
    if not hasattr(model, "export"):
        there = f"there is: tallies predict {run} DATA, tallies report {run}"
        raise DataError(f"a fit of {options['model']} has nothing to export; {there}")
    more = {name: value for name, value in own.items() if name in options["told"]}
    if "against" in more:
        more["against"] = read_run(more["against"])[0]
    with phases.phase(f"writing {out.name}"):
        path = model.export(out, **more)
    return Answer({"wrote": str(path), "bytes": path.stat().st_size}, after=f"Wrote {path}.")


TOLD = Option(
    "data",
    "Table (csv of any dialect, xlsx, parquet, jsonl, ...), counts (h5ad, mtx, biom), FASTA, OBO, folder of texts.",
    ...,
    Path,
    "DATA",
)


@command(app, lambda: (TOLD, *READING))
def describe(line: Line, data: Path, **own: Any) -> Answer:
    """What is in a file: how it was read, of each column its kind, gaps, levels and what a fit would do with it; and which models
    take it."""
    from tallies.cli.described import held

    with phases.phase(f"reading {data.name}"), read_as(own, data):
        found = held(data)
    columns, models = found.columns, found.models(data)
    listed = [f"{len(columns.names):,} columns\n\n{columns.table().to_string(index=False)}"] if columns.names else []
    text = ", ".join(
        [f"{found.rows:,} rows", *filter(None, [found.read] if not listed or found.read.endswith(":") else []), *listed]
    )
    result = {"rows": found.rows, "read": found.read, "columns": columns.table().to_dict("records"), "models": models}
    commands = [f"\n  {model['command']}" for model in models] or [" no model takes it as it is"]
    return Answer(result, text, f"\nNext:{''.join(commands)}")


WHOLE = Option("data", "A table as csv, tsv or json lines (also .gz), or a folder of such files.", ..., Path, "DATA")
TEXT = Option("text", "Column with texts, of a folder (also of Parquet): their words are counted, for LDA.")

JOIN = Option("join", "Second table, or folder of them, with the same keys: its columns are added.", None, Path)
ON = Option("on", "Column of both tables with the keys.", "id")


def _prepared() -> tuple[Option, ...]:
    from tallies.cli.tables import COUNTING

    return WHOLE, Option("out", "Folder to write.", ..., Path, "out,o"), TEXT, JOIN, ON, *COUNTING


@command(app, _prepared)
def prepare(line: Line, data: Path, out: Path, text: str | None, join: Path | None, on: str, **counting: Any) -> Answer:
    """Write a table once as a folder of Parquet files, with the columns of a second one of the same keys, or the words of texts
    as counts, for fits that read it many times; goes on where it was stopped."""
    from tallies.cli.configs import read
    from tallies.cli.tables import COUNTING, document_bound, no_stop_words
    from tallies.data import bags, prepared
    from tallies.data.joined import join_tables

    if join is not None and text is not None:
        raise DataError("texts are counted by --text, tables joined by --join: join first, and count the words of what comes of it")
    if text is None:
        with phases.phase(f"writing {data.name} as Parquet"):
            folder = prepared.prepare(data, out) if join is None else out
            if join is not None:
                join_tables(data, join, on, out=out)
        after = f"tallies fit MODEL {folder} --target COLUMN --out RUN"
    else:
        told = {option.name: read(counting[option.name], option) for option in COUNTING}
        told |= {key: document_bound(key, told[key]) for key in ("min_df", "max_df")}
        folder, after = bags.count(data, out, text, **no_stop_words(told)), f"tallies fit lda {out} --out RUN"
    files = [str(folder / entry["file"]) for entry in prepared.manifest(folder)["files"]]
    return Answer({"out": str(folder), "files": files}, "", f"Wrote {folder}. Next: {after}")


CLUSTER = """# a cluster on this machine, {workers} processes; the same lines work for any other that Dask can start
from dask.distributed import Client, LocalCluster
import tallies

if __name__ == "__main__":
    with LocalCluster(n_workers={workers}, threads_per_worker=1, memory_limit="{memory}MB") as cluster, Client(cluster) as client:
        print(cluster.dashboard_link)
        with tallies.backend(client, scratch="{scratch}"):
            model = tallies.NaiveBayes().fit("FOLDER", y="COLUMN")

# or from a shell, on as many machines as there are, with one folder that all of them see:
#   dask scheduler
#   dask worker tcp://SCHEDULER:8786 --nworkers {workers} --nthreads 1
#   tallies fit naive-bayes FOLDER --target COLUMN --out RUN --scheduler tcp://SCHEDULER:8786 --scratch SHARED"""


@command(app, lambda: ())
def cluster(line: Line) -> Answer:
    """Print how to fit on a Dask cluster: lines of Python for one on this machine, and of a shell for others."""
    import tempfile

    from tallies.backends import thread_count
    from tallies.mapped import free_memory

    workers = thread_count()
    told = {"workers": workers, "memory": free_memory() // 2 // workers // 10**6, "scratch": tempfile.gettempdir()}
    text = CLUSTER.format(**told)
    return Answer({**told, "python": text}, text)


@command(app, lambda: (Option("out", "Folder to write.", Path("demo"), Path, "out,o"),))
def demo(line: Line, out: Path) -> Answer:
    """Fit models to data that need no download and write a gallery of reports."""
    from tallies.demo import run

    index = run(out, line.quiet)
    return Answer({"gallery": str(index), "reports": sorted(str(p) for p in index.parent.glob("*.html") if p != index)})


def _table(line: Line, table: Any, out: Path | None, escape: bool, after: str) -> Answer:
    """A table to a file, or to stdout as csv or JSON."""
    from tallies.data.output import write_csv, write_frame

    if out is None:
        if line.as_json:
            return Answer(table.to_dict("records"))
        more = f"{len(table):,} rows. Next: --out FILE writes them to a file" if sys.stdout.isatty() else ""
        return Answer(None, write_csv(table, None, escape) or "", more)
    write_frame(table, out, escape)
    result = {"wrote": str(out), "rows": len(table), "columns": list(table.columns)}
    return Answer(result, after=f"Wrote {len(table):,} rows to {out}. Next: {after}")


def main() -> None:
    """Entry point: turn errors into one paragraph and an exit code, warnings into one line."""
    warnings.showwarning = lambda message, *rest, **more: say(f"Warning: {message}")
    speak_any_language(sys.argv[1:])
    for name in ("SIGTERM", "SIGHUP"):  # a scheduler that ends a job, a terminal that closes: as Ctrl-C, unless ignored (nohup)
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    phases.DISPLAY.hushed = not {"-q", "--quiet", "-h", "--help", "--version"}.isdisjoint(sys.argv)
    stopping = "Stopping, when what runs now lets go (Ctrl-C again: at once)."
    try:
        with phases.answering(stopping, wait=0.5, hard=True), phases.phase("starting"):
            code = app(prog_name="tallies", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as end:
        if left_behind():
            phases.end_process(end.code if isinstance(end.code, int) else 1)
        raise
    except Exception as error:
        code = _explain(error)
    if code == 130:  # typer says nothing of it; a fit that was stopped has left already, with its own words
        say("\nStopped.")
    if left_behind():  # it would be waited for
        phases.end_process(int(code or 0))
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
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and words.startswith("[Errno") and error.filename:  # the system's own
        words = f"{str(error.filename)!r}: {error.strerror}; see to this place, or choose another"
    say(f"Error: {words}")
    wrong_use = isinstance(error, TalliesError | ValueError | FileNotFoundError | IsADirectoryError)
    return 2 if wrong_use and not isinstance(error, ClusterError | MissingExtra | FitError) else 1
