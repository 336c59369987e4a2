// The service of a write proxy: DistributedLog's, method for method and field
// for field. Field ids below 100 are DistributedLog's: do not renumber. Those
// from 100 on are Loglode's own; they are optional, sent only to a peer that
// sent one, and skipped by everybody else.
//
// No argument may be named "ctx": the Go code that is made of this file would
// not compile.

namespace go idl

enum ServerStatus {
  WRITE_AND_ACCEPT = 100
  WRITE_ONLY = 200
  DOWN = 300
}

enum StatusCode {
  SUCCESS = 200
  CLIENT_CLOSED = 301
  FOUND = 302
  REQUEST_DENIED = 403
  TOO_LARGE_RECORD = 413
  INTERNAL_SERVER_ERROR = 500
  NOT_IMPLEMENTED = 501
  ALREADY_CLOSED = 502
  SERVICE_UNAVAILABLE = 503
  LOCKING_EXCEPTION = 504
  ZOOKEEPER_ERROR = 505
  METADATA_EXCEPTION = 506
  BK_TRANSMIT_ERROR = 507
  FLUSH_TIMEOUT = 508
  LOG_EMPTY = 509
  LOG_NOT_FOUND = 510
  TRUNCATED_TRANSACTION = 511
  END_OF_STREAM = 512
  TRANSACTION_OUT_OF_ORDER = 513
  WRITE_EXCEPTION = 514
  STREAM_UNAVAILABLE = 515
  WRITE_CANCELLED_EXCEPTION = 516
  OVER_CAPACITY = 517
  STREAM_NOT_READY = 518
  REGION_UNAVAILABLE = 519
  INVALID_ENVELOPED_ENTRY = 520
  UNSUPPORTED_METADATA_VERSION = 521
  LOG_EXISTS = 522
  CHECKSUM_FAILED = 523
  TOO_MANY_STREAMS = 524
  UNEXPECTED = 600
  INTERRUPTED = 601
  INVALID_STREAM_NAME = 602
  ILLEGAL_STATE = 603
  RETRYABLE_READ = 1000
  LOG_READ_ERROR = 1001
  READ_CANCELLED_EXCEPTION = 1002
}

struct ResponseHeader {
  1: required StatusCode code
  2: optional string errMsg
  3: optional string location
  // Answer to a bind (heartbeat with a producer): the token that the
  // producer's appends to this stream carry from then on.
  100: optional i64 binding
}

struct WriteResponse {
  1: required ResponseHeader header
  2: optional string dlsn
}

struct BulkWriteResponse {
  1: required ResponseHeader header
  2: optional list<WriteResponse> writeResponses
}

struct WriteContext {
  1: optional set<string> triedHosts
  2: optional i64 crc32
  3: optional bool isRecordSet
  // Loglode's ordered appends, see docs/format/proxy.md.
  100: optional string producer
  101: optional i64 binding
}

struct HeartbeatOptions {
  1: optional bool sendHeartBeatToReader
}

struct ServerInfo {
  1: optional map<string, string> ownerships
  2: optional ServerStatus serverStatus
}

struct ClientInfo {
  1: optional string streamNameRegex
  2: optional bool getOwnerships
}

service DistributedLogService {
  ServerInfo handshake()
  ServerInfo handshakeWithClientInfo(1: ClientInfo clientInfo)
  WriteResponse heartbeat(1: string stream, 2: WriteContext writeContext)
  WriteResponse heartbeatWithOptions(1: string stream, 2: WriteContext writeContext, 3: HeartbeatOptions options)
  WriteResponse write(1: string stream, 2: binary data)
  WriteResponse writeWithContext(1: string stream, 2: binary data, 3: WriteContext writeContext)
  BulkWriteResponse writeBulkWithContext(1: string stream, 2: list<binary> data, 3: WriteContext writeContext)
  WriteResponse truncate(1: string stream, 2: string dlsn, 3: WriteContext writeContext)
  WriteResponse release(1: string stream, 2: WriteContext writeContext)
  WriteResponse create(1: string stream, 2: WriteContext writeContext)
  // "delete" on the wire: the compiler takes that word for a keyword, so the
  // generated code is patched (see generate.go).
  WriteResponse Delete(1: string stream, 2: WriteContext writeContext)
  void setAcceptNewStream(1: bool enabled)
}
