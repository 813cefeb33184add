"""fedpace in Python: trainers and policies for its runs, and what its runs leave.

    fedpace.serve(model, loss, metrics)     a PyTorch model takes a run's local steps (docs/trainers.md)
    class Mine(fedpace.LocalSteps): ...     a policy of a run (docs/policies.md)
    fedpace.simulate({...})                 plays a run, fedpace.compare(...) schedules (python/README.md)
    fedpace.runs("runs/")                   the runs below a folder, as tables (docs/results.md)
    fedpace.save_model(path, tensors)       a model for a run to start from (docs/results.md)

Policies need nothing besides Python; what else is here needs numpy. pandas, PyYAML, PyTorch and
readers of Parquet are used where they are installed.
"""
from .policy import Aggregation, ClientSchedule, Closing, Combination, LearningRate, LocalSteps, Policy, Selection

_POLICIES = ["Aggregation", "ClientSchedule", "Closing", "Combination", "LearningRate", "LocalSteps", "Policy", "Selection"]

# Where each of the other names is defined: these modules need numpy, and are imported when they are used.
_LATER = {
    **dict.fromkeys(["Run", "runs", "save_model"], "results"),
    **dict.fromkeys(["Compared", "Failed", "compare", "program", "simulate", "table"], "play"),
    **dict.fromkeys(["to_mlflow", "to_wandb"], "trackers"),
    **dict.fromkeys(["Data", "Diverged", "Grouped", "Job", "Metric", "Samples", "Setting", "Task", "Tensor", "Trainer", "run", "serve"], "trainer"),
}

__all__ = sorted([*_POLICIES, *_LATER])


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        import numpy as _  # noqa: F401
    except ModuleNotFoundError as missing:
        if missing.name != "numpy":
            raise
        raise ImportError("fedpace needs numpy: python3 -m pip install numpy") from None
    value = getattr(importlib.import_module("." + _LATER[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list:
    return __all__
