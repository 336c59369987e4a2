package server

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// Auth decides who may use the bookie. A server without one lets everyone in
// at once.
type Auth interface {
	// Plugin is the name that a client's AUTH messages must carry.
	Plugin() string
	// Begin starts the exchange of one connection.
	Begin(remote string) AuthExchange
}

// AuthExchange is the rounds of tokens on one connection. The connection's
// reader calls it, one call at a time; it should not block for long.
type AuthExchange interface {
	// Next takes a token of the client (not kept after return) and gives the
	// bookie's. in means that the client is let in once it has that token; an
	// error turns it away.
	Next(token []byte) (reply []byte, in bool, err error)
}

// errTurnedAway ends a connection whose client failed to authenticate, after
// its answers have left.
var errTurnedAway = errors.New("client turned away")

// strangerV2 handles a request of a client that is not let in yet. Version 2
// has an answer for adds and reads alone.
func (c *conn) strangerV2(r *wire.Request) error {
	b := &c.batch
	switch r.Op {
	case wire.OpAdd, wire.OpRead:
		t := task{op: r.Op, version: r.Version, ledger: r.Ledger, entry: r.Entry}
		b.answers = t.appendStatusV2(b.answers, bk.StatusUnauthorized)
		return nil
	case wire.OpAuth:
		m, err := wire.DecodeAuth(r.Body)
		if err != nil {
			return err
		}
		if m.GetAuthPluginName() != c.s.opts.Auth.Plugin() {
			return c.turnAway(fmt.Errorf("plugin %q", m.GetAuthPluginName()))
		}
		reply, err := c.nextToken(m)
		if err != nil {
			return c.turnAway(err)
		}
		b.answers, err = wire.AppendAuth(b.answers, r.Version, reply)
		return err
	default:
		return c.turnAway(fmt.Errorf("%s before AUTH", r.Op))
	}
}

// strangerV3 handles a request of a client that is not let in yet: anything
// but AUTH gets StatusUnauthorized and nothing else. START_TLS never comes
// here.
func (c *conn) strangerV3(r *bkpb.Request) error {
	refusal := &bkpb.Response{Header: r.Header, Status: v3Status(bk.StatusUnauthorized)}
	m := r.GetAuthRequest()
	if wire.Op(r.Header.GetOperation()) != wire.OpAuth || m.GetAuthPluginName() != c.s.opts.Auth.Plugin() {
		return c.answerNow(refusal)
	}
	reply, err := c.nextToken(m)
	if err != nil {
		return errors.Join(c.answerNow(refusal), c.turnAway(err))
	}
	return c.answerNow(&bkpb.Response{Header: r.Header, Status: v3Status(bk.StatusOK), AuthResponse: reply})
}

// nextToken is one round.
func (c *conn) nextToken(m *bkpb.AuthMessage) (*bkpb.AuthMessage, error) {
	reply, in, err := c.auth.Next(m.GetPayload())
	if err != nil {
		return nil, err
	}
	if in {
		c.auth = nil
	}
	name := c.s.opts.Auth.Plugin()
	if reply == nil {
		reply = []byte{} // a required field
	}
	return &bkpb.AuthMessage{AuthPluginName: &name, Payload: reply}, nil
}

func (c *conn) turnAway(why error) error {
	c.s.log.Info("client turned away", zap.String("remote", c.remote), zap.Error(why))
	c.s.m.turnedAway.Inc()
	return errTurnedAway
}
