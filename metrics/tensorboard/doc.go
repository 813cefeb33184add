// Package tensorboard is the output that TensorBoard reads: an event file in the run's folder, so
// that
//
//	tensorboard --logdir runs
//
// shows every run under the name of its folder.
//
// The step of a value is its round. Its time is virtual, in seconds since 1970, so TensorBoard's
// axis "relative" is virtual time and one seed gives one file. Each scalar is one of
// [fedpace/metrics.Run.Scalars]. The first event after the file's version describes the run for
// the page of hyperparameters: task, schedule, seed and what else a comparison may be about.
//
// The file is a sequence of TFRecords: the length of a record as a uint64, its masked CRC-32C, the
// record, and its masked CRC-32C, all in little endian. A record is a protobuf message Event
// (tensorflow/core/util/event.proto), in which this package writes the fields that record.go
// lists. The file only grows, and every write ends with a record.
package tensorboard
