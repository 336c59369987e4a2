package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// applyConfig gives each flag that the command line left alone the value of
// LOGLODE_<FLAG>, else of the configuration file.
func (a *app) applyConfig(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("config") {
		a.config = os.Getenv("LOGLODE_CONFIG")
	}
	file, err := readConfig(a.config)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	var first error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		known[f.Name] = true
		if f.Changed || f.Name == "config" || f.Name == "help" || first != nil {
			return
		}
		first = setFromOutside(cmd.Flags(), f, file)
	})
	return first
}

func setFromOutside(flags *pflag.FlagSet, f *pflag.Flag, file map[string][]string) error {
	env := "LOGLODE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	values, where := file[f.Name], "configuration file"
	if v, ok := os.LookupEnv(env); ok {
		values, where = []string{v}, env
	}
	for _, v := range values {
		if err := flags.Set(f.Name, v); err != nil {
			return usageError{fmt.Errorf("%s: %s: %w", where, f.Name, err)}
		}
	}
	return nil
}

// readConfig reads a YAML mapping from flag names to a value or a list of
// values. No path means no file.
func readConfig(path string) (map[string][]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("configuration file: %w", err)}
	}
	var raw map[string]any
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return nil, usageError{fmt.Errorf("configuration file %s: %w", path, err)}
	}
	out := map[string][]string{}
	for k, v := range raw {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, x := range list {
			out[k] = append(out[k], fmt.Sprint(x))
		}
	}
	return out, nil
}
