package zkstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-zookeeper/zk"

	"github.com/loglode/loglode/metadata"
)

// ErrTooLarge says that a transaction is larger than a ZooKeeper server takes.
var ErrTooLarge = errors.New("zkstore: transaction too large for ZooKeeper")

// refusals are answers of a server that say: nothing was done, and trying again
// is of no use.
var refusals = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals, zk.ErrNoAuth,
	zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrInvalidFlags, zk.ErrInvalidPath, zk.ErrBadArguments,
}

// conditions has the refusals that metadata has a word for.
var conditions = map[error]error{
	zk.ErrNoNode: metadata.ErrNotFound, zk.ErrNodeExists: metadata.ErrExists,
	zk.ErrBadVersion: metadata.ErrConflict, zk.ErrNotEmpty: metadata.ErrNotEmpty,
}

// refused says whether err is the server's last word on a request.
func refused(err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

// condition puts a refusal into metadata's words.
func condition(err error) error {
	if c := conditions[err]; c != nil {
		return c
	}
	return fmt.Errorf("zookeeper refused: %w", err)
}

// lost says whether err is a connection that ended, or must, before an answer
// came. What is neither lost nor refused is an answer that is not understood.
func lost(err error) bool {
	for _, l := range []error{
		zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrNoServer, zk.ErrSessionExpired, zk.ErrSessionMoved,
		net.ErrClosed, io.EOF, io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, l) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op)
}

// unsent says that a request whose answer is err never reached the server's
// tree.
func unsent(err error) bool {
	return errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved)
}

// readError names the failure of a request that changes nothing.
func readError(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		err = ctxErr
	}
	for _, known := range []error{metadata.ErrClosed, metadata.ErrSessionLost, metadata.ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", metadata.ErrUnavailable, err)
}
