package stream_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

func load(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

type dlsnVectors struct {
	DLSNs []struct {
		LSSN, Entry, Slot int64
		V0Hex             string `json:"v0_hex"`
		V0Base64          string `json:"v0_base64"`
		V1Hex             string `json:"v1_hex"`
		V1Base64          string `json:"v1_base64"`
		DefaultBase64     string `json:"default_base64"`
		Next              string
		NextLedger        string `json:"next_ledger"`
	}
	Rejected []struct{ Hex string }
}

func TestDLSNGolden(t *testing.T) {
	var v dlsnVectors
	load(t, "dlsn.json", &v)
	require.NotEmpty(t, v.DLSNs)
	for _, c := range v.DLSNs {
		d := stream.DLSN{Segment: c.LSSN, Entry: c.Entry, Slot: c.Slot}
		t.Run(d.String(), func(t *testing.T) {
			b, err := d.MarshalBinary()
			require.NoError(t, err)
			require.Equal(t, c.V1Hex, hex.EncodeToString(b))
			require.Equal(t, c.V1Base64, d.Base64())
			require.Equal(t, c.DefaultBase64, d.Base64())
			for _, text := range []string{c.V0Hex, c.V1Hex} {
				b, err := hex.DecodeString(text)
				require.NoError(t, err)
				var got stream.DLSN
				require.NoError(t, got.UnmarshalBinary(b))
				require.Equal(t, d, got)
				for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
					got, err := stream.ParseDLSN(enc.EncodeToString(b))
					require.NoError(t, err)
					require.Equal(t, d, got)
				}
			}
			for _, text := range []string{c.V0Base64, c.V1Base64, d.String()} {
				got, err := stream.ParseDLSN(text)
				require.NoError(t, err)
				require.Equal(t, d, got)
			}
			require.Equal(t, c.Next, javaText(d.Next()))
			require.Equal(t, c.NextLedger, javaText(d.NextSegment()))
		})
	}
	require.NotEmpty(t, v.Rejected)
	for _, c := range v.Rejected {
		b, err := hex.DecodeString(c.Hex)
		require.NoError(t, err)
		require.ErrorIs(t, new(stream.DLSN).UnmarshalBinary(b), stream.ErrInvalidDLSN, "bytes %q", c.Hex)
		_, err = stream.ParseDLSN(base64.StdEncoding.EncodeToString(b))
		require.ErrorIs(t, err, stream.ErrInvalidDLSN, "bytes %q", c.Hex)
	}
}

// javaText is the form that DistributedLog writes into logs.
func javaText(d stream.DLSN) string {
	p := strings.Split(d.String(), ":")
	return "DLSN{logSegmentSequenceNo=" + p[0] + ", entryId=" + p[1] + ", slotId=" + p[2] + "}"
}

func TestNamesGolden(t *testing.T) {
	var v struct {
		Names []struct {
			In    string
			Out   *string
			Error string
		}
	}
	load(t, "names.json", &v)
	require.NotEmpty(t, v.Names)
	for _, c := range v.Names {
		got, err := stream.ParseName(c.In)
		if c.Out != nil {
			require.NoError(t, err, "name %q", c.In)
			require.Equal(t, *c.Out, string(got))
			require.NoError(t, got.Validate())
			continue
		}
		var ne *stream.NameError
		require.ErrorAs(t, err, &ne, "name %q: %s", c.In, c.Error)
		require.ErrorIs(t, err, stream.ErrInvalidName)
	}
}
