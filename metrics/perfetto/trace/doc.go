// Package trace holds the generated Go code of metrics/perfetto/trace.proto.
//
// Nothing but package perfetto and its tests uses it. The package must know
// nothing but protobuf.
package trace
