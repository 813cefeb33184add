// Package bus has the messages that a coordinator, its hosts and its devices
// exchange, the [Transport] that carries those of the first two, and the [Line] for
// those of devices.
//
// The messages are the generated types of fedpace.proto. Each has a Validate, and
// [Unmarshal] returns no message that has not passed it: numbers are finite and
// in range, digests and lengths fit. docs/protocol.md describes the protocol for
// other implementations.
//
// To read the package, begin with transport.go: [Coordinator] and [Host] are the two
// ends of a run. The coordinator sends tasks to simulated clients and gets plans (how
// long each phase of a task takes); it queues jobs, which is the training of some
// clients, and gets sums. messages.go has the messages, validate.go what is valid,
// limits.go the bounds, digest.go how a damaged message is noticed.
//
// The package knows no NATS: natsconn has a connection to it, natsbus the ends of runs
// on one. Gateway has real devices, auth their credentials, embedded a server in the
// process, memory a transport without NATS. None of them knows rounds, the clock, or
// what a model is beyond its floats.
package bus

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=.. --go_opt=module=fedpace --plugin=protoc-gen-go-vtproto=$(go tool -n protoc-gen-go-vtproto) --go-vtproto_out=.. --go-vtproto_opt=module=fedpace,features=marshal+unmarshal+size fedpace.proto"
