package stream

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PositionKind tells the forms of a Position apart.
type PositionKind uint8

// The forms of a position.
const (
	KindFirst PositionKind = iota // the first record that is left
	KindLast                      // the newest record
	KindNow                       // after the newest record
	KindAt                        // the first record at or after a DLSN
	KindAfter                     // the first record after a DLSN
	KindTxID                      // the first record with at least this txid
	KindTime                      // the first record appended at or after a time, by txid
)

// Position is a place in a stream to read from, read to or truncate to. Its
// zero value is First.
type Position struct {
	kind PositionKind
	dlsn DLSN
	txid TxID
	time time.Time
}

// First is the first record that is left in the stream.
func First() Position { return Position{} }

// Last is the newest record that is visible when the position is resolved.
func Last() Position { return Position{kind: KindLast} }

// Now is just after the newest record that is visible when the position is
// resolved: only what is appended from then on.
func Now() Position { return Position{kind: KindNow} }

// At is the first record whose DLSN is d or higher.
func At(d DLSN) Position { return Position{kind: KindAt, dlsn: d} }

// After is the first record whose DLSN is higher than d.
func After(d DLSN) Position { return Position{kind: KindAfter, dlsn: d} }

// FromTxID is the first record whose txid is t or higher.
func FromTxID(t TxID) Position { return Position{kind: KindTxID, txid: t} }

// FromTime is the first record appended at t or later, in streams whose txids
// are append times.
func FromTime(t time.Time) Position { return Position{kind: KindTime, time: t} }

// Token is the position of a DLSN that was saved as bytes (DLSN.MarshalBinary),
// that record included.
func Token(b []byte) (Position, error) {
	var d DLSN
	if err := d.UnmarshalBinary(b); err != nil {
		return Position{}, fmt.Errorf("position token: %w: %w", ErrInvalidPosition, err)
	}
	return At(d), nil
}

// Kind is the form of the position.
func (p Position) Kind() PositionKind { return p.kind }

// DLSN is the DLSN of KindAt and KindAfter.
func (p Position) DLSN() DLSN { return p.dlsn }

// TxID is the txid of KindTxID, and of KindTime the txid that stands for it.
func (p Position) TxID() TxID {
	if p.kind == KindTime {
		return TxIDOf(p.time)
	}
	return p.txid
}

// Time is the time of KindTime.
func (p Position) Time() time.Time { return p.time }

// String is a text that ParsePosition takes.
func (p Position) String() string {
	switch p.kind {
	case KindLast:
		return "last"
	case KindNow:
		return "now"
	case KindAt:
		return p.dlsn.String()
	case KindAfter:
		return "after:" + p.dlsn.String()
	case KindTxID:
		return "txid:" + strconv.FormatInt(int64(p.txid), 10)
	case KindTime:
		return p.time.Format(time.RFC3339Nano)
	default:
		return "first"
	}
}

// ParsePosition takes the forms of a position on a command line: a DLSN as
// 1:20:0 or as DistributedLog's base64, after:1:20:0, txid:N, a time in RFC
// 3339, a time ago (-2h, -90s, -7d), first, last and now. now is what a time
// ago counts from. It fails with ErrInvalidPosition.
func ParsePosition(s string, now time.Time) (Position, error) {
	switch s {
	case "first":
		return First(), nil
	case "last":
		return Last(), nil
	case "now":
		return Now(), nil
	case "":
		return Position{}, invalidPosition(s, nil)
	}
	if text, ok := strings.CutPrefix(s, "txid:"); ok {
		t, err := strconv.ParseInt(text, 10, 64)
		if err != nil || t < 0 {
			return Position{}, fmt.Errorf("position %q: the txid is not a number of 0 or more: %w", shorten(s), ErrInvalidPosition)
		}
		return FromTxID(TxID(t)), nil
	}
	if text, ok := strings.CutPrefix(s, "after:"); ok {
		d, err := ParseDLSN(text)
		if err != nil {
			return Position{}, invalidPosition(s, err)
		}
		return After(d), nil
	}
	if text, ok := strings.CutPrefix(s, "-"); ok && !strings.Contains(s, ":") {
		ago, err := parseAgo(text)
		if err != nil {
			return Position{}, invalidPosition(s, err)
		}
		return FromTime(now.Add(-ago)), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return FromTime(t), nil
	}
	d, err := ParseDLSN(s)
	if err != nil {
		return Position{}, invalidPosition(s, err)
	}
	return At(d), nil
}

func invalidPosition(s string, cause error) error {
	const want = "want a DLSN (1:20:0), after:DLSN, txid:N, a time (2006-01-02T15:04:05Z), a time ago (-2h), first, last or now"
	if cause == nil {
		return fmt.Errorf("position %q: %s: %w", shorten(s), want, ErrInvalidPosition)
	}
	return fmt.Errorf("position %q: %s: %w: %w", shorten(s), want, ErrInvalidPosition, cause)
}

// parseAgo is time.ParseDuration, with whole days too: "7d", "1d12h".
func parseAgo(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	var days time.Duration
	if text, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number of days", shorten(text))
		}
		days = time.Duration(n) * day
		if rest == "" {
			return days, nil
		}
		s = rest
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, err
	}
	if d < 0 || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q has two signs", shorten(s))
	}
	return days + d, nil
}
