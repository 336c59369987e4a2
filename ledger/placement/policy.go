package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalidPolicy: a policy, or its text, cannot be used.
var ErrInvalidPolicy = errors.New("invalid placement policy")

// Policy says where the copies of an entry should be. The zero value spreads
// write sets over zones and racks as well as it can, and never fails for it.
type Policy struct {
	// Write is the fewest places that every write set, each Qw neighbours of an
	// ensemble, is in.
	Write Minimums
	// Ack is the fewest places that any Qa bookies of a write set are in: an
	// entry that is acknowledged is in so many, whoever answered.
	Ack Minimums
	// Strict makes a choice that cannot keep the minimums fail with an
	// UnmetError. Otherwise it keeps them as far as it can.
	Strict bool
	// Spread is the widest level over which write sets are spread beyond the
	// minimums; narrower levels follow.
	Spread Spread
	// EvenDisks leaves free disk space out of the choice. Otherwise a bookie
	// with twice the usual space gets twice the ledgers, within a factor of
	// freeFactorMax.
	EvenDisks bool
	// Require are labels that a bookie must have to be chosen. The keys region,
	// zone and rack mean its location.
	Require map[string]string
}

// Minimums are numbers of places; 0 and 1 ask for nothing.
type Minimums struct {
	Racks, Zones, Regions int
}

// At gives the minimum of a level.
func (m Minimums) At(l Level) int {
	switch l {
	case LevelRack:
		return m.Racks
	case LevelZone:
		return m.Zones
	case LevelRegion:
		return m.Regions
	default:
		return 0
	}
}

func (m *Minimums) at(l Level) *int {
	switch l {
	case LevelRack:
		return &m.Racks
	case LevelZone:
		return &m.Zones
	default:
		return &m.Regions
	}
}

// Spread says over what write sets are spread where nothing asks for it.
type Spread uint8

const (
	SpreadZones   Spread = iota // default: over zones, in them over racks
	SpreadRacks                 // over racks alone
	SpreadRegions               // over regions, in them over zones and racks
	SpreadNone                  // over nothing
)

// level is the widest level of the spread.
func (s Spread) level() Level {
	switch s {
	case SpreadZones:
		return LevelZone
	case SpreadRacks:
		return LevelRack
	case SpreadRegions:
		return LevelRegion
	default:
		return LevelNone
	}
}

// placesMax bounds a minimum; no ensemble is larger.
const placesMax = 1 << 15

// Validate names each field that cannot be used, and its value.
func (p Policy) Validate() error {
	var errs []error
	for _, l := range levels {
		for _, r := range []Rule{{l, false, p.Write.At(l)}, {l, true, p.Ack.At(l)}} {
			if r.Want < 0 || r.Want > placesMax {
				errs = append(errs, fmt.Errorf("%v: want 0 to %d", r, placesMax))
			}
		}
	}
	if p.Spread > SpreadNone {
		errs = append(errs, fmt.Errorf("spread %d is unknown", uint8(p.Spread)))
	}
	for _, k := range slices.Sorted(maps.Keys(p.Require)) {
		for _, s := range []string{k, p.Require[k]} {
			if err := ValidName(s); err != nil {
				errs = append(errs, fmt.Errorf("require:%s: %w", k, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidPolicy, err)
	}
	return nil
}

// Equal says whether two policies ask for the same.
func (p Policy) Equal(q Policy) bool {
	return p.Write == q.Write && p.Ack == q.Ack && p.Strict == q.Strict && p.Spread == q.Spread &&
		p.EvenDisks == q.EvenDisks && maps.Equal(p.Require, q.Require)
}

// lacks gives the first required label that b does not have, as key=value.
func (p Policy) lacks(b *Bookie) string {
	if len(p.Require) == 0 {
		return ""
	}
	for _, k := range slices.Sorted(maps.Keys(p.Require)) {
		have := b.Labels[k]
		switch k {
		case "region":
			have = b.Region
		case "zone":
			have = b.Zone
		case "rack":
			have = b.Rack
		}
		if have != p.Require[k] {
			return k + "=" + p.Require[k]
		}
	}
	return ""
}

// String gives the policy's text, that ParsePolicy takes; "default" for the
// zero value.
func (p Policy) String() string {
	var terms []string
	for i := range levels {
		l := levels[len(levels)-1-i]
		if n := p.Write.At(l); n != 0 {
			terms = append(terms, fmt.Sprintf("%ss=%d", l, n))
		}
		if n := p.Ack.At(l); n != 0 {
			terms = append(terms, fmt.Sprintf("ack-%ss=%d", l, n))
		}
	}
	if p.Strict {
		terms = append(terms, "strict")
	}
	if p.Spread != SpreadZones {
		terms = append(terms, "spread="+p.Spread.level().String())
	}
	if p.EvenDisks {
		terms = append(terms, "even-disks")
	}
	for _, k := range slices.Sorted(maps.Keys(p.Require)) {
		terms = append(terms, "require:"+k+"="+p.Require[k])
	}
	if len(terms) == 0 {
		return "default"
	}
	return strings.Join(terms, ",")
}

// ParsePolicy takes terms joined by commas: racks=N, zones=N, regions=N (each
// write set is in at least N), ack-racks=N, ack-zones=N, ack-regions=N (any
// ack quorum is), strict, spread=zone|rack|region|none, even-disks,
// require:KEY=VALUE. "" and "default" are the zero Policy. It fails with
// ErrInvalidPolicy.
func ParsePolicy(text string) (Policy, error) {
	var p Policy
	if text == "" || text == "default" {
		return p, nil
	}
	seen := map[string]bool{}
	for term := range strings.SplitSeq(text, ",") {
		term = strings.TrimSpace(term)
		name, value, _ := strings.Cut(term, "=")
		if seen[name] {
			return Policy{}, fmt.Errorf("%w: %.40q is given twice", ErrInvalidPolicy, name)
		}
		seen[name] = true
		if err := p.set(term, name, value); err != nil {
			return Policy{}, fmt.Errorf("%w: %w", ErrInvalidPolicy, err)
		}
	}
	return p, p.Validate()
}

func (p *Policy) set(term, name, value string) error {
	switch name {
	case "strict", "even-disks":
		if term != name {
			return fmt.Errorf("%.60q: %s takes no value", term, name)
		}
		p.Strict = p.Strict || name == "strict"
		p.EvenDisks = p.EvenDisks || name == "even-disks"
		return nil
	case "spread":
		for s := SpreadZones; s <= SpreadNone; s++ {
			if s.level().String() == value {
				p.Spread = s
				return nil
			}
		}
		return fmt.Errorf("%.60q: want spread=zone, rack, region or none", term)
	}
	if key, ok := strings.CutPrefix(name, "require:"); ok {
		if p.Require == nil {
			p.Require = map[string]string{}
		}
		p.Require[key] = value
		return nil
	}
	m, plural := &p.Write, name
	if rest, ok := strings.CutPrefix(name, "ack-"); ok {
		m, plural = &p.Ack, rest
	}
	for _, l := range levels {
		if plural != l.String()+"s" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || strconv.Itoa(n) != value {
			return fmt.Errorf("%.60q: want a number of 1 or more", term)
		}
		*m.at(l) = n
		return nil
	}
	return fmt.Errorf("%.60q: want racks=N, zones=N, regions=N, ack-racks=N, ack-zones=N, ack-regions=N, "+
		"strict, spread=LEVEL, even-disks or require:KEY=VALUE", term)
}
