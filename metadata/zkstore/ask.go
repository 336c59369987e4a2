package zkstore

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// ask makes one request of the server on l's connection and waits for its
// answer or the end of ctx. handed says whether the request may have left; it
// goes on by itself when ctx ends, so req must own all that it uses.
func ask[T any](ctx context.Context, s *Store, l *link, req func(*zk.Conn) (T, error)) (answer T, handed bool, err error) {
	c, err := l.use(ctx)
	if err != nil {
		return answer, false, err
	}
	type outcome struct {
		answer T
		err    error
	}
	done := make(chan outcome, 1)
	err = s.start(func() {
		a, err := req(c.Conn)
		if err != nil && lost(err) {
			c.w.cut() // the next request waits for a new one
		}
		done <- outcome{a, err}
	})
	if err != nil {
		return answer, false, err
	}
	select {
	case o := <-done:
		return o.answer, true, o.err
	case <-ctx.Done():
		return answer, true, ctx.Err()
	}
}

// read makes a request that changes nothing, again on each new connection,
// until it is answered or ctx ends. Its error is a refusal of the server or one
// of metadata.
func read[T any](ctx context.Context, s *Store, l *link, req func(*zk.Conn) (T, error)) (T, error) {
	for {
		a, _, err := ask(ctx, s, l, req)
		if err == nil || refused(err) {
			return a, err
		}
		if ctx.Err() != nil || !lost(err) {
			return a, readError(ctx, err)
		}
	}
}
