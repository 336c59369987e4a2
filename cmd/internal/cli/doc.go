// Package cli is the command line of loglode: one file and test per command.
//
// Results go to stdout in the form that -o asks for, everything else to
// stderr. A setting comes from its flag, else from LOGLODE_<FLAG>, else from
// the YAML file that --config or LOGLODE_CONFIG names. Exit codes are a
// contract with scripts: see exit.go.
package cli
