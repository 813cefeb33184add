package outputs

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The file is a sequence of TFRecords: the length of a record as a uint64, its masked CRC-32C, the
// record, and its masked CRC-32C, all in little endian. A record is a protobuf message Event
// (tensorflow/core/util/event.proto).

// Field numbers, by message, as in TensorFlow's event.proto and summary.proto, TensorBoard's
// plugins/hparams/plugin_data.proto, and protobuf's struct.proto.
const (
	eventWallTime, eventStep, eventFileVersion, eventSummary = 1, 2, 3, 5

	summaryValue                         = 1
	valueTag, valueSimple, valueMetadata = 1, 2, 9
	metadataPluginData                   = 1
	pluginName, pluginContent            = 1, 2
	hparamsSessionStart                  = 3
	sessionHParams                       = 1
	mapKey, mapValue                     = 1, 2
	structNumber, structString           = 2, 3
	fileVersion                          = "brain.Event:2"
	hparamsPlugin, hparamsTag            = "hparams", "_hparams_/session_start_info"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a TFRecord: a CRC of data that hold CRCs is weak, so it is rotated and
// a constant is added (tensorflow/core/lib/hash/crc32c.h).
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// appendRecord appends the frame of a record and the record.
func appendRecord(b, record []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(record)))
	b = binary.LittleEndian.AppendUint32(b, masked(b[start:]))
	b = append(b, record...)
	return binary.LittleEndian.AppendUint32(b, masked(record))
}

// event is the beginning of an Event: its virtual time in seconds, and its round.
func event(seconds float64, round int) []byte {
	return appendVarint(appendDouble(nil, eventWallTime, seconds), eventStep, uint64(round))
}

// appendScalar appends a summary's value.
func appendScalar(summary []byte, tag string, v float64) []byte {
	value := appendString(nil, valueTag, tag)
	value = protowire.AppendTag(value, valueSimple, protowire.Fixed32Type)
	value = protowire.AppendFixed32(value, math.Float32bits(float32(v)))
	return appendBytes(summary, summaryValue, value)
}

// hparam is one entry of the page of hyperparameters. Its value is a message Value.
type hparam struct {
	name  string
	value []byte
}

func text(name, v string) hparam { return hparam{name, appendString(nil, structString, v)} }

func number(name string, v int) hparam {
	return hparam{name, appendDouble(nil, structNumber, float64(v))}
}

// hparamsSummary is the summary that gives a run its hyperparameters.
func hparamsSummary(list []hparam) []byte {
	var session []byte
	for _, h := range list {
		entry := appendBytes(appendString(nil, mapKey, h.name), mapValue, h.value)
		session = appendBytes(session, sessionHParams, entry)
	}
	plugin := appendString(nil, pluginName, hparamsPlugin)
	plugin = appendBytes(plugin, pluginContent, appendBytes(nil, hparamsSessionStart, session))
	value := appendString(nil, valueTag, hparamsTag)
	value = appendBytes(value, valueMetadata, appendBytes(nil, metadataPluginData, plugin))
	return appendBytes(nil, summaryValue, value)
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendBytes(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}
