"""Runs in MLflow and W&B: with the real packages, where they are installed; else what is handed to them.

A folder is written here with what is hard: a value that was not measured, an infinite one, a final value
that is not the last round's, and two runs of one schedule's name.
"""
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True

from fedpace import trackers
from fedpace.results import Run, names_of, runs

ROUNDS = """round,virtual_seconds,local_steps,training_loss,validation_loss,validation_accuracy
1,1.5,8,4.5,,
2,2.5,7,2.5,inf,0.25
3,3.25,6,1.5,,
"""
CONFIG = """task: femnist
cohort: 5
schedule: {k0: 8, eta0: 0.3, k: {rule: rounds}}
network: {download_mbps: 20, upload_mbps: 5}
fleet: []
"""
SUMMARY = {
    "task": "femnist", "schedule": "rounds", "seed": 3, "version": "1.2", "completed": True,
    "rounds": 3, "training_loss": 2.0, "validation_loss": 2.75, "validation_accuracy": 0.5,
}


def write(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    (folder / "rounds.csv").write_text(ROUNDS)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "summary.json").write_text(json.dumps(SUMMARY))


def needs(module: str):
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


class TestTrackers(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(ignore_cleanup_errors=True) if sys.version_info >= (3, 10) else tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.top = pathlib.Path(self.dir.name)
        self.compared = self.top / "compared"
        for seed in ("seed-1", "seed-2"):
            write(self.compared / seed)

    def test_rows_leave_out_what_was_not_measured(self):
        rows = list(trackers.rows(Run(self.compared / "seed-1")))
        self.assertEqual([(n, s) for n, s, _ in rows], [(1, 1.5), (2, 2.5), (3, 3.25)])
        self.assertEqual(rows[0][2], {"round": 1, "virtual_seconds": 1.5, "local_steps": 8, "training_loss": 4.5})
        self.assertEqual(rows[1][2]["validation_loss"], float("inf"))

    def test_finals_are_the_numbers_of_the_summary(self):
        self.assertEqual(
            trackers.finals(Run(self.compared / "seed-1")),
            {"seed": 3, "rounds": 3, "training_loss": 2, "validation_loss": 2.75, "validation_accuracy": 0.5},
        )

    def test_names_differ(self):
        write(self.top / "other" / "seed-1")
        self.assertEqual(names_of(runs(self.compared)), ["seed-1", "seed-2"])
        self.assertEqual(names_of(runs(self.top)), ["compared/seed-1", "compared/seed-2", "other/seed-1"])
        self.assertEqual(names_of(runs(self.compared / "seed-2")), ["seed-2"])

    @needs("yaml")
    def test_settings_have_every_key(self):
        got = trackers.settings(Run(self.compared / "seed-1"))
        self.assertEqual(
            got,
            {
                "schedule": "rounds", "seed": 3, "version": "1.2", "K_0": 8, "eta_0": 0.3, "cohort": 5, "task": "femnist",
                "schedule.k0": 8, "schedule.eta0": 0.3, "schedule.k.rule": "rounds",
                "network.download_mbps": 20, "network.upload_mbps": 5, "fleet": "[]",
            },
        )

    @needs("mlflow")
    def test_mlflow(self):
        import mlflow

        mlflow.set_tracking_uri(f"sqlite:///{self.top}/mlflow.db")
        client = mlflow.MlflowClient()
        client.create_experiment("femnist", artifact_location=str(self.top / "artifacts"))
        ids = trackers.to_mlflow(self.compared)
        entries = [client.get_run(i) for i in ids]
        self.assertEqual([e.info.run_name for e in entries], ["seed-1", "seed-2"])
        parents = {e.data.tags["mlflow.parentRunId"] for e in entries}
        self.assertEqual(len(parents), 1)
        self.assertEqual(client.get_run(parents.pop()).info.status, "FINISHED")
        data = entries[0].data
        self.assertEqual({k: data.params[k] for k in ("K_0", "eta_0", "cohort", "network.upload_mbps")}, {"K_0": "8", "eta_0": "0.3", "cohort": "5", "network.upload_mbps": "5"})
        self.assertEqual((data.metrics["training_loss"], data.metrics["final.training_loss"]), (1.5, 2.0))
        self.assertEqual(data.metrics["final.validation_loss"], 2.75)
        history = client.get_metric_history(ids[0], "training_loss")
        start = entries[0].info.start_time
        self.assertEqual([(m.step, m.value, m.timestamp - start) for m in history], [(1, 4.5, 1500), (2, 2.5, 2500), (3, 1.5, 3250)])
        self.assertNotIn("validation_loss", data.metrics)
        self.assertEqual(json.loads(data.tags["fedpace.not_finite"]), {"validation_loss": 1})
        self.assertEqual(sorted(a.path for a in client.list_artifacts(ids[0])), ["config.yaml", "summary.json"])

    @needs("wandb")
    def test_wandb_offline(self):
        os.environ["WANDB_SILENT"] = "true"
        ids = trackers.to_wandb(self.compared, project="decay", mode="offline", dir=str(self.top))
        self.assertEqual(len(set(ids)), 2)
        records = recorded(next(self.top.glob(f"wandb/offline-run-*/run-{ids[0]}.wandb")))
        run = [r.run for r in records if r.WhichOneof("record_type") == "run"][0]
        self.assertEqual((run.display_name, run.project, run.run_group), ("seed-1", "decay", str(self.compared)))
        config = {u.key: json.loads(u.value_json) for u in run.config.update}
        self.assertEqual((config["K_0"], config["eta_0"], config["cohort"], config["network"]["upload_mbps"]), (8, 0.3, 5, 5))
        history = [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in r.history.item} for r in records if r.WhichOneof("record_type") == "history"]
        self.assertEqual([h["training_loss"] for h in history], [4.5, 2.5, 1.5])
        self.assertEqual([h["_step"] for h in history], [1, 2, 3])
        summary = {}
        for r in records:
            if r.WhichOneof("record_type") == "summary":
                summary.update({u.key or u.nested_key[0]: json.loads(u.value_json) for u in r.summary.update})
        self.assertEqual((summary["training_loss"], summary["validation_loss"]), (2.0, 2.75))


def recorded(path):
    """The records of an offline run: LevelDB's log format behind a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2 as pb

    data, block = path.read_bytes(), 32768
    offset, parts, records = 7, b"", []
    while offset + 7 <= len(data):
        if block - offset % block < 7:  # the rest of a block that holds no header is padding
            offset += block - offset % block
            continue
        length, kind = int.from_bytes(data[offset + 4 : offset + 6], "little"), data[offset + 6]
        parts += data[offset + 7 : offset + 7 + length]
        offset += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record = pb.Record()
            record.ParseFromString(parts)
            records.append(record)
            parts = b""
    return records


if __name__ == "__main__":
    # W&B 0.31 cannot end with the truth value that unittest ends with.
    sys.exit(int(not unittest.main(exit=False).result.wasSuccessful()))
