package placement

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loglode/loglode/bookie/bk"
)

// ErrUnmet: the bookies are not where a strict policy wants them.
var ErrUnmet = errors.New("placement policy cannot be kept")

// NotEnoughError says how many bookies were needed and how many there are. It
// wraps bk.ErrNotEnoughBookies.
type NotEnoughError struct {
	Need, Have int
	Unfit      int // bookies beside Have that lack a required label
}

func (e *NotEnoughError) Error() string {
	unfit := ""
	if e.Unfit > 0 {
		unfit = fmt.Sprintf(" (%d more lack a required label)", e.Unfit)
	}
	return fmt.Sprintf("%d bookies needed, %d usable%s: %v", e.Need, e.Have, unfit, bk.ErrNotEnoughBookies)
}

func (e *NotEnoughError) Unwrap() error { return bk.ErrNotEnoughBookies }

// UnmetError says which minimum of a strict policy no choice of bookies keeps.
// It wraps ErrUnmet and bk.ErrNotEnoughBookies.
type UnmetError struct {
	// Rule cannot be kept. If each rule could be kept alone but not all of them
	// together, it is the first that the others leave no room for.
	Rule     Rule
	Of       int        // Qw, or Qa for a rule of ack quorums
	Have     int        // places that can be reached
	Places   []Location // of the usable bookies, at the rule's level
	Together bool       // the rule could be kept alone
}

// placesNamed is how many places an error's text names.
const placesNamed = 8

func (e *UnmetError) Error() string {
	var b strings.Builder
	kind := "write set"
	if e.Rule.Ack {
		kind = "ack quorum"
	}
	fmt.Fprintf(&b, "placement %s: each %s of %d must be in %d %ss, %d can be reached", e.Rule, kind, e.Of, e.Rule.Want, e.Rule.Level, e.Have)
	if e.Together {
		b.WriteString(" beside the policy's other rules")
	}
	fmt.Fprintf(&b, " (usable bookies are in %d:", len(e.Places))
	for i, p := range e.Places {
		if i == placesNamed {
			b.WriteString(" …")
			break
		}
		b.WriteByte(' ')
		b.WriteString(p.name(e.Rule.Level))
	}
	fmt.Fprintf(&b, "): %v", bk.ErrNotEnoughBookies)
	return b.String()
}

func (e *UnmetError) Unwrap() []error { return []error{ErrUnmet, bk.ErrNotEnoughBookies} }

// name gives the path of a place as far as its level.
func (l Location) name(level Level) string {
	parts := strings.Split(l.String()[1:], "/")
	return "/" + strings.Join(parts[:len(levels)-int(level)+1], "/")
}
