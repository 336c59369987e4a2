package placement

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loglode/loglode/bookie/bk"
)

// Level is a kind of place that can fail as one.
type Level uint8

// Levels from narrow to wide. A rack is a rack of its zone, a zone one of its
// region: two zones of one name in two regions are two zones.
const (
	LevelNone Level = iota
	LevelRack
	LevelZone
	LevelRegion
)

func (l Level) String() string {
	switch l {
	case LevelNone:
		return "none"
	case LevelRack:
		return "rack"
	case LevelZone:
		return "zone"
	case LevelRegion:
		return "region"
	default:
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
}

// Location says where a bookie is. An empty name is a place too: all bookies
// that do not tell their zone count as being in one zone, for they may be.
type Location struct {
	Region, Zone, Rack string
}

// At gives the place of l at a level: what is narrower is left out.
func (l Location) At(level Level) Location {
	switch level {
	case LevelRegion:
		return Location{Region: l.Region}
	case LevelZone:
		return Location{Region: l.Region, Zone: l.Zone}
	case LevelRack:
		return l
	default:
		return Location{}
	}
}

// String gives /region/zone/rack, with - for what is not known.
func (l Location) String() string {
	var b strings.Builder
	for _, s := range []string{l.Region, l.Zone, l.Rack} {
		b.WriteByte('/')
		if s == "" {
			s = "-"
		}
		b.WriteString(s)
	}
	return b.String()
}

// ParseLocation takes what String gives, and shorter paths: /rack,
// /zone/rack, /region/zone/rack.
func ParseLocation(s string) (Location, error) {
	rest, ok := strings.CutPrefix(s, "/")
	names := strings.Split(rest, "/")
	if !ok || len(names) > 3 {
		return Location{}, fmt.Errorf("location %q: want /rack, /zone/rack or /region/zone/rack", s)
	}
	for i, n := range names {
		if err := ValidName(n); err != nil {
			return Location{}, fmt.Errorf("location %q: %w", s, err)
		}
		if n == "-" {
			names[i] = ""
		}
	}
	names = append(make([]string, 3-len(names)), names...)
	return Location{Region: names[0], Zone: names[1], Rack: names[2]}, nil
}

const nameBytesMax = 256

// ValidName checks the name of a place, or the key or value of a label: 1 to
// 256 bytes, printable, without space, '/', ',' or '='.
func ValidName(s string) error {
	if s == "" || len(s) > nameBytesMax {
		return fmt.Errorf("name %.40q: want 1 to %d bytes", s, nameBytesMax)
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == utf8.RuneError || strings.ContainsRune("/,=", r) {
			return fmt.Errorf("name %.40q: %q cannot be in it", s, r)
		}
	}
	return nil
}

// Status says whether a bookie should be chosen. Of two that would do, the one
// of the lower status is chosen.
type Status uint8

const (
	Good        Status = iota
	Draining           // it is to be emptied: used rather than fail
	Quarantined        // it failed lately: used rather than fail
	ReadOnly           // it refuses adds: used for a recovery's copies alone, rather than fail
	Gone               // it is not registered: never chosen
)

func (s Status) String() string {
	switch s {
	case Good:
		return "good"
	case Draining:
		return "draining"
	case Quarantined:
		return "quarantined"
	case ReadOnly:
		return "read-only"
	case Gone:
		return "gone"
	default:
		return fmt.Sprintf("Status(%d)", uint8(s))
	}
}

// Bookie is what a choice goes by.
type Bookie struct {
	ID bk.BookieID
	Location
	Labels map[string]string
	// Weight is the bookie's share of new ledgers relative to others; 0 = 1.
	Weight float64
	// FreeBytes is the space left on its disks; 0 = not known.
	FreeBytes int64
	Status    Status
}
