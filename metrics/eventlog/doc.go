// Package eventlog is the format of a run's logs, and one of them: events.log, which holds its
// rounds, and of each the tasks that package metrics keeps. The other is devices.log, what real
// devices did, of package experiment/devicelog.
//
// A log is only ever appended to. It begins with eight bytes, the letters
// FPEVENTS, and the version of the format as a little-endian uint32. Then come
// records as package framing has them, each a Record of eventlog.proto. The
// first is the run. Whatever bytes they read, [Records] and a [Reader] never panic.
//
// In events.log all others are rounds, in ascending order. Its size is bounded: of a round at most Slowest+Sample
// tasks, and all of real devices, are written, and in long runs the tasks of fewer and fewer rounds ([Detailed]);
// the slowest task and those of real devices are always there. A log that has reached the size that its [Sink]
// gives holds no other round than these any more: it then grows with the logarithm of the number of rounds.
//
// The package knows neither the bus nor the clock, and not who writes or reads.
package eventlog

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=../.. --go_opt=module=fedpace eventlog.proto"
