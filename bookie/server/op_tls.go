package server

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// startTLS refuses: the connection stays in clear.
func (c *conn) startTLS(r *bkpb.Request) error {
	return c.answerNow(responseTo(r, bk.StatusBadRequest))
}
