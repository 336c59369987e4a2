package server

import "time"

// janitor closes connections whose peer left a frame unfinished or does not
// read its answers, and lets idle ones give up their read buffer. One timer
// for all costs the data path nothing.
func (s *Server) janitor() {
	t := time.NewTicker(max(min(s.opts.IdleMax, s.opts.WriteStallMax)/4, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return
		}
		now := time.Now()
		for _, c := range s.snapshot() {
			c.tidy(now)
		}
	}
}

func (c *conn) tidy(now time.Time) {
	if w := c.writeSince.Load(); w != 0 && now.Sub(time.Unix(0, w)) > c.s.opts.WriteStallMax {
		c.fail(errWriteStall)
		return
	}
	if now.Sub(time.Unix(0, c.lastRead.Load())) <= c.s.opts.IdleMax || c.out.full() {
		return
	}
	if c.partial.Load() {
		c.fail(errHalfFrame)
	} else if !c.released.Load() && !c.draining.Load() {
		// The reader takes it as "let the buffer go". An error means that the
		// connection is closed, and then there is nothing to do.
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}
