"""Prints the table of pld_test.go by dp-accounting 0.6.0: add-or-remove-one, Poisson samples.

uv run --with dp-accounting==0.6.0 python testdata/accounting.py
"""

from dp_accounting.pld import privacy_loss_distribution as pld

for sigma, rate, rounds, delta in [
    (0.5, 0.1, 20, 1e-4),
    (1, 0.1, 20, 1e-4),
    (2, 1, 1, 1e-5),
    (1, 0.01, 1000, 1e-5),
    (0.8, 0.02, 200, 1e-6),
    (3, 0.5, 50, 1e-5),
    (1.5, 0.001, 10000, 1e-7),
]:
    one = pld.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=1e-4, use_connect_dots=True
    )
    print(f"\t{{{sigma}, {rate}, {rounds}, {delta:g}, {one.self_compose(rounds).get_epsilon_for_delta(delta):.6f}}},")
