// Package bkpb holds the messages of protocol version 3, generated from
// bookkeeper.proto. Package wire frames them; nothing else should need to
// marshal one.
package bkpb

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=. --go_opt=paths=source_relative bookkeeper.proto"
