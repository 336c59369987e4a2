package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/cmd/internal/daemon"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/stream"
)

// Exit codes, a contract with scripts: do not renumber.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4   // exists, changed by another, fenced
	exitUnavailable = 5   // metadata or too few bookies
	exitTimeout     = 124 // as timeout(1)
)

// usageError is a command line or setting that cannot be used.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCodes is searched in order: the first code with a condition that the
// error is decides.
var exitCodes = []struct {
	code       int
	conditions []error
}{
	{exitUsage, []error{
		stream.ErrInvalidName, stream.ErrInvalidPosition, stream.ErrInvalidDLSN, stream.ErrInvalidConfig,
		stream.ErrRecordTooLong, stream.ErrTxIDOrder, metadata.ErrInvalidKey,
		bk.ErrInvalidQuorum, bk.ErrInvalidBookieID, bk.ErrInvalidDigest,
		dial.ErrInvalidURI, dial.ErrUnknownScheme, namespace.ErrInvalidURI, daemon.ErrOptions,
		placement.ErrInvalidPolicy, placement.ErrInvalidTopology,
	}},
	{exitConflict, []error{
		stream.ErrFenced, stream.ErrExists, stream.ErrConflict, stream.ErrNotOwner, stream.ErrSealed,
		bk.ErrFenced, bk.ErrLedgerExists, bk.ErrMetadataConflict, metadata.ErrExists, metadata.ErrConflict,
		namespace.ErrNamespaceExists, namespace.ErrNotEmpty, layout.ErrLayout, bookie.ErrIdentity, bookie.ErrDirInUse, daemon.ErrDirInUse,
		syscall.EADDRINUSE,
	}},
	{exitUnavailable, []error{
		stream.ErrNotEnoughBookies, bk.ErrNotEnoughBookies, stream.ErrUnavailable, metadata.ErrUnavailable,
		bk.ErrBookieUnavailable, metadata.ErrSessionLost, client.ErrNoProxy,
	}},
	{exitNotFound, []error{
		stream.ErrNotFound, stream.ErrTruncated, stream.ErrEmpty, bk.ErrNoSuchLedger, bk.ErrNoSuchEntry, metadata.ErrNotFound,
		namespace.ErrNotNamespace, namespace.ErrNoCluster,
	}},
	{exitTimeout, []error{stream.ErrTimeout, bk.ErrTimeout, context.DeadlineExceeded}},
}

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	for _, row := range exitCodes {
		for _, c := range row.conditions {
			if errors.Is(err, c) {
				return row.code
			}
		}
	}
	return exitFailed
}

// hints tell what to do about a condition, in a few words behind the message.
var hints = []struct {
	condition error
	hint      string
}{
	{namespace.ErrNoCluster, "make one with `loglode init --metadata URI`"},
	{namespace.ErrNotNamespace, "make one with `loglode namespace create`"},
	{stream.ErrNotFound, "create it with `loglode stream create`"},
	{stream.ErrFenced, "another writer owns the stream; start again to take it back"},
	{stream.ErrSealed, "a sealed stream takes no more records"},
	{placement.ErrUnmet, "`loglode bookie label` says where bookies are, `loglode placement explain` what is missing"},
	{stream.ErrNotEnoughBookies, "start more bookies, or use a smaller --ensemble; `loglode bookie ls` lists them"},
	{bk.ErrNotEnoughBookies, "start more bookies, or use a smaller --ensemble; `loglode bookie ls` lists them"},
	{metadata.ErrUnavailable, "is the metadata server running? `loglode dev` starts a whole system"},
	{stream.ErrUnavailable, "is the metadata server running? `loglode dev` starts a whole system"},
	{syscall.EADDRINUSE, "another process listens there; choose another port"},
}

// message is one line for people: what, where, and what to do.
func message(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors
	for _, h := range hints {
		if errors.Is(err, h.condition) {
			return text + "; " + h.hint
		}
	}
	return text
}
