// Package wire holds the generated Go code of bus/fedpace.proto.
//
// Nothing but package bus uses it: bus checks what it decodes and hands out
// plain Go values. The package must know nothing but protobuf.
package wire
