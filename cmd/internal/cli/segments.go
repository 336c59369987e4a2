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
	case i.Sealed():
		return []any{i.Segment, int64(i.Ledger), "sealed", i.Records, int64(i.FirstTxID), nil, i.Last().String(), orDash(i.Completed)}
	}
	if i.InProgress {
		return []any{i.Segment, int64(i.Ledger), state, nil, int64(i.FirstTxID), nil, nil, nil}
	}
	return []any{i.Segment, int64(i.Ledger), state, i.Records, int64(i.FirstTxID), int64(i.LastTxID), i.Last().String(), orDash(i.Completed)}
}
