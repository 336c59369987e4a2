// Command loglode is Loglode in one binary: servers, client commands, and a
// whole system in one process for development.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/loglode/loglode/cmd/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
