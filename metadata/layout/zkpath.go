package layout

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/loglode/loglode/bookie/bk"
)

// shortIDs is how many ids the short tree of Hierarchical has: the largest of
// 32 bits is already in the long one.
const shortIDs = math.MaxInt32

// leafMark begins the last component of a ledger's path.
const leafMark = "L"

// path gives a ledger's path below the root, without a slash in front.
//
//	flat                L0123456789
//	short, three levels 01/2345/L6789
//	long, five levels   000/0000/0001/2345/L6789
func (k Kind) path(id bk.LedgerID) string {
	switch {
	case k == Flat:
		return fmt.Sprintf("%s%010d", leafMark, id)
	case k == LegacyHierarchical, k == Hierarchical && id < shortIDs:
		d := fmt.Sprintf("%010d", id)
		return d[:2] + "/" + d[2:6] + "/" + leafMark + d[6:]
	default:
		d := fmt.Sprintf("%019d", id)
		return d[:3] + "/" + d[3:7] + "/" + d[7:11] + "/" + d[11:15] + "/" + leafMark + d[15:]
	}
}

// levels tells how the names of a tree look above its ledgers: digits has how
// many digits each has, the root's children first.
type levels struct{ digits []int }

// trees are the trees that a kind keeps its ledgers in, in the order of their
// ids.
func (k Kind) trees() []levels {
	short, long := levels{[]int{2, 4}}, levels{[]int{3, 4, 4, 4}}
	switch k {
	case Flat:
		return []levels{{}}
	case LegacyHierarchical:
		return []levels{short}
	case LongHierarchical:
		return []levels{long}
	default:
		return []levels{short, long}
	}
}

// isDigits reports whether a name is so many digits and nothing else.
func isDigits(name string, n int) bool {
	return len(name) == n && strings.Trim(name, "0123456789") == ""
}

// leafID gives the id that a leaf below the components in digits stands for;
// false for a name that path cannot have made.
func (k Kind) leafID(digits, leaf string) (bk.LedgerID, bool) {
	low, ok := strings.CutPrefix(leaf, leafMark)
	if !ok || strings.Trim(low, "0123456789") != "" {
		return 0, false
	}
	id, err := strconv.ParseInt(digits+low, 10, 64)
	if err != nil || strings.ReplaceAll(k.path(bk.LedgerID(id)), "/", "") != digits+leaf {
		return 0, false
	}
	return bk.LedgerID(id), true
}
