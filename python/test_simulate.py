"""Runs played from Python: with a stand-in for the program, or with the one that $FEDPACE_PROGRAM names."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True

import fedpace
from fedpace import play

STAND_IN = """#!{python}
import json, os, sys
words = sys.argv[1:]
option = lambda name, default: words[words.index(name) + 1] if name in words else default
config = json.load(open(option("--config", os.devnull))) if "--config" in words else {{}}
if "cohrt" in config:
    print("progress\\nfedpace: config.json:1: cohrt: unknown key", file=sys.stderr)
    sys.exit(1)
out = option("--out", "runs/demo")
folders = [out]
if words[0] == "compare":
    folders = [f"{{out}}/{{s}},seed={{n}}" for s in option("--schedules", "").split(",") for n in (1, 2)]
for place, folder in enumerate(folders):
    os.makedirs(folder)
    schedule = "fixed" if "fixed" in folder else "rounds"
    rows = "1,1,4,\\n2,2,{{}},0.5\\n3,4,{{}},0.25\\n".format(3 - place, 2)
    open(folder + "/rounds.csv", "w").write("round,virtual_seconds,training_loss,validation_accuracy\\n" + rows)
    json.dump(config, open(folder + "/config.yaml", "w"))
    json.dump({{"schedule": schedule, "seed": place + 1, "training_loss": 2.5}}, open(folder + "/summary.json", "w"))
if words[0] == "compare":
    open(out + "/compare.csv", "w").write("schedule,seeds\\nfixed,2\\n")
print(json.dumps({{"out": out, "config": config}}))
"""


class TestSimulate(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.top = pathlib.Path(self.dir.name)
        program = self.top / "fedpace"
        program.write_text(STAND_IN.format(python=sys.executable))
        program.chmod(0o755)
        os.environ["FEDPACE"] = os.environ.get("FEDPACE_PROGRAM", str(program))
        os.environ["XDG_CACHE_HOME"] = str(self.top / "cache")
        self.small = {"clients": 30, "cohort": 4, "schedule": {"window": 2}, "stop": {"rounds": 3}}

    def test_a_run(self):
        run = fedpace.simulate(self.small, out=self.top / "run")
        self.assertEqual(len(run.rounds), 3)
        shown = run._repr_html_()
        self.assertIn("<svg", shown)
        self.assertIn("schedule", shown)

    def test_the_programs_own_words_are_the_message(self):
        with self.assertRaises(fedpace.Failed) as failed:
            fedpace.simulate({"cohrt": 4}, out=self.top / "run")
        self.assertIn("cohrt: unknown key", str(failed.exception))
        self.assertNotIn("fedpace:", str(failed.exception))
        self.assertEqual(failed.exception.status, 1)

    def test_a_comparison_and_its_table(self):
        both = fedpace.compare(self.small, schedules=["fixed", "rounds"], seeds=2, out=self.top / "both")
        self.assertEqual(len(both.runs), 4)
        table = fedpace.table(self.top / "both")
        self.assertEqual(list(table["run"]), ["fixed,seed=1", "fixed,seed=2", "rounds,seed=1", "rounds,seed=2"])
        self.assertEqual(list(table["schedule"]), ["fixed", "fixed", "rounds", "rounds"])
        curves = both.curves("training_loss", points=4)
        self.assertEqual(list(curves["runs"]), [2] * 8)

    @unittest.skipIf("FEDPACE_PROGRAM" in os.environ, "its figures are the stand-in's")
    def test_figures_worked_out_by_hand(self):
        both = fedpace.compare(self.small, seeds=2, out=self.top / "both")
        table = fedpace.table(self.top / "both")
        self.assertEqual((list(table["best"]), list(table["tail"])), ([0.5] * 4, [0.25] * 4))
        # At 1, 2, 3 and 4 s: the loss of the round before holds. Seeds 1 and 2 of fixed have 3 and 2 in round 2.
        curves = both.curves("training_loss", points=4)
        self.assertEqual(list(curves["virtual_seconds"][:4]), [1, 2, 3, 4])
        self.assertEqual(list(curves["mean"][:4]), [4, 2.5, 2.5, 2])
        self.assertEqual((list(curves["low"][:4]), list(curves["high"][:4])), ([4, 2, 2, 2], [4, 3, 3, 2]))

    def test_a_frame_is_saved_once_by_its_content(self):
        class Frame:
            def to_csv(self, index):
                return "a,y\n1,0\n"

        paths = [play._written({"data": data})["data"]["path"] for data in (Frame(), {"path": Frame(), "label": "y"})]
        self.assertEqual(paths[0], paths[1])
        self.assertEqual(pathlib.Path(paths[0]).read_text(), "a,y\n1,0\n")
        self.assertEqual(play._written({"data": "x.csv"}), {"data": "x.csv"})


if __name__ == "__main__":
    unittest.main()
