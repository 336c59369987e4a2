package cli

import (
	"github.com/loglode/loglode/segment"
)

func segmentRow(i segment.Info) []any {
	state := "completed"
	switch {
	case i.Status == segment.Truncated:
		state = "truncated"
	case i.Status == segment.PartiallyTruncated:
		state = "partly truncated"
	case i.InProgress:
		state = "in progress"
	}
	if i.InProgress {
		return []any{i.Segment, int64(i.Ledger), state, nil, int64(i.FirstTxID), nil, nil, nil}
	}
	return []any{i.Segment, int64(i.Ledger), state, i.Records, int64(i.FirstTxID), int64(i.LastTxID), i.Last().String(), orDash(i.Completed)}
}
