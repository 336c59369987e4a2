package namespace

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/loglode/loglode/stream"
)

// purger applies retention to streams one after the other, on one goroutine
// that it starts when there is something to do.
type purger struct {
	log    *zap.Logger
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	wanted  map[stream.Name]*Stream
	running bool
	closed  bool
}

func (p *purger) init(log *zap.Logger) {
	p.log = log
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wanted = map[stream.Name]*Stream{}
}

// want asks for a purge of a stream, soon.
func (p *purger) want(s *Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.wanted[s.Name()] = s
	if !p.running {
		p.running = true
		p.wg.Add(1)
		go p.run()
	}
}

func (p *purger) run() {
	defer p.wg.Done()
	for {
		s := p.take()
		if s == nil {
			return
		}
		n, err := s.Purge(p.ctx)
		switch {
		case p.ctx.Err() != nil:
		case err != nil:
			p.log.Warn("retention failed", zap.String("stream", string(s.Name())), zap.Error(err))
		case n > 0:
			p.log.Info("segments deleted", zap.String("stream", string(s.Name())), zap.Int("segments", n))
		}
	}
}

// take gives the next stream to purge, nil if there is none: the goroutine ends
// then.
func (p *purger) take() *Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, s := range p.wanted {
		delete(p.wanted, name)
		if !p.closed {
			return s
		}
	}
	p.running = false
	return nil
}

func (p *purger) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
