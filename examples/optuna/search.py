"""Optuna chooses K_0 and the learning rate; fedpace plays what it chooses, for one virtual time.

python3 search.py TRIALS; FEDPACE is the program, and OUT the folder of the runs and of the study. A search
that was stopped goes on with the same command, until there are so many trials in all.
"""

import json
import os
import subprocess
import sys

import optuna

FEDPACE = os.environ.get("FEDPACE", "fedpace")
OUT = os.environ.get("OUT", "runs/optuna")


def play(k0, eta0):
    """The mean tail accuracy over three seeds, the same ones for every choice; None: a run diverged."""
    played = subprocess.run(
        [FEDPACE, "compare", "--quiet", "--json", "--schedules", "rounds", "--seeds", "3",
         "--set", "task=logistic", "--set", "stop.virtual_seconds=45", "--set", "evaluate.every_seconds=0.5",
         "--set", f"schedule.k0={k0}", "--set", f"schedule.eta0={eta0}", "--out", f"{OUT}/{k0}-{eta0}"],
        stdout=subprocess.PIPE)
    if not played.stdout:
        sys.exit(played.returncode)
    row = json.loads(played.stdout)["rows"][0]
    return None if row["diverged"] else row["means"]["tail_validation_accuracy"]["mean"]


os.makedirs(OUT, exist_ok=True)
study = optuna.create_study(
    study_name="fedpace", direction="maximize", storage=f"sqlite:///{OUT}/optuna.db", load_if_exists=True)
done = sum(trial.state.is_finished() for trial in study.trials)
# A sampler begins anew with its process. With an equal seed it would try again what was tried before.
study.sampler = optuna.samplers.TPESampler(seed=1 + done)
for _ in range(done, int(sys.argv[1])):
    trial = study.ask()
    value = play(trial.suggest_int("k0", 5, 80, log=True), trial.suggest_float("eta0", 0.01, 1, log=True))
    if value is None:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(trial, value)
print(json.dumps({"params": study.best_params, "value": study.best_value}))
