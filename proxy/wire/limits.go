package wire

// PayloadBytesMax is the most bytes of a record's payload: 1 MiB less 8 KiB for
// the record, 20 bytes of them its head. Both sides check it before anything is
// written, so that one long record does not spoil a bulk.
const PayloadBytesMax = 1<<20 - 8<<10 - 20
