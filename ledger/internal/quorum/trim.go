package quorum

// Trim gives back memory that a burst of adds made grow. It does nothing while
// adds are pending.
func (w *Writer) Trim() {
	if w.head == w.next && len(w.ring) > ringMin {
		w.ring = make([]pending, ringMin)
		w.acts, w.avoid = nil, nil
	}
}

// ringMin is the size of the ring of an idle writer.
const ringMin = 4
