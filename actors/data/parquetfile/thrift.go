package parquetfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// thriftLength is the length of the struct at the start of b, all of whose
// lengths fit the bytes that follow them.
func thriftLength(b []byte) (int, error) {
	r := new(thrift.CompactProtocol).NewReaderFromBytes(b)
	err := skip(r, thrift.STRUCT, 0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("a length exceeds the bytes that are there")
	}
	return r.BytesRead(), err
}

// skip reads a value and keeps nothing.
func skip(r thrift.BytesReader, kind thrift.Type, depth int) (err error) {
	if depth > 32 {
		return errors.New("nested too deeply")
	}
	items := func(n int32, kinds ...thrift.Type) error {
		for i := range int(n) * len(kinds) {
			if err := skip(r, kinds[i%len(kinds)], depth+1); err != nil {
				return err
			}
		}
		return nil
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
	case thrift.LIST, thrift.SET:
		list, err := r.ReadList()
		if err != nil {
			return err
		}
		return items(list.Size, list.Type)
	case thrift.MAP:
		m, err := r.ReadMap()
		if err != nil {
			return err
		}
		return items(m.Size, m.Key, m.Value)
	case thrift.STRUCT:
		for {
			field, err := r.ReadField()
			if err != nil || field.Type == thrift.STOP {
				return err
			}
			if field.Type == thrift.TRUE || field.Type == thrift.FALSE { // is its own value
				continue
			}
			if err := items(1, field.Type); err != nil {
				return err
			}
		}
	default:
		err = fmt.Errorf("unknown type %d", kind)
	}
	return err
}
