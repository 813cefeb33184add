package parquetfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

var protocol thrift.CompactProtocol

// unmarshal decodes the struct at the start of b and returns its length. The library
// takes memory for lengths as it meets them, and a stack for nesting, so both are looked
// at first.
func unmarshal(b []byte, into any) (length int, err error) {
	r := protocol.NewReaderFromBytes(b)
	left := int64(maxDecoded)
	if err := skip(r, thrift.STRUCT, 0, &left); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("a length exceeds the bytes that are there")
		}
		return 0, err
	}
	return r.BytesRead(), thrift.Unmarshal(&protocol, b[:r.BytesRead()], into)
}

// maxDecoded bounds what the lists of a struct take in memory, in bytes: empty structs of a
// byte each become hundreds.
const maxDecoded = 512 << 20

// skip reads a value and keeps nothing. What Parquet's metadata has no field of, such as
// a map, is an error, and so are lists that take more than is left.
func skip(r thrift.BytesReader, kind thrift.Type, depth int, left *int64) (err error) {
	if depth > 32 {
		return errors.New("nested too deeply")
	}
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8:
		_, err = r.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = r.ReadInt64()
	case thrift.DOUBLE:
		_, err = r.ReadFloat64()
	case thrift.BINARY:
		_, err = r.ReadBytes()
	case thrift.LIST:
		list, err := r.ReadList()
		each := int64(16) // a string; the largest of other elements is format.ColumnChunk
		if list.Type == thrift.STRUCT {
			each = 512
		}
		for i := int32(0); err == nil && i < list.Size; i++ {
			if *left -= each; *left < 0 {
				return errors.New("too many columns or row groups")
			}
			err = skip(r, list.Type, depth+1, left)
		}
		return err
	case thrift.STRUCT:
		for err == nil {
			var field thrift.Field
			if field, err = r.ReadField(); err != nil || field.Type == thrift.STOP {
				return err
			}
			if field.Type != thrift.TRUE && field.Type != thrift.FALSE { // these are their own value
				err = skip(r, field.Type, depth+1, left)
			}
		}
	default:
		err = fmt.Errorf("unknown type %d", kind)
	}
	return err
}
