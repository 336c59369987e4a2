package benchmarks

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pacer sleeps to some microseconds: what coarse is late would be charged to
// the system under load. A timer of the kernel is waited for like a socket, so
// that no thread is held meanwhile.
type pacer struct {
	fd   int
	file *os.File
}

func newPacer() (sleeper, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &pacer{fd: fd, file: os.NewFile(uintptr(fd), "timer")}, nil
}

// coarseSlack is what coarse may be late.
const coarseSlack = 5 * time.Millisecond

func (p *pacer) sleep(ctx context.Context, d time.Duration) bool {
	if d > 2*coarseSlack { // for which ctx should be heeded
		until := time.Now().Add(d)
		if !(coarse{}).sleep(ctx, d-coarseSlack) {
			return false
		}
		if d = time.Until(until); d <= 0 {
			return true
		}
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if err := unix.TimerfdSettime(p.fd, 0, &spec, nil); err != nil {
		return false
	}
	var count [8]byte
	_, err := p.file.Read(count[:])
	return err == nil && ctx.Err() == nil
}

func (p *pacer) close() error { return p.file.Close() }
