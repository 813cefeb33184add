// Package record holds the generated Go code of experiment/devicelog/devicelog.proto.
//
// Nothing but package devicelog uses it: devicelog checks what it decodes and
// hands out plain Go values. The package must know nothing but protobuf.
package record
