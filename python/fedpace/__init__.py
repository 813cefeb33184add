"""fedpace in Python: trainers for its runs, and what its runs leave.

    fedpace.serve(model, loss, metrics)     a PyTorch model takes a run's local steps (docs/trainers.md)
    fedpace.runs("runs/")                   the runs below a folder, as tables (docs/results.md)
    fedpace.save_model(path, tensors)       a model for a run to start from (docs/results.md)

It needs numpy and nothing else. pandas, PyYAML, PyTorch and readers of Parquet are used where
they are installed.
"""
try:
    import numpy as _  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "numpy":
        raise
    raise ImportError("fedpace needs numpy: python3 -m pip install numpy") from None

from .results import Run, runs, save_model
from .trainer import Data, Diverged, Grouped, Job, Metric, Samples, Setting, Task, Tensor, Trainer, run, serve

__all__ = ["Data", "Diverged", "Grouped", "Job", "Metric", "Run", "Samples", "Setting", "Task", "Tensor", "Trainer", "run", "runs", "save_model", "serve"]
