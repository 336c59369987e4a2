package wire

// The compiler is Thrift 0.17 or later. It refuses the method name "delete", so
// the name is put right afterwards.
//go:generate sh -c "thrift -out internal --gen go:skip_remote loglode.thrift && sed -i 's/\"Delete\"/\"delete\"/g; s/\"Delete /\"delete /g' internal/idl/loglode.go && gofmt -w internal/idl"
