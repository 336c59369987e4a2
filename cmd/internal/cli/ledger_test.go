package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
)

// Custom metadata given at Create are shown by ledger show.
func TestLedgerShowCustomMetadata(t *testing.T) {
	ctx := t.Context()
	store, root, err := dial.Open(ctx, "mem://show-custom/bk", dial.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	_, err = layout.Init(ctx, store, root)
	require.NoError(t, err)
	cluster, err := layout.Open(ctx, store, root)
	require.NoError(t, err)
	sess, err := store.Session(ctx, metadata.SessionOptions{TTL: time.Hour})
	require.NoError(t, err)
	require.NoError(t, cluster.Register(ctx, sess, "b0:1", layout.ServiceInfo{}, layout.Writable))
	c, err := ledger.New(cluster, ledger.Options{
		Dial: func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody there") },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.Create(ctx, bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, ledger.WithLedgerID(7),
		ledger.WithCustomMetadata(map[string][]byte{"application": []byte("pulsar"), "bytes": {0, 1}}))
	require.NoError(t, err)
	m, err := c.Metadata(ctx, 7)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, printTable(&out, ledgerTable(7, m)))
	require.Contains(t, out.String(), "application=pulsar")
	require.Contains(t, out.String(), fmt.Sprintf("bytes=%q", "\x00\x01"))
}
