// Package bus is everything that fedpace does over NATS.
//
// It holds the embedded server ([StartServer]), connections ([Connect]), the
// subjects, the messages (fedpace.proto's generated types, each with a Validate) and the two
// ends of a run: the [Coordinator], which sends tasks and jobs and takes plans
// and sums, and the [Host], which answers for simulated actors and does jobs.
//
// What it promises:
//
//   - A plan or a sum that could not be delivered fails the run with its cause;
//     nothing is lost in silence.
//   - Jobs travel through a JetStream work queue: a host that dies gives its
//     job back, and a sum counts once however often it is sent.
//   - Where both ends live in one process, models and partial sums are handed
//     over, not copied; between processes the same calls move them in chunks.
//   - What it hands out has been checked: numbers are finite and in range,
//     digests and lengths fit.
//
// It knows neither rounds nor the clock nor what a model is beyond its floats.
// docs/protocol.md describes the protocol for other implementations.
package bus

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=.. --go_opt=module=fedpace fedpace.proto"
