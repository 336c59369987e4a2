package stream

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config says how a stream is stored. Its zero value is a good stream; every
// zero field stands for its default.
type Config struct {
	Quorum      Quorum            `json:"quorum,omitzero"`
	Roll        Roll              `json:"roll,omitzero"`
	Retention   Retention         `json:"retention,omitzero"`
	Compression Compression       `json:"compression,omitzero"`
	Labels      map[string]string `json:"labels,omitempty"` // for people and tools; at most 64, keys not empty
	// Placement is the text of the policy by which the bookies of the stream's
	// segments are chosen, as "zones=2,strict" (docs/placement.md). "" leaves
	// that to each writer's client.
	Placement string `json:"placement,omitempty"`
}

// Quorum says how each segment is replicated: an entry goes to Write of the
// Ensemble bookies and is acknowledged once Ack of them have it on disk. While
// fewer than Ensemble bookies are there, new segments take those, but never
// fewer than Ack.
type Quorum struct {
	Ensemble int `json:"ensemble"` // default 3
	Write    int `json:"write"`    // default min(3, Ensemble)
	Ack      int `json:"ack"`      // default a majority of Write
}

// Roll says when a writer completes its segment and starts the next.
type Roll struct {
	SizeBytes int64         `json:"sizeBytes,omitzero"` // payload bytes of a ledger. Default 256 MiB
	Every     time.Duration `json:"every,omitzero"`     // age in nanoseconds. Default 2 h; negative = never by age
}

// Retention says which completed segments are deleted. Truncated segments are
// deleted in any case; the newest completed segment never is.
type Retention struct {
	Age time.Duration `json:"age,omitzero"` // nanoseconds since a segment's completion; 0 = keep
}

// Compression is how entries are compressed.
type Compression uint8

// Codecs of an entry's envelope. On disk: do not renumber.
const (
	CompressionNone Compression = 0
	CompressionLZ4  Compression = 1
)

// Limits of a Config.
const (
	labelsMax       = 64
	labelBytesMax   = 256
	rollSizeMin     = 1 << 10
	rollSizeDefault = 256 << 20
	rollAgeDefault  = 2 * time.Hour
	quorumMax       = 127

	placementBytesMax = 4096
)

func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionLZ4:
		return "lz4"
	default:
		return fmt.Sprintf("Compression(%d)", uint8(c))
	}
}

// ParseCompression takes none and lz4.
func ParseCompression(s string) (Compression, error) {
	switch s {
	case "none":
		return CompressionNone, nil
	case "lz4":
		return CompressionLZ4, nil
	default:
		return 0, fmt.Errorf("compression %q: want none or lz4: %w", shorten(s), ErrInvalidConfig)
	}
}

// MarshalText gives none or lz4.
func (c Compression) MarshalText() ([]byte, error) {
	if c > CompressionLZ4 {
		return nil, fmt.Errorf("compression %d: %w", uint8(c), ErrInvalidConfig)
	}
	return []byte(c.String()), nil
}

// UnmarshalText takes what ParseCompression takes.
func (c *Compression) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCompression(string(text))
	return err
}

// WithDefaults fills in every zero field.
func (c Config) WithDefaults() Config {
	q := &c.Quorum
	if q.Ensemble == 0 {
		q.Ensemble = max(3, q.Write, q.Ack)
	}
	if q.Write == 0 {
		q.Write = max(min(3, q.Ensemble), q.Ack)
	}
	if q.Ack == 0 {
		q.Ack = q.Write/2 + 1
	}
	if c.Roll.SizeBytes == 0 {
		c.Roll.SizeBytes = rollSizeDefault
	}
	if c.Roll.Every == 0 {
		c.Roll.Every = rollAgeDefault
	}
	return c
}

// Validate names every field that cannot be used, and its value. It wraps
// ErrInvalidConfig.
func (c Config) Validate() error {
	var errs []error
	q := c.WithDefaults().Quorum
	if q.Ensemble < q.Write || q.Write < q.Ack || q.Ack < 1 || q.Ensemble > quorumMax {
		errs = append(errs, fmt.Errorf("quorum: ensemble %d, write quorum %d, ack quorum %d: want %d >= ensemble >= write >= ack >= 1",
			q.Ensemble, q.Write, q.Ack, quorumMax))
	}
	if s := c.Roll.SizeBytes; s < 0 || s > 0 && s < rollSizeMin {
		errs = append(errs, fmt.Errorf("roll size %d bytes: want at least %d", s, rollSizeMin))
	}
	if c.Retention.Age < 0 {
		errs = append(errs, fmt.Errorf("retention age %v is negative", c.Retention.Age))
	}
	if c.Compression > CompressionLZ4 {
		errs = append(errs, fmt.Errorf("compression %d: want none or lz4", uint8(c.Compression)))
	}
	if len(c.Placement) > placementBytesMax || strings.ContainsRune(c.Placement, 0) {
		errs = append(errs, fmt.Errorf("placement %q: want at most %d bytes, no NUL", shorten(c.Placement), placementBytesMax))
	}
	errs = append(errs, validateLabels(c.Labels)...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return nil
}

func validateLabels(labels map[string]string) []error {
	var errs []error
	if len(labels) > labelsMax {
		errs = append(errs, fmt.Errorf("%d labels, the limit is %d", len(labels), labelsMax))
	}
	for k, v := range labels {
		if k == "" || len(k) > labelBytesMax || len(v) > labelBytesMax || strings.ContainsRune(k+v, 0) {
			errs = append(errs, fmt.Errorf("label %q: want 1 to %d bytes of key, at most %d of value, no NUL",
				shorten(k), labelBytesMax, labelBytesMax))
		}
	}
	return errs
}
