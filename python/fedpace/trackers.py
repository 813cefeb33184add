"""Finished runs in MLflow and in Weights & Biases.

    fedpace.to_mlflow("runs/demo")                    a run, or all below a folder under one parent
    fedpace.to_wandb("runs/demo", project="decay")

Each needs its own client (pip install mlflow, wandb), and PyYAML, which both bring. A step is a round.
"""
from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

from .results import ROUNDS, Run, _csv, names_of, runs

__all__ = ["to_mlflow", "to_wandb"]

Folder = Union[str, "os.PathLike[str]", Run]

#: What MLflow takes in one call.
MOST_METRICS, MOST_PARAMS, LONGEST_PARAM = 1000, 100, 6000


def _runs(folder: Folder) -> List[Run]:
    return [folder] if isinstance(folder, Run) else runs(folder)


def _flat(config: Any, prefix: str = "") -> Iterable[Tuple[str, Any]]:
    """The keys of a configuration with dots; a list is one value, as JSON."""
    if not isinstance(config, dict) or not config:
        yield prefix, json.dumps(config) if isinstance(config, (list, dict)) else config
        return
    for key, value in config.items():
        yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))


def settings(run: Run) -> Dict[str, Any]:
    """Every key of the configuration by its name with dots; what runs are compared by comes first.

    K_0, eta_0 and cohort are short names of schedule.k0, schedule.eta0 and cohort.
    """
    keys = dict(_flat(run.config))
    first = {name: run.summary[name] for name in ("schedule", "seed", "version") if name in run.summary}
    first["K_0"], first["eta_0"], first["cohort"] = keys.get("schedule.k0"), keys.get("schedule.eta0"), keys.get("cohort")
    return {**first, **{key: value for key, value in keys.items() if key not in first}}


def finals(run: Run) -> Dict[str, float]:
    """The numbers of the summary, each by its name."""
    return {name: float(value) for name, value in run.summary.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}


def rows(run: Run) -> Iterable[Tuple[int, float, Dict[str, float]]]:
    """Each round: its number, its virtual time, and its measured values by column."""
    columns = _csv(run.path / ROUNDS)
    for i in range(len(columns["round"])):
        values = {}
        for name, column in columns.items():
            value = column[i]
            if isinstance(value, str) or math.isnan(float(value)):
                continue  # not measured
            values[name] = float(value)
        yield int(columns["round"][i]), float(columns["virtual_seconds"][i]), values


def to_mlflow(folder: Folder, experiment: Optional[str] = None, parent: Optional[str] = None) -> List[str]:
    """Logs a run, or the runs below a folder, and returns their run ids.

    Of several runs, as of a comparison, a parent of the name ``parent`` (by default the folder's) is
    made, and they are its children. The experiment is by default the run's task. Parameters are every
    key of the configuration, with K_0, eta_0 and cohort; metrics are the columns of each round, and the
    numbers of the summary as ``final.NAME``. A step is a round, and its time is the virtual one from the
    run's start, so that MLflow's axis "relative" is virtual time. Values that are not finite are left
    out, because its stores change them; the tag fedpace.not_finite counts them by name.
    """
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    client = MlflowClient()
    found = _runs(folder)
    ids: List[str] = []

    def begin(name: str, run: Run, tags: Dict[str, str]) -> str:
        title = experiment or run.summary.get("task") or str(run.config["task"])
        known = client.get_experiment_by_name(title)
        number = known.experiment_id if known else client.create_experiment(title)
        return client.create_run(number, run_name=name, tags=tags).info.run_id

    above = None
    if len(found) > 1 or parent:
        name = parent or (str(folder) if not isinstance(folder, Run) else folder.name)
        above = begin(name, found[0], {"fedpace.runs": str(len(found))})
    for run, name in zip(found, names_of(found)):
        tags = {"fedpace.folder": str(run.path.resolve())}
        if above:
            tags["mlflow.parentRunId"] = above
        run_id = begin(name, run, tags)
        ids.append(run_id)
        params = [Param(key, str(value)[:LONGEST_PARAM]) for key, value in settings(run).items()]
        for i in range(0, len(params), MOST_PARAMS):
            client.log_batch(run_id, params=params[i : i + MOST_PARAMS])
        start = client.get_run(run_id).info.start_time
        metrics, skipped, last = [], {}, start
        for number, seconds, values in rows(run):
            last = start + round(1000 * seconds)
            for name, value in values.items():
                if math.isfinite(value):
                    metrics.append(Metric(name, value, last, number))
                else:
                    skipped[name] = skipped.get(name, 0) + 1
        final = finals(run)
        metrics += [Metric(f"final.{name}", value, last, 0) for name, value in final.items() if math.isfinite(value)]
        for i in range(0, len(metrics), MOST_METRICS):
            client.log_batch(run_id, metrics=metrics[i : i + MOST_METRICS])
        if skipped:
            client.log_batch(run_id, tags=[RunTag("fedpace.not_finite", json.dumps(skipped, sort_keys=True))])
        for name in ("config.yaml", "summary.json"):
            if (run.path / name).is_file():
                client.log_artifact(run_id, str(run.path / name))
        client.set_terminated(run_id, "FINISHED" if run.summary.get("completed") else "FAILED", end_time=last)
    if above:
        client.set_terminated(above)
    return ids


def to_wandb(folder: Folder, project: Optional[str] = None, **init: Any) -> List[str]:
    """Logs a run, or the runs below a folder as one group, to Weights & Biases; returns their ids.

    The configuration of a run is the whole one, with K_0, eta_0 and cohort; a row is logged for each
    round, with the round as step. The summary holds the numbers of summary.json under their names, and
    not the last row: a validation at the end is not in the last round's. ``init`` goes to wandb.init,
    such as mode="offline".
    """
    import wandb

    found = _runs(folder)
    if len(found) > 1:
        init.setdefault("group", str(folder))
    ids = []
    for run, name in zip(found, names_of(found)):
        about = {**run.config, **{name: value for name, value in settings(run).items() if "." not in name and name not in run.config}}
        task = run.summary.get("task") or str(run.config["task"])
        with wandb.init(project=project or task, name=name, config=about, reinit="finish_previous", **init) as entry:
            ids.append(entry.id)
            # Without this the last row that was logged is the summary.
            entry.define_metric("*", summary="none")
            for number, _, values in rows(run):
                entry.log(values, step=number)
            entry.summary.update(run.summary)
            for file in ("config.yaml", "summary.json"):
                if (run.path / file).is_file():
                    entry.save(str(run.path / file), base_path=str(run.path))
    return ids
