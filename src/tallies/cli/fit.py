"""`tallies fit MODEL DATA --out RUN` and `tallies resume RUN`.

A model's command is a signature: the options it has beyond those of every fit. What they say is merged with a config file in
`tallies.cli.configs`; the room's command reads the data and fits; `tallies.runs` keeps the RUN folder.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tallies.cli.options import PANEL, Json, Quiet, Run, Scheduler, Threads, print_json, say, where
from tallies.errors import DataError


class ByConfig(typer.core.TyperGroup):
    """`tallies fit --config run.toml` without a model: the file says which."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        at = next((i for i, word in enumerate(args) if word == "--config" or word.startswith("--config=")), None)
        if at is not None and args[0].startswith("-"):
            path = args[at].partition("=")[2] or next(iter(args[at + 1 :]), "")
            if path:
                from tallies.cli.configs import model_name
                from tallies.runs import read_toml

                args = [model_name(read_toml(path).get("model"), path), *args]
        return super().parse_args(ctx, args)


fit_app = typer.Typer(cls=ByConfig, no_args_is_help=True, help="Fit a model to a file and write it to a RUN folder.")

Target = Annotated[str | None, typer.Option("--target", "-t", help="Column with the class. Needed.")]
Columns = Annotated[str | None, typer.Option(help="Columns to use, comma separated; default: all but the target.")]
Weights = Annotated[str | None, typer.Option(help="Column with row weights.")]
Priors = Annotated[str | None, typer.Option(help="Class probabilities, comma separated, in the order of the sorted classes.")]
Semi = Annotated[bool, typer.Option(help="Use rows whose target is empty, by EM.")]
Text = Annotated[str, typer.Option(help="Column with the text.")]
Identifier = Annotated[str, typer.Option(help="Column with the name of a document.")]
Degree = Annotated[str, typer.Option(help="Products of 1 to so many variables; several, such as 1,3, for these alone; or auto.")]
Ridge = Annotated[str, typer.Option(help="Strength of the ridge penalty: auto (cross-validation), or a number.")]
Bins = Annotated[int | None, typer.Option(help="Cut numbers into so many quantile intervals.")]
Missing = Annotated[Literal["state", "ignore"], typer.Option(help="An empty cell is a state of its own, or nothing.")]
Sweeps = Annotated[
    int | None, typer.Option(min=1, help="Most sweeps over the data; default: the model's own.", rich_help_panel=PANEL)
]


def _common(
    ctx: typer.Context,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="RUN folder to write. Needed.", rich_help_panel=PANEL)] = None,
    sweeps: Sweeps = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers, where there are any.", rich_help_panel=PANEL)] = 0,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Options in TOML, such as run.toml of a RUN: repeats it. What the line says wins.", rich_help_panel=PANEL
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other hyperparameter, by its name in Python.", rich_help_panel=PANEL),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing RUN folder.", rich_help_panel=PANEL)] = False,
    scheduler: Scheduler = None,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Options of every fit."""


_TABLE = "Table: csv, tsv, jsonl or parquet, also .gz."
_TEXTS = "Texts: jsonl, csv, tsv or parquet (also .gz), or a folder of .txt files."


def _model(name: str, data: str, needs: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a signature: DATA, its own options, and those of every fit."""

    def register(own: Callable[..., None]) -> Callable[..., None]:
        own_options = list(inspect.signature(own, eval_str=True).parameters.values())
        ctx, *shared = inspect.signature(_common, eval_str=True).parameters.values()
        kind: Any = Annotated[Path | None, typer.Argument(help=data, metavar="DATA")]
        first = inspect.Parameter("data", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)

        def command(ctx: typer.Context, **values: Any) -> None:
            from tallies.cli.configs import LONG, from_pairs, merged

            run = {key: values.pop(key) for key in ("config", "pairs", "force", "as_json", "quiet")}
            asked = {LONG.get(key, key): value for key, value in values.items()}
            told = {
                LONG.get(key, key): value
                for key, value in values.items()
                if getattr(ctx.get_parameter_source(key), "name", "") not in ("DEFAULT", "DEFAULT_MAP")
            }
            options = merged(name, asked, told, from_pairs(run["pairs"] or []), run["config"])
            if name == "lda" and (options["burn_in"] is None or ("max_iter" in told and "burn_in" not in told)):
                options["burn_in"] = (options["max_iter"] or 300) * 2 // 3
            for key in ("data", "out", *needs):
                if options.get(key) is None:
                    what = key.upper() if key == "data" else f"--{key}"
                    raise DataError(f"tallies fit {name} needs {what}, on the line or in the file of --config")
            _fit(name, options, run["force"], run["as_json"], run["quiet"])

        command.__signature__ = inspect.Signature([ctx, first, *own_options, *shared])  # type: ignore[attr-defined]
        command.__annotations__ = {}
        command.__doc__ = own.__doc__
        fit_app.command(name)(command)
        return own

    return register


@_model("gda", _TABLE, needs=["target"])
def gda(
    target: Target = None,
    covariance: Annotated[Literal["shared", "class", "diagonal"], typer.Option(help="Which covariance.")] = "shared",
    shrinkage: Annotated[str | None, typer.Option(help="auto, or a number from 0 to 1.")] = None,
    priors: Priors = None,
    columns: Columns = None,
    weights: Weights = None,
    semi_supervised: Semi = False,
) -> None:
    """Gaussian discriminant analysis: a Gaussian for every class; empty cells are missing and summed out."""


@_model("naive-bayes", _TABLE, needs=["target"])
def naive_bayes(
    target: Target = None,
    families: Annotated[str, typer.Option(help="auto, one family, or column=family,... (the others by dtype).")] = "auto",
    smoothing: Annotated[float, typer.Option(help="Pseudo-rows of every state.")] = 1.0,
    priors: Priors = None,
    columns: Columns = None,
    weights: Weights = None,
    semi_supervised: Semi = False,
) -> None:
    """Naive Bayes for numbers, counts and categories together; empty cells are missing and summed out."""


@_model("lda", _TEXTS)
def lda(
    text: Text = "text",
    id: Identifier = "id",
    topics: Annotated[int, typer.Option("--topics", "-k", help="Number of topics.")] = 20,
    alpha: Annotated[str, typer.Option(help="Prior of topics in a document: auto (estimated), or a number.")] = "auto",
    beta: Annotated[str, typer.Option(help="Prior of words in a topic: a number, or auto.")] = "0.01",
    burn_in: Annotated[int | None, typer.Option(help="Sweeps before samples are kept; default: two thirds.")] = None,
    thin: Annotated[int, typer.Option(help="Keep every thin-th sweep after that.")] = 5,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 1,
    min_df: Annotated[float, typer.Option(help="Drop words in fewer documents (below 1: a share).")] = 1,
    max_df: Annotated[float, typer.Option(help="Drop words in more documents (up to 1: a share).")] = 1.0,
    stop_words: Annotated[Literal["english", "none"], typer.Option(help="Words to leave out.")] = "english",
    stem: Annotated[bool, typer.Option(help="Cut words to their stems.")] = False,
    bigrams: Annotated[bool, typer.Option(help="Pairs of neighbouring words count as words, too.")] = False,
    counts: Annotated[bool, typer.Option(help="The table has one column a word, with counts.")] = False,
) -> None:
    """Topics of texts: latent Dirichlet allocation by collapsed Gibbs sampling."""


@_model("pln", "Counts, samples x species: csv, tsv, parquet, mtx, h5ad or biom.")
def pln(
    covariates: Annotated[Path | None, typer.Option(help="Table of covariates, one row a sample.")] = None,
    formula: Annotated[str | None, typer.Option(help='Of the covariates, such as "~ 1 + site"; default: all of them.')] = None,
    offsets: Annotated[str | None, typer.Option(help="logsum, tss, css, rle, gmpr, tmm, wrench, or a table of logarithms.")] = None,
    rank: Annotated[int | None, typer.Option(help="Components of PLN-PCA; default: a full covariance.")] = None,
    method: Annotated[Literal["variational", "importance"], typer.Option(help="How to fit.")] = "variational",
    covariance: Annotated[Literal["full", "diagonal", "spherical"], typer.Option(help="Which covariance.")] = "full",
) -> None:
    """Counts of many species in many samples: the Poisson log-normal model, or PLN-PCA with --rank."""


@_model("fem", _TABLE, needs=["target"])
def fem(
    target: Target = None,
    degree: Degree = "1",
    ridge: Ridge = "auto",
    solver: Annotated[Literal["auto", "fem", "lbfgs", "kernel"], typer.Option(help="How to fit.")] = "auto",
    screen: Annotated[int | None, typer.Option(help="Keep so many pairs, the strongest of all.")] = None,
    bins: Bins = None,
    missing: Missing = "state",
    columns: Columns = None,
    weights: Weights = None,
) -> None:
    """How combinations of categories shape an outcome: named interactions, calibrated probabilities."""


@_model("fem-network", "Table of categories (csv, tsv, jsonl, parquet), or an alignment in FASTA.")
def fem_network(
    degree: Degree = "1",
    ridge: Ridge = "auto",
    lag: Annotated[int, typer.Option(min=0, max=1, help="0: each variable from the others; 1: from the row before.")] = 0,
    reweight: Annotated[float | None, typer.Option(help="Rows with this share of equal cells count as one.")] = None,
    bins: Bins = None,
    missing: Missing = "state",
    columns: Columns = None,
    weights: Weights = None,
) -> None:
    """The coupling network of a table of categories, of a time series, or of an alignment."""


@_model("author-concept", _TEXTS.replace("Texts", "Papers"), needs=["ontology"])
def author_concept(
    ontology: Annotated[
        Path | None, typer.Option(help="Concepts: OBO (also .gz), or a table with id, name, synonyms, parents. Needed.")
    ] = None,
    text: Text = "text",
    authors: Annotated[str, typer.Option(help="Column with the authors.")] = "authors",
    id: Identifier = "id",
    words: Annotated[Literal["mention", "multinomial"], typer.Option(help="How a concept makes words.")] = "mention",
    preset: Annotated[Literal["seed"] | None, typer.Option(help="seed: hard EM on bags of definition words.")] = None,
) -> None:
    """Which concept of an ontology each sentence speaks of, given who wrote it."""


def _fit(name: str, options: dict[str, Any], force: bool, as_json: bool, quiet: bool) -> None:
    """A new fit."""
    from tallies.cli.configs import as_written, build
    from tallies.runs import begin_run, check_free

    out = Path(options["out"])
    check_free(out, force)
    model = build(name, options)
    options = as_written(name, model, options)
    begin_run(out, options)
    _carry_out(out, model, options, as_json, quiet)


def resume(
    run: Run,
    sweeps: Sweeps = None,
    scheduler: Scheduler = None,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a fit that was interrupted, or that needs more sweeps: the result is that of a fit never interrupted."""
    from tallies.cli.configs import build, model_name
    from tallies.runs import OPTIONS, begin_run, checkpoints, read_options, read_run, unfinished

    broken = unfinished(run)
    if (broken / OPTIONS).is_file():
        folder, options = broken, read_options(broken)
        if not checkpoints(folder):
            say("The fit had not come to its first checkpoint; it begins anew.", quiet)
    else:
        folder = run
        before, options = read_run(run)
        if not checkpoints(folder):
            result = {"run": str(run), "n_iter": before.n_iter_, "converged": before.converged_, "resumed": False}
            print_json(result) if as_json else print(f"{run} had settled after {before.n_iter_} sweeps: nothing is left to do.")
            return
        limit = options["max_iter"] if sweeps is None else sweeps
        if before.n_iter_ >= limit:
            raise DataError(
                f"{str(run)!r} has had {before.n_iter_} sweeps; to go on, ask for more: tallies resume {run} --sweeps {2 * limit}"
            )
    options |= {} if sweeps is None else {"max_iter": sweeps}
    options |= {key: value for key, value in (("scheduler", scheduler), ("threads", threads)) if value is not None}
    model = build(model_name(options["model"], str(folder / OPTIONS)), options)
    options.pop("version", None)
    begin_run(run, options, folder)
    _carry_out(run, model, options, as_json, quiet, safe=folder == run)


def _carry_out(out: Path, model: Any, options: dict[str, Any], as_json: bool, quiet: bool, safe: bool = False) -> None:
    """Fit, from the checkpoints of the unfinished folder where there are any, write the RUN, and say what came of it.

    `safe` says that the RUN itself holds the state from which this fit began.
    """
    from tallies.registry import furniture
    from tallies.runs import CHECKPOINT, checkpoints, drop_unfinished, finish_run, unfinished

    place = unfinished(out)
    state = place / CHECKPOINT
    moved: list[bool] = []  # whether there was a sweep

    def sweep(_: Any) -> None:
        moved[:] = [True]

    run = {"checkpoint": state, "resume": state if state.exists() else None, "callback": sweep}
    try:
        with where(options.get("scheduler"), options.get("threads")), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* was interrupted after")  # said below, with the command to go on
            furniture(model, "command").fit(model, options, **run, progress=False if quiet else None)
    except BaseException as error:
        if checkpoints(place) and (moved or not safe):
            say(f"\nStopped. The state of the fit is kept in {place.name}; go on with: tallies resume {out}")
        else:
            drop_unfinished(out)
            if isinstance(error, KeyboardInterrupt):
                say("\nStopped before the first checkpoint; nothing was written.")
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(130) from None
        raise
    ended = model.stopped_
    finish_run(out, model, options, keep_state=ended != "converged")
    result = {
        "run": str(out),
        "model": type(model).__name__,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "interrupted": ended == "interrupted",
        "objective": float(model.history_[-1]) if len(model.history_) else None,
    }
    print_json(result) if as_json else print(model.summary()) if not quiet else None
    if ended == "interrupted":
        say(f"\nInterrupted. Wrote {out}, which can be used as it is. Go on with: tallies resume {out}")
        raise typer.Exit(130)
    after = [
        f"tallies info {out}",
        f"tallies report {out} {options['data']}",
        f"tallies score {out} NEW",
        f"tallies predict {out} NEW",
    ]
    if ended != "converged":
        after.append(f"tallies resume {out} --sweeps {2 * model.n_iter_}")
    say(f"\nWrote {out}. Next: {' · '.join(after)}", quiet)
