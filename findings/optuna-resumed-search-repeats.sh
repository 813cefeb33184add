#!/usr/bin/env bash
# optuna 5.0.0: a seeded search that is resumed plays the same trials again.
#
# One expects: a study that goes on from its storage, with TPESampler(seed=1), tries new points.
# It happens: the generator begins anew with the process, and the first ten trials of TPE are random: five
# trials, a restart and five more are five points twice.
# Why it matters: a search over K_0 and learning rates of federated runs takes hours and is interrupted;
# half of the budget goes into points that are known. Seed by the number of trials that the study has.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > play.py <<'END'
import pathlib

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
storage = "sqlite:///" + str(pathlib.Path("study.db").resolve())
for _ in range(2):
    sampler = optuna.samplers.TPESampler(seed=1)
    study = optuna.create_study(study_name="k0", storage=storage, sampler=sampler, load_if_exists=True)
    study.optimize(lambda trial: trial.suggest_float("k0", 0, 1), n_trials=5)
points = [trial.params["k0"] for trial in study.trials]
print(len(points), "trials,", len(set(points)), "points")
assert len(set(points)) == 5, "a resumed study tries new points now"
END
uv run --quiet --no-project --python 3.11 --with optuna==5.0.0 --with sqlalchemy==2.0.44 python play.py
