package ledger

// HeldBytes is the memory of w's frames that somebody still needs.
func (w *Writer) HeldBytes() int64 { return w.held.Bytes() }

// HeldSlack is by how much HeldBytes may pass Options.BytesInFlight.
var HeldSlack = heldSlack
