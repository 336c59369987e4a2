// Package bkpb holds the protobuf messages of BookKeeper's metadata, generated
// from bookkeeper_metadata.proto.
package bkpb

//go:generate go build -o protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
//go:generate protoc --plugin=protoc-gen-go=./protoc-gen-go --go_out=. --go_opt=paths=source_relative bookkeeper_metadata.proto
//go:generate rm protoc-gen-go
