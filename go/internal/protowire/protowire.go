// SPDX-License-Identifier: Apache-2.0

// Package protowire writes and reads protobuf's wire format: the few kinds of fields that profile.proto and OTLP have.
package protowire

import (
	"encoding/binary"
	"errors"
)

// Wire types.
const (
	Varint  = 0
	Fixed64 = 1
	Bytes   = 2
	Fixed32 = 5
)

// ErrMalformed is returned for bytes that are not protobuf.
var ErrMalformed = errors.New("malformed protobuf")

// AppendVarint appends v as a varint.
func AppendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendTag(b []byte, field, kind int) []byte {
	return AppendVarint(b, uint64(field)<<3|uint64(kind))
}

// AppendUint appends a varint field; 0 is the default and is left out.
func AppendUint(b []byte, field int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return AppendVarint(appendTag(b, field, Varint), v)
}

// AppendInt appends an int64 or int32 field; 0 is left out.
func AppendInt(b []byte, field int, v int64) []byte {
	return AppendUint(b, field, uint64(v))
}

// AppendBool appends a bool field; false is left out.
func AppendBool(b []byte, field int, v bool) []byte {
	if !v {
		return b
	}
	return AppendUint(b, field, 1)
}

// AppendFixed64 appends a fixed64 field; 0 is left out.
func AppendFixed64(b []byte, field int, v uint64) []byte {
	if v == 0 {
		return b
	}
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], v)
	return append(appendTag(b, field, Fixed64), raw[:]...)
}

// AppendBytes appends a field of bytes or an embedded message, also if it is empty.
func AppendBytes(b []byte, field int, v []byte) []byte {
	b = AppendVarint(appendTag(b, field, Bytes), uint64(len(v)))
	return append(b, v...)
}

// AppendString appends a string field, also if it is empty.
func AppendString(b []byte, field int, v string) []byte {
	b = AppendVarint(appendTag(b, field, Bytes), uint64(len(v)))
	return append(b, v...)
}

// AppendPacked appends a packed list of varints; an empty list is left out.
func AppendPacked(b []byte, field int, v []uint64) []byte {
	if len(v) == 0 {
		return b
	}
	n := 0
	for _, x := range v {
		n += size(x)
	}
	b = AppendVarint(appendTag(b, field, Bytes), uint64(n))
	for _, x := range v {
		b = AppendVarint(b, x)
	}
	return b
}

func size(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// Field is one field of a message.
type Field struct {
	Number int
	Kind   int
	Uint   uint64 // Varint, Fixed64, Fixed32
	Bytes  []byte // Bytes
}

// Reader reads the fields of one message.
type Reader struct {
	b   []byte
	err error
}

// NewReader returns a Reader of the message b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err returns the error that ended Next, or nil at the end of the message.
func (r *Reader) Err() error { return r.err }

func readVarint(b []byte) (uint64, int) {
	v, n := binary.Uvarint(b)
	return v, n
}

// Next reads the next field and reports whether there is one.
func (r *Reader) Next(f *Field) bool {
	if len(r.b) == 0 || r.err != nil {
		return false
	}
	tag, n := readVarint(r.b)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
		return r.fail()
	}
	r.b = r.b[n:]
	*f = Field{Number: int(tag >> 3), Kind: int(tag & 7)}
	switch f.Kind {
	case Varint:
		f.Uint, n = readVarint(r.b)
		if n <= 0 {
			return r.fail()
		}
		r.b = r.b[n:]
	case Fixed64:
		if len(r.b) < 8 {
			return r.fail()
		}
		f.Uint = binary.LittleEndian.Uint64(r.b)
		r.b = r.b[8:]
	case Fixed32:
		if len(r.b) < 4 {
			return r.fail()
		}
		f.Uint = uint64(binary.LittleEndian.Uint32(r.b))
		r.b = r.b[4:]
	case Bytes:
		size, n := readVarint(r.b)
		if n <= 0 || size > uint64(len(r.b)-n) {
			return r.fail()
		}
		f.Bytes = r.b[n : n+int(size)]
		r.b = r.b[n+int(size):]
	default:
		return r.fail()
	}
	return true
}

func (r *Reader) fail() bool {
	r.err = ErrMalformed
	return false
}

// Uints appends the numbers of f, which may be packed or a single one, to list.
func (f *Field) Uints(list []uint64) ([]uint64, error) {
	switch f.Kind {
	case Varint:
		return append(list, f.Uint), nil
	case Bytes:
		for b := f.Bytes; len(b) > 0; {
			v, n := readVarint(b)
			if n <= 0 {
				return list, ErrMalformed
			}
			list = append(list, v)
			b = b[n:]
		}
		return list, nil
	}
	return list, ErrMalformed
}
