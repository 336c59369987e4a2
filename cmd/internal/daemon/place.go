package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// How often a bookie looks at its free space, and by which part of the whole it
// must have changed to be told: clients choose by it, but need not know it
// exactly, and every change is a metadata write.
const (
	roomInterval = time.Minute
	roomStep     = 1.0 / 50
)

// validatePlace names the field and value it refuses.
func validatePlace(p layout.Place) error {
	for _, f := range []struct{ name, value string }{{"region", p.Region}, {"zone", p.Zone}, {"rack", p.Rack}} {
		if f.value == "" {
			continue
		}
		if err := placement.ValidName(f.value); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrOptions, f.name, err)
		}
	}
	for k, v := range p.Labels {
		if err := errors.Join(placement.ValidName(k), placement.ValidName(v)); err != nil {
			return fmt.Errorf("%w: label %.40s=%.40s: %w", ErrOptions, k, v, err)
		}
	}
	if p.Weight < 0 {
		return fmt.Errorf("%w: weight %v is negative", ErrOptions, p.Weight)
	}
	return nil
}

// tellsPlace says whether the operator gave a place with the bookie. Otherwise
// what is stored of it stays.
func tellsPlace(p layout.Place) bool {
	return p.Region != "" || p.Zone != "" || p.Rack != "" || len(p.Labels) > 0 || p.Weight != 0
}

// room is a bookie's free and total space.
func (b *Bookie) room() (free, total int64, err error) {
	total, free, err = b.store.Info()
	return free, total, err
}

// firstPlace stores where the bookie is, before it is listed and chosen by it,
// and gives the properties to register with.
func (b *Bookie) firstPlace(ctx context.Context, cluster *layout.Cluster, id bk.BookieID, place layout.Place) (map[string]string, error) {
	free, total, err := b.room()
	if err != nil {
		return nil, err
	}
	if cluster.Kind() != layout.Etcd {
		place.FreeBytes, place.TotalBytes = free, total
		b.told = free
		return place.Properties(), nil
	}
	err = cluster.UpdatePlace(ctx, id, func(p *layout.Place) {
		if tellsPlace(place) {
			draining := p.Draining
			*p = place
			p.Labels, p.Draining = maps.Clone(place.Labels), draining
		}
		p.FreeBytes, p.TotalBytes = free, total
	})
	b.told = free
	return nil, err
}

// tellRoom stores the bookie's free space whenever it has changed enough, until
// ctx ends.
func (b *Bookie) tellRoom(ctx context.Context, cluster *layout.Cluster, id bk.BookieID, log *zap.Logger) {
	tick := time.NewTicker(roomInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := b.tellRoomOnce(ctx, cluster, id); err != nil && ctx.Err() == nil {
			log.Warn("free space is not told to clients", zap.String("bookie", string(id)), zap.Error(err))
		}
	}
}

func (b *Bookie) tellRoomOnce(ctx context.Context, cluster *layout.Cluster, id bk.BookieID) error {
	free, total, err := b.room()
	if err != nil {
		return err
	}
	if float64(max(free-b.told, b.told-free)) < float64(total)*roomStep {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataWait)
	defer cancel()
	err = cluster.UpdatePlace(ctx, id, func(p *layout.Place) { p.FreeBytes, p.TotalBytes = free, total })
	if errors.Is(err, metadata.ErrNotFound) {
		return nil // not registered at the moment
	}
	if err == nil {
		b.told = free
	}
	return err
}
