package daemon

import (
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdNoise has the warnings and errors that starts of a healthy single-member
// server bring; the last one repeats many times a second after a kill, until the
// member has elected itself. They ask nothing of an operator.
var etcdNoise = map[string]bool{
	"failed to update storage version":                                                     true,
	"Failed to detect schema version":                                                      true,
	"simple token is not cryptographically signed":                                         true,
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"failed to publish local member to cluster through raft":                               true,
}

// etcdClosingNoise is what it calls the end of its listeners when it is closed.
const etcdClosingNoise = "setting up serving from embedded etcd failed."

// etcdLogger passes what an operator may have to act on. closing is set when
// the server is being closed.
func etcdLogger(log *zap.Logger, closing *atomic.Bool) *zap.Logger {
	return log.Named("etcd").WithOptions(
		zap.IncreaseLevel(zap.WarnLevel),
		zap.WrapCore(func(c zapcore.Core) zapcore.Core { return quietCore{c, closing} }))
}

// quietCore drops noise.
type quietCore struct {
	zapcore.Core
	closing *atomic.Bool
}

func (c quietCore) With(f []zapcore.Field) zapcore.Core { return quietCore{c.Core.With(f), c.closing} }

func (c quietCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if etcdNoise[e.Message] || e.Message == etcdClosingNoise && c.closing.Load() {
		return ce
	}
	return c.Core.Check(e, ce)
}
