"""The measures of scikit-learn 1.9.1 (NumPy 2.4.6) for drawn logits and targets, with ties.

    uv run --with scikit-learn==1.9.1,numpy==2.4.6 python3 scikit_learn.py > scikit_learn.json
"""
import json, math
import numpy as np
from sklearn import metrics as m
rng = np.random.default_rng(64)
cases = []
for name, n, k, step in [("two classes", 40, 2, None), ("two classes with ties", 60, 2, 0.5), ("three classes", 50, 3, None),
                         ("five classes with ties", 80, 5, 0.5), ("rare classes", 70, 4, None)]:
    p = [0.9, 0.06, 0.03, 0.01] if name == "rare classes" else None
    y = np.concatenate([np.arange(k), rng.choice(k, n - k, p=p)])
    z = rng.normal(size=(n, k)) + 1.2 * np.eye(k)[y]
    if step:
        z = np.round(z / step) * step
    z = z.astype(np.float32)
    e = np.exp(z.astype(float) - z.max(1, keepdims=True).astype(float))
    # Sums that do not depend on their order let equal probabilities tie.
    prob = e / np.array([[math.fsum(row)] for row in e])
    found = z.argmax(1)
    auroc = m.roc_auc_score(y, z[:, 1].astype(float) - z[:, 0].astype(float)) if k == 2 else m.roc_auc_score(y, prob, multi_class="ovr")
    cases.append(dict(name=name, width=k, outputs=z.ravel().tolist(), labels=y.tolist(), want=dict(
        majority_share=float(np.bincount(y).max() / n), balanced_accuracy=m.balanced_accuracy_score(y, found),
        f1_macro=m.f1_score(y, found, average="macro"), auroc=auroc)))
for name, n, t, units in [("one target", 40, 1, None), ("three targets in units", 30, 3, [100.0, 0.5, 7.25])]:
    y = rng.normal(size=(n, t)).astype(np.float32)
    p = (0.8 * y + 0.3 * rng.normal(size=(n, t))).astype(np.float32)
    u = np.array(units or [1.0] * t)
    Y, P = y.astype(float) * u, p.astype(float) * u
    cases.append(dict(name=name, width=t, outputs=p.ravel().tolist(), targets=y.ravel().tolist(), units=units, want=dict(
        mean_baseline=m.mean_absolute_error(Y, np.tile(Y.mean(0), (n, 1))), r2=m.r2_score(Y, P))))
print(json.dumps(cases, indent=None))
