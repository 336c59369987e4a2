package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// AuthDisabledPlugin is the plugin name with which a bookie that wants no
// authentication answers any AUTH request.
const AuthDisabledPlugin = "AuthDisabledPlugin"

// AppendAuth appends a version 2 AUTH request or answer: they look the same.
func AppendAuth(dst []byte, version uint8, m *bkpb.AuthMessage) ([]byte, error) {
	size := proto.Size(m)
	dst = appendHeader(dst, headerSize+size, version, OpAuth, 0)
	dst, err := canonical.MarshalAppend(dst, m)
	if err != nil {
		return nil, fmt.Errorf("encode auth message: %w", err)
	}
	return dst, nil
}

// DecodeAuth decodes the Body of a version 2 AUTH request or answer.
func DecodeAuth(body []byte) (*bkpb.AuthMessage, error) {
	m := new(bkpb.AuthMessage)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("auth message: %w: %w", ErrMalformed, err)
	}
	return m, nil
}
