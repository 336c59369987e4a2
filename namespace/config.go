package namespace

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
)

// Nodes beside DistributedLog's tree of a stream. Angle brackets are not
// allowed in names, so no nested stream can collide with them.
const (
	configNode      = "<config>"
	checkpointsNode = "<checkpoints>"
)

const configVersion = 1 // on disk: do not renumber

// storedConfig is the value of a stream's <config> node: JSON, fields of newer
// versions are ignored. See docs/format/stream-config.md.
type storedConfig struct {
	Version int    `json:"version"`
	Token   string `json:"token"` // of the creation, so that a lost answer can be settled
	stream.Config
}

func configKey(s *segment.Stream) string { return metadata.Child(s.Key(), configNode) }

func marshalConfig(c stream.Config) ([]byte, error) {
	b, err := json.Marshal(storedConfig{Version: configVersion, Token: rand.Text(), Config: c.WithDefaults()})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w: %w", stream.ErrInvalidConfig, err)
	}
	return b, nil
}

// unmarshalConfig reads the value of the node key.
func unmarshalConfig(key string, value []byte) (stream.Config, error) {
	var c storedConfig
	if err := json.Unmarshal(value, &c); err != nil {
		return stream.Config{}, &stream.CorruptError{Where: key, Offset: -1, Want: "a stream configuration", Got: err.Error()}
	}
	if c.Version != configVersion {
		return stream.Config{}, fmt.Errorf("%s: version %d, want %d: %w", key, c.Version, configVersion, stream.ErrUnsupported)
	}
	if err := c.Config.Validate(); err != nil {
		return stream.Config{}, fmt.Errorf("%s: %w: %w", key, stream.ErrCorrupt, err)
	}
	return c.Config.WithDefaults(), nil
}

// loadConfig gives a stream's configuration: the default one for a stream that
// another library made.
func (n *Namespace) loadConfig(ctx context.Context, s *segment.Stream) (stream.Config, error) {
	node, err := n.store.Get(ctx, configKey(s))
	if errors.Is(err, metadata.ErrNotFound) {
		return stream.Config{}.WithDefaults(), nil
	}
	if err != nil {
		return stream.Config{}, unreachable(err)
	}
	return unmarshalConfig(node.Key, node.Value)
}
