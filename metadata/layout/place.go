package layout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// Place is what a bookie tells of where it is and how much room it has, for
// clients that choose bookies by it. All of it is a hint; Java's clients and
// bookies do not read it.
//
// In ZooKeeper's trees it is properties of the bookie's service info, each with
// the prefix "loglode.", and goes with the registration. In etcd's tree, where
// registrations are empty, it is a node of its own that outlives them,
// <scope>/placement/<id>, a JSON object of the same properties:
//
//	{"loglode.region":"eu","loglode.zone":"a","loglode.rack":"r1","loglode.label.disk":"ssd",
//	 "loglode.weight":"2","loglode.free":"1073741824","loglode.total":"4294967296","loglode.draining":"true"}
type Place struct {
	Region, Zone, Rack string            // "" = not known
	Labels             map[string]string // free
	Weight             float64           // share of new ledgers; 0 = 1
	FreeBytes          int64             // room on its ledger directories; 0 = not known
	TotalBytes         int64             // their size; 0 = not known
	Draining           bool              // to be emptied: not to be chosen for new ledgers
}

// Names of the properties. On disk: do not rename.
const (
	placePrefix   = "loglode."
	placeRegion   = placePrefix + "region"
	placeZone     = placePrefix + "zone"
	placeRack     = placePrefix + "rack"
	placeLabel    = placePrefix + "label."
	placeWeight   = placePrefix + "weight"
	placeFree     = placePrefix + "free"
	placeTotal    = placePrefix + "total"
	placeDraining = placePrefix + "draining"
)

// Properties gives the place as properties of a ServiceInfo; what is not known
// has none.
func (p Place) Properties() map[string]string {
	m := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			m[name] = value
		}
	}
	set(placeRegion, p.Region)
	set(placeZone, p.Zone)
	set(placeRack, p.Rack)
	for k, v := range p.Labels {
		m[placeLabel+k] = v
	}
	if p.Weight != 0 {
		m[placeWeight] = strconv.FormatFloat(p.Weight, 'g', -1, 64)
	}
	if p.FreeBytes != 0 {
		m[placeFree] = strconv.FormatInt(p.FreeBytes, 10)
	}
	if p.TotalBytes != 0 {
		m[placeTotal] = strconv.FormatInt(p.TotalBytes, 10)
	}
	if p.Draining {
		m[placeDraining] = "true"
	}
	return m
}

// PlaceOf takes the place from properties; others than those of Properties are
// passed over. A value that cannot be used is left out and named in the error,
// which wraps bk.ErrCorrupt.
func PlaceOf(properties map[string]string) (Place, error) {
	p := Place{Region: properties[placeRegion], Zone: properties[placeZone], Rack: properties[placeRack]}
	var errs []error
	bad := func(name, want string) {
		errs = append(errs, &bk.CorruptError{
			Where: "bookie property " + name, Offset: -1, Want: want, Got: fmt.Sprintf("%.40q", properties[name]),
		})
	}
	for k, v := range properties {
		if label, ok := strings.CutPrefix(k, placeLabel); ok {
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels[label] = v
		}
	}
	if s, ok := properties[placeWeight]; ok {
		w, err := strconv.ParseFloat(s, 64)
		if err != nil || !(w > 0) || math.IsInf(w, 1) {
			bad(placeWeight, "a number above 0")
		} else {
			p.Weight = w
		}
	}
	for _, f := range []struct {
		name string
		to   *int64
	}{{placeFree, &p.FreeBytes}, {placeTotal, &p.TotalBytes}} {
		if s, ok := properties[f.name]; ok {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || n < 0 {
				bad(f.name, "a number of bytes")
			} else {
				*f.to = n
			}
		}
	}
	switch properties[placeDraining] {
	case "", "false":
	case "true":
		p.Draining = true
	default:
		bad(placeDraining, "true or false")
	}
	return p, errors.Join(errs...)
}

// parsePlace reads the value of a node that carries a place in a tree of kind k.
func parsePlace(k Kind, value []byte) (Place, error) {
	if len(value) == 0 {
		return Place{}, nil
	}
	if k != Etcd {
		info, err := ParseServiceInfo(value)
		if err != nil {
			return Place{}, err
		}
		return PlaceOf(info.Properties)
	}
	var properties map[string]string
	if err := json.Unmarshal(value, &properties); err != nil {
		return Place{}, &bk.CorruptError{Where: "place of a bookie", Offset: -1, Want: "a JSON object of strings", Got: err.Error()}
	}
	return PlaceOf(properties)
}

// placeLists are the keys whose children carry places, the one that counts last.
func (c *Cluster) placeLists() []string {
	if c.form.layout() == Etcd {
		return []string{c.scope + "/placement"}
	}
	return []string{c.keys.readOnly, c.keys.writable}
}

// Places gives the places of all bookies of which one is known, also of some
// that are not registered now. It may give places and an error: of values that
// cannot be read.
func (c *Cluster) Places(ctx context.Context) (map[bk.BookieID]Place, error) {
	out := map[bk.BookieID]Place{}
	var errs []error
	for _, list := range c.placeLists() {
		for n, err := range metadata.Children(ctx, c.store, list, metadata.ListOptions{}) {
			if errors.Is(err, metadata.ErrNotFound) {
				break // none yet
			}
			if err != nil {
				return nil, fmt.Errorf("places of bookies: %w", err)
			}
			id, err := bk.ParseBookieID(metadata.Name(n.Key))
			if err != nil || len(n.Value) == 0 {
				continue
			}
			p, err := parsePlace(c.form.layout(), n.Value)
			if err != nil {
				errs = append(errs, fmt.Errorf("bookie %s: %w", id, err))
			}
			out[id] = p
		}
	}
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("places of bookies: %w", err)
	}
	return out, nil
}

// UpdatePlace changes what is stored of a bookie's place by compare-and-set.
// change gets what is there, or nothing if that cannot be read. In ZooKeeper's
// trees the bookie must be registered (metadata.ErrNotFound), and a later
// registration of it replaces the change.
func (c *Cluster) UpdatePlace(ctx context.Context, id bk.BookieID, change func(*Place)) error {
	if _, err := bk.ParseBookieID(string(id)); err != nil {
		return fmt.Errorf("place of bookie %.80q: %w", id, err)
	}
	update := c.updateOwnPlace
	if c.form.layout() != Etcd {
		update = c.updateProperties
	}
	if err := update(ctx, id, change); err != nil {
		return fmt.Errorf("place of bookie %s: %w", id, err)
	}
	return nil
}

// updateOwnPlace changes the place's own node, which it makes if need be.
func (c *Cluster) updateOwnPlace(ctx context.Context, id bk.BookieID, change func(*Place)) error {
	key := metadata.Child(c.placeLists()[0], string(id))
	next := func(value []byte) ([]byte, error) {
		p, _ := parsePlace(Etcd, value) // what cannot be read is replaced
		change(&p)
		return json.Marshal(p.Properties())
	}
	for {
		_, err := metadata.Update(ctx, c.store, key, func(n metadata.Node) ([]byte, error) { return next(n.Value) })
		if !errors.Is(err, metadata.ErrNotFound) {
			return err
		}
		value, err := next(nil)
		if err != nil {
			return err
		}
		_, err = metadata.CreateOnce(ctx, c.store, metadata.Create(key, value).WithParents(), nil)
		if !errors.Is(err, metadata.ErrExists) {
			return err
		}
	}
}

// updateProperties changes the service info of a registered bookie; what is in
// it beside the place stays.
func (c *Cluster) updateProperties(ctx context.Context, id bk.BookieID, change func(*Place)) error {
	err := error(metadata.ErrNotFound)
	for _, list := range slices.Backward(c.placeLists()) {
		_, err = metadata.Update(ctx, c.store, metadata.Child(list, string(id)), func(n metadata.Node) ([]byte, error) {
			info := ServiceInfo{}
			if len(n.Value) > 0 {
				var perr error
				if info, perr = ParseServiceInfo(n.Value); perr != nil {
					return nil, perr
				}
			}
			p, _ := PlaceOf(info.Properties) // what cannot be used is replaced
			change(&p)
			return c.form.registration(id, ServiceInfo{Endpoints: info.Endpoints, Properties: withPlace(info.Properties, p)})
		})
		if !errors.Is(err, metadata.ErrNotFound) {
			break
		}
	}
	return err
}

// withPlace gives properties with p in place of the place in them.
func withPlace(properties map[string]string, p Place) map[string]string {
	out := p.Properties()
	for k, v := range properties {
		switch {
		case strings.HasPrefix(k, placeLabel):
		case k == placeRegion, k == placeZone, k == placeRack, k == placeWeight, k == placeFree, k == placeTotal, k == placeDraining:
		default:
			out[k] = v
		}
	}
	return out
}
