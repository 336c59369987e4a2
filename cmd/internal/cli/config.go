package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
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
	if err := checkKeys(cmd.Root(), a.config, file); err != nil {
		return err
	}
	var first error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "config" || f.Name == "help" || first != nil {
			return
		}
		first = setFromOutside(cmd.Flags(), f, file)
	})
	return first
}

// checkKeys refuses keys that are a flag of no command, as misspelt ones are. A
// file may serve several commands.
func checkKeys(root *cobra.Command, path string, file map[string][]string) error {
	known := map[string]bool{}
	note := func(f *pflag.Flag) { known[f.Name] = true }
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(note)
		c.PersistentFlags().VisitAll(note)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, k := range slices.Sorted(maps.Keys(file)) {
		if !known[k] {
			return usageError{fmt.Errorf("configuration file %s: %q is no flag of any command", path, k)}
		}
	}
	return nil
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
