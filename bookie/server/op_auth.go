package server

import (
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// authDisabled is the answer to a client that is let in already: on a bookie
// without a plugin at once, and then a client with any plugin counts itself
// authenticated.
func authDisabled() *bkpb.AuthMessage {
	return &bkpb.AuthMessage{AuthPluginName: proto.String(wire.AuthDisabledPlugin), Payload: []byte{}}
}

func (c *conn) authV2(r *wire.Request) error {
	if _, err := wire.DecodeAuth(r.Body); err != nil {
		return err
	}
	answers, err := wire.AppendAuth(c.batch.answers, r.Version, authDisabled())
	if err != nil {
		return err
	}
	c.batch.answers = answers
	return nil
}

// authV3 repeats the header of the request as it came.
func (c *conn) authV3(r *bkpb.Request) error {
	return c.answerNow(&bkpb.Response{
		Header: r.Header, Status: bkpb.StatusCode_EOK.Enum(), AuthResponse: authDisabled(),
	})
}
