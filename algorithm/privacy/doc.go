// Package privacy makes the models of a run differentially private with respect to each
// client's samples, and says how private they are.
//
// # The mechanism
//
// Every accepted update is clipped to the Euclidean norm S ([Options].Clip), the clipped
// updates are added with the weight 1/m each, whatever their number is, and noise of the
// standard deviation zS/m is added to each parameter (z is [Options].Noise): DP-FedAvg with
// flat clipping and a fixed denominator (McMahan et al. 2018, Algorithm 1, estimator f~_f).
// m is the most updates that a round may have, so that the sum over fewer is only shorter.
// Weights are equal: no client counts more than another, so nobody's part of the sum is
// longer than S/m.
//
// # Whose absence is not seen
//
// Two runs are neighbours if one has a client more than the other. [Draw] says what a
// client more can do to a round:
//
//   - Everybody takes part: its update is added. The sum moves by at most S/m, which is 1/z
//     of the noise's deviation. That is the Gaussian mechanism, of Rényi divergence
//     α/(2z²) (Mironov 2017, Proposition 7).
//   - A cohort of m is drawn uniformly, without replacement, of n clients: with probability
//     q = m/n the client is in it, in the place of another one that is as uniform. Match
//     each cohort that holds it to the one that has the other in its place: on every
//     matched pair the output is N(a, σ²) without it and the mixture
//     (1−q) N(a, σ²) + q N(b, σ²), |a−b| ≤ 2S/m, with it. The Rényi divergence of two
//     mixtures of pairs is at most the worst pair's (e^((α−1)D) is jointly convex). So the
//     bound is that of the sampled Gaussian mechanism at half the noise multiplier, z/2
//     (Mironov, Talwar, Zhang 2019, Theorem 4; its Theorem 5 covers the other direction).
//   - Nothing is known of how the cohort comes about: q is 1, and the client still takes
//     another's place. Should it change who else is asked, by turns or by how long rounds
//     take, epsilon does not cover that.
//
// In the last two the one that is displaced must be no other in later rounds. A client that
// keeps something from task to task (residuals, moments, a part of the model) is: it has had
// fewer tasks, so that as many later updates differ as have lost their place. Epsilon does not
// cover that. Where a client is in its samples counts as one draw of minibatches among equals.
//
// The usual figure, that of a Poisson sample at z, does not hold for cohorts of a fixed
// size. [Accountant.Poisson] gives it to compare with other work.
//
// # The noise
//
// A sum is a whole number of units of 2^-44, and so is the noise that is added to it: a
// normal number, rounded. To round a sum of a whole number and a real one is to round the
// real one, so what is released is a function of the real-valued mechanism's output, and
// says no more: the attack on low bits (Mironov 2012) has none to read. The normal number
// is the sum of two normal quantiles of 2^52 cells each, over √2, so that the values that
// it can take lie closer than a unit out into the tails (Holohan, Braghin 2021). What is
// left is the precision of float64, about 2^-50 of a deviation.
//
// Noise is keyed by a secret, the round and the sum that it is added to
// ([Mechanism]), by HMAC-SHA-256 and ChaCha8. So a round that is done again after a crash, or
// replayed, has the same noise if it has the same sum, and independent noise if it has
// another: two releases of one round never share noise that a reader could subtract.
//
// # Local noise
//
// [Local] is what a client does to its own update before it sends it, so that the update itself
// is private and not only the models: it needs no trust in the coordinator, no draw and no other
// client. What n updates of a client cost is exact ([LocalEpsilon]).
//
// The package knows nothing of messages, files or models.
package privacy
