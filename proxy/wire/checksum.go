package wire

import (
	"hash/crc32"

	"github.com/loglode/loglode/stream"
)

// Checksum is the CRC-32 (IEEE) that a call's context carries: over the stream
// name and the payload of a write, or the 25 bytes of a truncate's DLSN. Bulk
// calls and handshakes have none: ok is false.
func Checksum(c *Call) (sum int64, ok bool) {
	crc := crc32.ChecksumIEEE([]byte(c.Stream))
	switch c.Method {
	case Write, WriteWithContext:
		crc = crc32.Update(crc, crc32.IEEETable, c.payload())
	case Truncate:
		d, err := stream.ParseDLSN(c.DLSN)
		if err != nil {
			return 0, false
		}
		b, err := d.MarshalBinary()
		if err != nil {
			return 0, false
		}
		crc = crc32.Update(crc, crc32.IEEETable, b)
	case Heartbeat, HeartbeatWithOptions, Release, Create, Delete:
	default:
		return 0, false
	}
	return int64(crc), true
}

// ChecksumError is ChecksumFailed if the call carries a checksum that its
// content does not have.
func ChecksumError(c *Call) error {
	if c.Context == nil || !c.Context.IsSetCrc32() {
		return nil
	}
	if sum, ok := Checksum(c); ok && sum != c.Context.GetCrc32() {
		return &StatusError{Code: ChecksumFailed, Message: "checksum of the request does not match its content"}
	}
	return nil
}
