package entrylog

import "fmt"

// Current is the log that is being written, 0 if none is. It belongs to the
// goroutine that appends.
func (s *Store) Current() LogID {
	if s.cur == nil {
		return 0
	}
	return s.cur.log
}

// Size is how many bytes the file of a log has.
func (s *Store) Size(log LogID) (int64, error) {
	st, err := s.fs.Stat(s.fs.PathJoin(s.dir, fileName(log)))
	if err != nil {
		return 0, fmt.Errorf("stat entry log %s: %w", fileName(log), err)
	}
	return st.Size(), nil
}

// Remove deletes a log that no index names any more. Who reads it goes on.
func (s *Store) Remove(log LogID) error {
	if err := s.fs.Remove(s.fs.PathJoin(s.dir, fileName(log))); err != nil {
		return fmt.Errorf("remove entry log %s: %w", fileName(log), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[log]
	if f == nil {
		return nil
	}
	delete(s.open, log)
	f.refs-- // the table's own; release closes it after the last reader
	if f.refs > 0 {
		return nil
	}
	return f.f.Close()
}
