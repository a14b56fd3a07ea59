"""`tallies fit MODEL DATA --out RUN` and `tallies resume RUN`.

The options of a model are those of its data, which its room's command declares, and its hyperparameters; what they say is merged
with a config file in `tallies.cli.configs`. The room's command reads the data and fits; `tallies.runs` keeps the RUN folder.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import typer

from tallies import runs
from tallies.cli import holdout
from tallies.cli.configs import as_written, build, from_pairs, line_options, merged, model_name, options_of
from tallies.cli.options import Answer, Late, Line, command, read_as, say, where
from tallies.errors import DataError, FitError
from tallies.phases import phase, tidying
from tallies.registry import ENTRIES, WORDS, furniture


class Models(Late):
    """`tallies fit --config run.toml` without a model: the file says which."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        at = next((i for i, word in enumerate(args) if word == "--config" or word.startswith("--config=")), None)
        if at is not None and args[0].startswith("-"):
            path = args[at].partition("=")[2] or next(iter(args[at + 1 :]), "")
            if path:
                args = [model_name(runs.read_toml(path).get("model"), path), *args]
        return super().parse_args(ctx, args)


fit_app = typer.Typer(cls=Models, no_args_is_help=True, help="Fit a model to a file and write it to a RUN folder.")


def fit(line: Line, config: Path | None, pairs: list[str] | None, force: bool, **own: Any) -> Answer:
    """Fit the model of the command's name."""
    name, told = line.command, {key: value for key, value in line.told.items() if key in own or key == "threads"}
    options = merged(name, told, from_pairs(pairs or []), config)
    for option in options_of(name).values():
        if option.needed and options[option.name] is None:
            raise DataError(f"tallies fit {name} needs {option.title}, on the line or in the file of --config")
    out = Path(options["out"])
    runs.check_free(out, force)
    model = build(name, options)
    holdout.check(options, furniture(model, "command"), model)
    options = as_written(name, model, options)
    with read_as(options, options["data"]), runs.writing(out, options) as place:
        return _carry_out(line, out, place, model, options)


for _word, _class in WORDS.items():
    command(fit_app, partial(line_options, _word), _word, ENTRIES[_class][1].help)(fit)


def resume(line: Line, run: Path, **own: Any) -> Answer:
    """Go on with a fit that was interrupted, or that needs more sweeps: the result is that of a fit never interrupted."""
    ended = runs.tidy(run)
    runs.check_idle(run)
    broken, more = runs.unfinished(run), {key: value for key, value in line.told.items() if key != "run"}
    if (broken / runs.OPTIONS).is_file():
        folder, options = broken, runs.read_options(broken) | more
        if not runs.checkpoints(folder):
            say("The fit had not come to its first checkpoint; it begins anew.", line.quiet)
    else:
        folder = run
        before, options = runs.read_run(run)
        options |= more
        if not runs.checkpoints(folder) or (ended and not more):
            result = {"run": str(run), "n_iter": before.n_iter_, "converged": before.converged_, "resumed": False}
            how = "settled" if before.converged_ else "ended"
            sweeps = "sweep" if before.n_iter_ == 1 else "sweeps"
            return Answer(result, f"{run} had {how} after {before.n_iter_} {sweeps}: nothing is left to do.")
        if before.n_iter_ >= (limit := options["max_iter"]):
            raise DataError(
                f"{str(run)!r} has had {before.n_iter_} sweeps; to go on, ask for more: tallies resume {run} --sweeps {2 * limit}"
            )
    model = build(model_name(options["model"], str(folder / runs.OPTIONS)), options)
    options.pop("version", None)
    with read_as(options, options["data"]), runs.writing(run, options, folder) as place:
        return _carry_out(line, run, place, model, options, safe=folder == run)


def _carry_out(line: Line, out: Path, place: Path, model: Any, options: dict[str, Any], safe: bool = False) -> Answer:
    """Fit, from the checkpoints of the unfinished folder where there are any, write the RUN, and say what came of it.

    `safe` says that the RUN itself holds the state from which this fit began.
    """
    state = place / runs.CHECKPOINT
    moved: list[int] = []  # an entry a sweep
    run = {"checkpoint": state, "resume": state if state.exists() else None, "callback": lambda *_: moved.append(1)}
    family, place_to_run = (
        furniture(model, "command"),
        partial(where, *(options.get(key) for key in ("scheduler", "threads", "memory", "scratch"))),
    )

    def leave(keep: bool = True) -> bool:
        """Keep the state of the fit where there is one to go on from; whether there was."""
        kept = keep and bool(runs.checkpoints(place)) and (bool(moved) or not safe)
        if not kept:
            runs.drop_unfinished(out)
        return kept

    try:
        reading = phase(f"reading {Path(options['data']).name}", show=not line.quiet)
        with reading, place_to_run(), tidying(leave), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* was interrupted after")  # said below, with the command to go on
            holdout.fit(model, options, family, **run, progress=False if line.quiet else None)
    except BaseException as error:
        if leave(keep=not isinstance(error, FitError)):  # a lost fit leads nowhere
            say(f"\nStopped. The state of the fit is kept in {place.name}; go on with: tallies resume {out}")
        elif isinstance(error, KeyboardInterrupt):
            say("\nStopped before the first checkpoint; nothing was written.")
        if isinstance(error, KeyboardInterrupt):
            raise SystemExit(130) from None
        raise
    ended = model.stopped_
    runs.finish_run(out, model, options, keep_state=ended != "converged")
    result = {
        "run": str(out),
        "model": type(model).__name__,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "interrupted": ended == "interrupted",
        "objective": float(model.history_[-1]) if len(model.history_) else None,
    }
    summary = "" if line.quiet else model.summary()
    if ended == "interrupted":
        say(f"\nInterrupted. Wrote {out}, which can be used as it is. Go on with: tallies resume {out}")
        return Answer(result, summary, code=130)
    try:
        with place_to_run(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were said of the fit itself
            judged = holdout.judge(model, options, family, partial(build, options["model"], options))
    except KeyboardInterrupt:
        say(f"\nStopped. Wrote {out}, which is fitted to its end; how good it is on unseen rows was not found out.")
        return Answer(result, summary, code=130)
    if judged is not None:
        runs.write_judged(out, judged)
        result["held_out"], summary = judged, "\n\n".join(filter(None, [summary, "" if line.quiet else holdout.sentence(judged)]))
    data = "" if options.get("holdout") else f" {options['data']}"  # by itself a report judges by the rows held out
    after = f"tallies info {out} · tallies report {out}{data} · tallies score {out} NEW · tallies predict {out} NEW"
    if ended != "converged":
        after += f" · tallies resume {out} --sweeps {2 * model.n_iter_}"
    return Answer(result, summary, f"\nWrote {out}. Next: {after}")
