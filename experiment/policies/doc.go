// Package policies asks a run's policies in Python: docs/policies.md says how they are written.
//
// [Open] starts a process for each policy of a configuration and binds it to the component that
// stands for it there. A process is started, watched, bounded and ended as a trainer's is
// (package internal/child). One that dies is started again and asked again.
//
// Every question of a run and its answer are a line of policies.jsonl in the run's folder ([Log]).
// A run that is resumed or replayed takes an answer that stands there, and asks the policy only
// what is new. [Verify] asks everything again, in another order, and finds a policy that answers
// an equal question otherwise.
package policies
