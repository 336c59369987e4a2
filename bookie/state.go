package bookie

// State says what a bookie takes.
type State uint8

const (
	Writable State = iota // everything
	ReadOnly              // reads, fences, and adds of high priority
	Failed                // reads only: a journal can no longer be trusted
	Closed                // nothing
)

func (s State) String() string {
	switch s {
	case Writable:
		return "writable"
	case ReadOnly:
		return "read-only"
	case Failed:
		return "failed"
	default:
		return "closed"
	}
}
