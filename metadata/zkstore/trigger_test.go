package zkstore

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Which events fire which ZooKeeper watches: those of the node for its own
// changes, those of its children's names for theirs and for its end.
func TestEventsFireTriggers(t *testing.T) {
	node, children, other := point{key: "/p"}, point{key: "/p", children: true}, point{key: "/p/a"}
	for _, c := range []struct {
		event zk.EventType
		fired []point
	}{
		{zk.EventNodeCreated, []point{node}},
		{zk.EventNodeDataChanged, []point{node}},
		{zk.EventNodeChildrenChanged, []point{children}},
		{zk.EventNodeDeleted, []point{node, children}},
	} {
		s := &Store{triggers: map[point]*trigger{}}
		watches := map[point]*watch{}
		for _, p := range []point{node, children, other} {
			watches[p] = &watch{wake: make(chan struct{}, 1)}
			s.triggers[p] = &trigger{armed: true, waiting: []*watch{watches[p]}}
		}
		s.fire(zk.Event{Type: c.event, Path: "/p"})
		for p, w := range watches {
			fired := 0
			for _, f := range c.fired {
				if f == p {
					fired++
				}
			}
			require.Len(t, w.wake, fired, "%v at %+v", c.event, p)
			require.Equal(t, fired == 0, s.triggers[p] != nil, "%v at %+v", c.event, p)
		}
		s.fireAll()
		require.Empty(t, s.triggers)
		require.Len(t, watches[other].wake, 1)
	}
}

// A watch that ends leaves nothing of its own behind: ZooKeeper watches that
// are set stay for whoever comes next, those that are not are forgotten.
func TestWatchThatEndsLeavesTheTriggers(t *testing.T) {
	s := &Store{triggers: map[point]*trigger{}}
	one, two := &watch{key: "/p", children: true, names: []string{"a", "b"}}, &watch{key: "/p"}
	s.triggers[point{key: "/p", children: true}] = &trigger{armed: true, names: []string{"a", "b"}, waiting: []*watch{one}}
	s.triggers[point{key: "/p"}] = &trigger{armed: true, waiting: []*watch{one, two}}
	s.triggers[point{key: "/p/a"}] = &trigger{armed: true, waiting: []*watch{one}}
	s.triggers[point{key: "/p/b"}] = &trigger{waiting: []*watch{one}} // being set
	s.forget(one)
	require.Equal(t, map[point]*trigger{
		{key: "/p", children: true}: {armed: true, names: []string{"a", "b"}, waiting: []*watch{}},
		{key: "/p"}:                 {armed: true, waiting: []*watch{two}},
		{key: "/p/a"}:               {armed: true, waiting: []*watch{}},
	}, s.triggers)
	require.Equal(t, []string{"a", "b"}, s.namesAt(point{key: "/p", children: true}))
	require.Empty(t, s.namesAt(point{key: "/q", children: true}))
}
