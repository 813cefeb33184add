// Package record holds the generated Go code of metrics/eventlog/eventlog.proto.
//
// Nothing but package eventlog uses it: eventlog checks what it decodes and
// hands out plain Go values. The package must know nothing but protobuf.
package record
