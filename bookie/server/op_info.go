package server

import (
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// Bits of GetBookieInfoRequest.requested. On the wire: do not renumber.
const (
	infoTotalCapacity = 1
	infoFreeSpace     = 2
)

// doInfo tells the size of the ledger disks, only what was asked for.
func doInfo(w *worker, _ *conn, t *task) {
	requested := t.v3.GetBookieInfoRequest.GetRequested()
	m := responseTo(t.v3, bk.StatusOK)
	m.GetBookieInfoResponse = &bkpb.GetBookieInfoResponse{Status: m.Status}
	if requested&(infoTotalCapacity|infoFreeSpace) != 0 {
		total, free, err := w.s.store.Info()
		if err != nil {
			w.s.log.Warn("cannot tell the size of the ledger disks", zap.Error(err))
			w.statusV3(t, bk.StatusIO)
			return
		}
		if requested&infoTotalCapacity != 0 {
			m.GetBookieInfoResponse.TotalDiskCapacity = &total
		}
		if requested&infoFreeSpace != 0 {
			m.GetBookieInfoResponse.FreeDiskSpace = &free
		}
	}
	w.answerV3(t, m)
}
