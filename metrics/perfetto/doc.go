// Package perfetto turns a run's event log into a trace for Perfetto's viewer.
//
// The trace is protobuf (trace.proto). Its clock is virtual time. It has
//
//   - a track of rounds, each a slice with its values and, at its end, the
//     aggregation of what was accepted;
//   - a track for each client in the log: a slice for each of its tasks, named
//     by the outcome, and in it the phases, which tile it;
//   - counters: K_r and eta_r from the round's start, losses and accuracy from
//     the round's end;
//   - a flow for each accepted task: task, update (its upload), aggregation.
//
// The log is read once, from front to back; memory grows only with the number
// of clients in it. The package knows eventlog and metrics and nothing of runs
// or files.
package perfetto

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=../.. --go_opt=module=fedpace trace.proto"
