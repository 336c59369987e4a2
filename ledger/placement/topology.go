package placement

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/loglode/loglode/bookie/bk"
)

// ErrInvalidTopology: a topology file cannot be used.
var ErrInvalidTopology = errors.New("invalid topology")

// Site is what an operator says about a bookie.
type Site struct {
	Location
	Labels map[string]string
	Weight float64 // 0 = 1
}

// Topology maps bookie ids, or hosts, to sites. It overrides what bookies say
// of themselves, as a network topology script does with Java's client.
type Topology map[string]Site

// Lookup finds a bookie's site: by its id, else by its id without :port.
func (t Topology) Lookup(id bk.BookieID) (Site, bool) {
	s, ok := t[string(id)]
	if i := strings.LastIndexByte(string(id), ':'); !ok && i > 0 {
		s, ok = t[string(id[:i])]
	}
	return s, ok
}

// ParseTopology reads lines of
//
//	HOST|ID  /REGION/ZONE/RACK  [KEY=VALUE…]
//
// where the location may be /RACK or /ZONE/RACK, KEY=VALUE are labels,
// weight=N is the bookie's weight, and # begins a comment. It fails with
// ErrInvalidTopology and the number of the line.
func ParseTopology(text string) (Topology, error) {
	t := Topology{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		site, err := parseSite(fields)
		if _, twice := t[fields[0]]; twice && err == nil {
			err = fmt.Errorf("%.60q is given twice", fields[0])
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrInvalidTopology, n, err)
		}
		t[fields[0]] = site
	}
	return t, nil
}

func parseSite(fields []string) (s Site, err error) {
	if len(fields) < 2 {
		return s, fmt.Errorf("want HOST /REGION/ZONE/RACK [KEY=VALUE…], got %.60q", strings.Join(fields, " "))
	}
	if s.Location, err = ParseLocation(fields[1]); err != nil {
		return s, err
	}
	for _, f := range fields[2:] {
		k, v, ok := strings.Cut(f, "=")
		if !ok {
			return s, fmt.Errorf("label %.60q: want KEY=VALUE", f)
		}
		if k == "weight" {
			if s.Weight, err = ParseWeight(v); err != nil {
				return s, err
			}
			continue
		}
		if err := errors.Join(ValidName(k), ValidName(v)); err != nil {
			return s, fmt.Errorf("label %.60q: %w", f, err)
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[k] = v
	}
	return s, nil
}

// Bounds of a weight.
const (
	weightMin = 1e-3
	weightMax = 1e6
)

// ParseWeight takes a decimal number from 0.001 to 1000000.
func ParseWeight(s string) (float64, error) {
	w, err := strconv.ParseFloat(s, 64)
	if err != nil || !(w >= weightMin && w <= weightMax) {
		return 0, fmt.Errorf("weight %.40q: want a number from %g to %.0f", s, weightMin, weightMax)
	}
	return w, nil
}
