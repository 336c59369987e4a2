package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/loglode/loglode/proxy/wire/internal/idl"
	"github.com/loglode/loglode/stream"
)

// Code is a status code of an answer's header.
type Code = idl.StatusCode

// Status codes. On the wire: do not renumber, and never send any other number.
const (
	Success                    = idl.StatusCode_SUCCESS
	ClientClosed               = idl.StatusCode_CLIENT_CLOSED
	Found                      = idl.StatusCode_FOUND
	RequestDenied              = idl.StatusCode_REQUEST_DENIED
	TooLargeRecord             = idl.StatusCode_TOO_LARGE_RECORD
	InternalServerError        = idl.StatusCode_INTERNAL_SERVER_ERROR
	NotImplemented             = idl.StatusCode_NOT_IMPLEMENTED
	AlreadyClosed              = idl.StatusCode_ALREADY_CLOSED
	ServiceUnavailable         = idl.StatusCode_SERVICE_UNAVAILABLE
	LockingException           = idl.StatusCode_LOCKING_EXCEPTION
	ZooKeeperError             = idl.StatusCode_ZOOKEEPER_ERROR
	MetadataException          = idl.StatusCode_METADATA_EXCEPTION
	BKTransmitError            = idl.StatusCode_BK_TRANSMIT_ERROR
	FlushTimeout               = idl.StatusCode_FLUSH_TIMEOUT
	LogEmpty                   = idl.StatusCode_LOG_EMPTY
	LogNotFound                = idl.StatusCode_LOG_NOT_FOUND
	TruncatedTransaction       = idl.StatusCode_TRUNCATED_TRANSACTION
	EndOfStream                = idl.StatusCode_END_OF_STREAM
	TransactionOutOfOrder      = idl.StatusCode_TRANSACTION_OUT_OF_ORDER
	WriteException             = idl.StatusCode_WRITE_EXCEPTION
	StreamUnavailable          = idl.StatusCode_STREAM_UNAVAILABLE
	WriteCancelled             = idl.StatusCode_WRITE_CANCELLED_EXCEPTION
	OverCapacity               = idl.StatusCode_OVER_CAPACITY
	StreamNotReady             = idl.StatusCode_STREAM_NOT_READY
	RegionUnavailable          = idl.StatusCode_REGION_UNAVAILABLE
	InvalidEnvelopedEntry      = idl.StatusCode_INVALID_ENVELOPED_ENTRY
	UnsupportedMetadataVersion = idl.StatusCode_UNSUPPORTED_METADATA_VERSION
	LogExists                  = idl.StatusCode_LOG_EXISTS
	ChecksumFailed             = idl.StatusCode_CHECKSUM_FAILED
	TooManyStreams             = idl.StatusCode_TOO_MANY_STREAMS
	Unexpected                 = idl.StatusCode_UNEXPECTED
	Interrupted                = idl.StatusCode_INTERRUPTED
	InvalidStreamName          = idl.StatusCode_INVALID_STREAM_NAME
	IllegalState               = idl.StatusCode_ILLEGAL_STATE
	RetryableRead              = idl.StatusCode_RETRYABLE_READ
	LogReadError               = idl.StatusCode_LOG_READ_ERROR
	ReadCancelled              = idl.StatusCode_READ_CANCELLED_EXCEPTION
)

// Reaction is what a client does about an answer.
type Reaction uint8

// Reactions, as DistributedLog's client has them.
const (
	Done       Reaction = iota // success
	Elsewhere                  // forget this proxy as the stream's owner and ask another
	Redirect                   // the answer may name the owner; ask there
	Fail                       // give the error to the caller
	DropHost                   // drop this proxy from routing, ask another
	KeepAndAsk                 // ask another, but remember the owner
)

// status is one row of the table of codes.
type status struct {
	code  Code
	react Reaction
	// unknown: an append that got this code may be in the stream.
	unknown bool
	// errs are the conditions that the code stands for; the code is what the
	// first code of the table gives for the condition.
	errs []error
}

// statuses ties codes to conditions, in the order in which conditions are
// looked for: a more telling one before a more general one.
var statuses = []status{
	{code: Success, react: Done},
	{code: Found, react: Redirect, errs: []error{stream.ErrNotOwner}},
	{code: LockingException, react: Elsewhere, unknown: true, errs: []error{stream.ErrFenced}},
	{code: TooLargeRecord, react: Fail, errs: []error{stream.ErrRecordTooLong}},
	{code: InvalidStreamName, react: Fail, errs: []error{stream.ErrInvalidName}},
	{code: EndOfStream, react: Fail, errs: []error{stream.ErrSealed, stream.ErrEndOfStream}},
	{code: TransactionOutOfOrder, react: Fail, errs: []error{stream.ErrTxIDOrder}},
	{code: TruncatedTransaction, react: Fail, errs: []error{stream.ErrTruncated}},
	{code: LogNotFound, react: Fail, errs: []error{stream.ErrNotFound}},
	{code: LogExists, react: Elsewhere, errs: []error{stream.ErrExists}},
	{code: LogEmpty, react: Fail, errs: []error{stream.ErrEmpty}},
	{code: OverCapacity, react: Fail, errs: []error{stream.ErrBufferFull}},
	{code: RequestDenied, react: Fail, errs: []error{stream.ErrUnauthorized}},
	{code: UnsupportedMetadataVersion, react: Elsewhere, errs: []error{stream.ErrUnsupported}},
	{code: InvalidEnvelopedEntry, react: Elsewhere, unknown: true, errs: []error{stream.ErrCorrupt}},
	{code: MetadataException, react: Fail, unknown: true, errs: []error{stream.ErrConflict}},
	{code: BKTransmitError, react: Elsewhere, unknown: true, errs: []error{stream.ErrNotEnoughBookies}},
	{code: FlushTimeout, react: Elsewhere, unknown: true, errs: []error{stream.ErrTimeout, context.DeadlineExceeded}},
	{code: AlreadyClosed, react: Elsewhere, unknown: true, errs: []error{stream.ErrClosed}},
	{code: StreamUnavailable, react: Elsewhere, errs: []error{stream.ErrUnavailable}},
	{code: NotImplemented, react: Fail, errs: []error{errors.ErrUnsupported}},
	{code: Interrupted, react: Elsewhere, unknown: true, errs: []error{context.Canceled}},
	{code: InternalServerError, react: Elsewhere, unknown: true},
	{code: ServiceUnavailable, react: DropHost},
	{code: ClientClosed, react: Elsewhere, unknown: true},
	{code: ZooKeeperError, react: Elsewhere, unknown: true},
	{code: WriteException, react: Elsewhere, unknown: true},
	{code: WriteCancelled, react: Elsewhere},
	{code: StreamNotReady, react: Fail},
	{code: RegionUnavailable, react: KeepAndAsk},
	{code: ChecksumFailed, react: Fail},
	{code: TooManyStreams, react: KeepAndAsk},
	{code: Unexpected, react: Elsewhere, unknown: true},
	{code: IllegalState, react: Elsewhere, unknown: true},
	{code: RetryableRead, react: Elsewhere, unknown: true},
	{code: LogReadError, react: Elsewhere, unknown: true},
	{code: ReadCancelled, react: Elsewhere, unknown: true},
}

// alike are codes that say of a stream what another code's conditions say.
var alike = map[Code][]error{
	ServiceUnavailable: {stream.ErrUnavailable},
	StreamNotReady:     {stream.ErrUnavailable},
	RegionUnavailable:  {stream.ErrUnavailable},
	TooManyStreams:     {stream.ErrUnavailable},
	ZooKeeperError:     {stream.ErrUnavailable},
	ChecksumFailed:     {stream.ErrCorrupt},
	ClientClosed:       {stream.ErrClosed},
}

func lookUp(c Code) *status {
	for i := range statuses {
		if statuses[i].code == c {
			return &statuses[i]
		}
	}
	return nil
}

// ReactionTo tells what a client does about an answer with this code.
func ReactionTo(c Code) Reaction {
	if s := lookUp(c); s != nil {
		return s.react
	}
	return Elsewhere
}

// MayHaveHappened reports whether an append that was answered with this code
// may be in the stream all the same.
func MayHaveHappened(c Code) bool {
	s := lookUp(c)
	return s == nil || s.unknown
}

// CodeOf is the status code for an error of the stream world, Success for nil
// and InternalServerError for what is not in the table.
func CodeOf(err error) Code {
	if err == nil {
		return Success
	}
	var se *StatusError
	if errors.As(err, &se) {
		return se.Code
	}
	for i := range statuses {
		for _, e := range statuses[i].errs {
			if errors.Is(err, e) {
				return statuses[i].code
			}
		}
	}
	return InternalServerError
}

// StatusError is an answer that is not success. errors.Is finds the conditions
// of package stream that the code stands for.
type StatusError struct {
	Code     Code
	Message  string
	Location string // of Found: the owner, as a location
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("proxy answers %d %s", int32(e.Code), e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Location != "" {
		s += " (owner " + e.Location + ")"
	}
	return s
}

// Is tells whether target is a condition that the code stands for.
func (e *StatusError) Is(target error) bool {
	if s := lookUp(e.Code); s != nil {
		for _, c := range s.errs {
			if c == target {
				return true
			}
		}
	}
	for _, c := range alike[e.Code] {
		if c == target {
			return true
		}
	}
	return false
}

// HeaderOf is the header for an error, Success for nil. The message of Found
// stays empty, as DistributedLog has it.
func HeaderOf(err error) *ResponseHeader {
	h := &ResponseHeader{Code: CodeOf(err)}
	if err == nil {
		return h
	}
	var se *StatusError
	if errors.As(err, &se) && se.Location != "" {
		h.Location = &se.Location
	}
	if h.Code != Found {
		msg := err.Error()
		if se != nil && err == error(se) {
			msg = se.Message
		}
		h.ErrMsg = &msg
	}
	return h
}

// ErrorOf is the error that a header carries, nil for success.
func ErrorOf(h *ResponseHeader) error {
	if h == nil {
		return protocolErrorf("answer without a header")
	}
	if h.Code == Success {
		return nil
	}
	return &StatusError{Code: h.Code, Message: h.GetErrMsg(), Location: h.GetLocation()}
}
