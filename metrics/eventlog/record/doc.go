// Package record holds the generated Go code of metrics/eventlog/eventlog.proto.
//
// Packages eventlog and experiment/devicelog alone use it: they check what they
// decode and hand out plain Go values. The package must know nothing but protobuf.
package record
